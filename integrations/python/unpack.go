package python

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

//go:embed all:trainspan*
var client embed.FS

// site is the folder of what stands beside the package in PYTHONPATH.
const site = "trainspan_site/"

// phaseList finds the names in the client, which alone has the list.
var phaseList = regexp.MustCompile(`(?s)\nPHASES = \((.*?)\n\)`)

// Phases are the phases of PyTorch that can be switched on and off, in the client's
// order: the words for TRAINSPAN_ONLY and TRAINSPAN_WITHOUT.
func Phases() (names []string) {
	text, err := client.ReadFile("trainspan_torch/__init__.py")
	if err != nil {
		return nil
	}
	list := phaseList.FindSubmatch(text)
	if list == nil {
		return nil
	}
	for name := range strings.FieldsFuncSeq(string(list[1]), func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }) {
		names = append(names, name)
	}
	return names
}

// Unpack writes the client below a folder, for PYTHONPATH: sitecustomize.py and
// the packages trainspan and trainspan_torch. The folder is made if it is
// missing, and nobody else can read it.
func Unpack(dir string) error {
	err := fs.WalkDir(client, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() || filepath.Ext(path) != ".py" {
			return nil
		}
		to := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(path, site)))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		text, err := client.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o600)
	})
	if err != nil {
		return fmt.Errorf("python: unpack the client: %w", err)
	}
	return nil
}
