// Parts lists what commands consist of: every module that is linked into one of
// them, the standard library, and the chart library of the report's page. It
// writes the texts of their licenses, and a bill of materials as CycloneDX.
//
//	parts -version v1.2.3 -time 1700000000 -notices FILE -bom FILE linux_amd64/trainspan …
//
// It runs in the root of the repository. A command is in a folder that names
// its platform; its build information must agree with the sources. A part
// without a license is an error. The same commands give the same bytes.
package main

import (
	"bytes"
	"debug/buildinfo"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/licensecheck"
)

// part is a component of a command from another project.
type part struct {
	name, version string
	purl          string
	sum           string            // "h1:…" of go.sum, empty if it is not a module
	texts         map[string]string // by file
}

// licences returns the SPDX identifiers of its texts. A patent grant does not
// count.
func (p *part) licences() []string {
	found := map[string]bool{}
	for file, text := range p.texts {
		if strings.HasPrefix(path.Base(file), "PATENTS") {
			continue
		}
		for _, m := range licensecheck.Scan([]byte(text)).Match {
			found[m.ID] = true
		}
	}
	return sorted(found)
}

func main() {
	version := flag.String("version", "", "of the commands")
	at := flag.Int64("time", 0, "of the commit, in seconds since 1970")
	notices := flag.String("notices", "", "the file for the texts")
	bom := flag.String("bom", "", "the file for the bill of materials, none without")
	flag.Parse()
	if err := write(*version, time.Unix(*at, 0).UTC(), *notices, *bom, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "parts:", err)
		os.Exit(1)
	}
}

func write(version string, at time.Time, notices, bom string, commands []string) error {
	parts, err := linked(commands)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if len(p.licences()) == 0 {
			return fmt.Errorf("no licence is known in %s %s: files %v", p.name, p.version, sorted(p.texts))
		}
	}
	if err := os.WriteFile(notices, noticesOf(parts), 0o644); err != nil { //nolint:gosec // for everybody
		return err
	}
	if bom == "" {
		return nil
	}
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bomOf(version, at, parts), cdx.SpecVersion1_6); err != nil {
		return err
	}
	return os.WriteFile(bom, out.Bytes(), 0o644) //nolint:gosec // for everybody
}

// noticesOf returns the text of each part with its licenses, equal texts once.
func noticesOf(parts []*part) []byte {
	var out bytes.Buffer
	out.WriteString("The command trainspan contains what follows, each under its own licence.\n")
	for _, p := range parts {
		fmt.Fprintf(&out, "\n%s\n%s %s (%s)\n", strings.Repeat("=", 80), p.name, p.version, strings.Join(p.licences(), ", "))
		said := map[string]bool{}
		for _, file := range sorted(p.texts) {
			if text := strings.TrimSpace(p.texts[file]); !said[text] {
				said[text] = true
				fmt.Fprintf(&out, "\n--- %s\n\n%s\n", file, text)
			}
		}
	}
	return out.Bytes()
}

func bomOf(version string, at time.Time, parts []*part) *cdx.BOM {
	b := cdx.NewBOM()
	purl := "pkg:golang/github.com/trainspan/trainspan/cmd/trainspan@" + version
	b.Metadata = &cdx.Metadata{Timestamp: at.Format(time.RFC3339), Component: &cdx.Component{
		Type: cdx.ComponentTypeApplication, BOMRef: purl, Name: "trainspan", Version: version, PackageURL: purl,
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}}
	components, refs := []cdx.Component{}, []string{}
	for _, p := range parts {
		c := cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: p.purl, Name: p.name, Version: p.version, PackageURL: p.purl, Licenses: &cdx.Licenses{}}
		for _, id := range p.licences() {
			*c.Licenses = append(*c.Licenses, cdx.LicenseChoice{License: &cdx.License{ID: id}})
		}
		if p.sum != "" {
			c.Properties = &[]cdx.Property{{Name: "go:sum", Value: p.sum}}
		}
		components, refs = append(components, c), append(refs, p.purl)
	}
	b.Components = &components
	b.Dependencies = &[]cdx.Dependency{{Ref: purl, Dependencies: &refs}}
	return b
}

// linked returns the parts of commands, by name.
func linked(commands []string) ([]*part, error) {
	parts := map[string]*part{}
	for _, command := range commands {
		info, err := buildinfo.ReadFile(command)
		if err != nil {
			return nil, err
		}
		here, err := sources(filepath.Base(filepath.Dir(command)))
		if err != nil {
			return nil, err
		}
		for _, dep := range info.Deps {
			if strings.HasPrefix(dep.Path, "github.com/trainspan/trainspan") {
				continue
			}
			p := here[dep.Path]
			if p == nil || p.version != dep.Version {
				return nil, fmt.Errorf("%s has %s %s, the sources do not: build it anew", command, dep.Path, dep.Version)
			}
			p.sum = dep.Sum
		}
		for module, p := range here {
			if p.sum == "" && module != "std" {
				return nil, fmt.Errorf("%s lacks %s, which the sources import: build it anew", command, module)
			}
			if parts[module] == nil {
				parts[module] = p
			}
			maps.Copy(parts[module].texts, p.texts)
		}
		std := parts["std"]
		std.version = strings.TrimPrefix(info.GoVersion, "go")
		std.purl = "pkg:golang/std@" + std.version
	}
	page, err := ofThePage()
	if err != nil {
		return nil, err
	}
	parts[page.name] = page
	var all []*part
	for _, key := range sorted(parts) {
		all = append(all, parts[key])
	}
	return all, nil
}

// ofThePage returns the chart library of the report's page.
func ofThePage() (*part, error) {
	const at = "internal/report/third_party"
	readme, err := os.ReadFile(at + "/README.md")
	if err != nil {
		return nil, err
	}
	title := regexp.MustCompile(`^# (\S+) (\S+)\n`).FindSubmatch(readme)
	if title == nil {
		return nil, fmt.Errorf("%s/README.md does not begin with a name and a version", at)
	}
	p := &part{name: string(title[1]), version: string(title[2]), texts: map[string]string{}}
	p.purl = "pkg:npm/" + strings.ToLower(p.name) + "@" + p.version
	return p, p.read(at, "")
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
