package report_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// TestThirdParty checks that third-party code equals the published files.
func TestThirdParty(t *testing.T) {
	sums, err := os.ReadFile("third_party/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"SHA256SUMS": true, "README.md": true}
	for line := range strings.Lines(string(sums)) {
		want, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			t.Fatalf("SHA256SUMS: line %q, want a checksum and a name", line)
		}
		text, err := os.ReadFile(filepath.Join("third_party", name))
		if err != nil {
			t.Fatal(err)
		}
		if have := sha256.Sum256(text); hex.EncodeToString(have[:]) != want {
			t.Errorf("%s: the checksum differs from SHA256SUMS", name)
		}
		known[name] = true
	}
	files, err := os.ReadDir("third_party")
	if err != nil || len(files) < 5 {
		t.Fatalf("files %v, %v; want 5 or more", files, err)
	}
	for _, f := range files {
		if !known[f.Name()] {
			t.Errorf("%s has no checksum", f.Name())
		}
	}
}

func page(t testing.TB, r *report.Report) string {
	t.Helper()
	var out bytes.Buffer
	if err := report.HTML(&out, r, ""); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestPageLoadsNothing checks that the page does not load anything from a network.
func TestPageLoadsNothing(t *testing.T) {
	text := page(t, report.Build(read(t, faulty(t))))
	if m := regexp.MustCompile(`(?i)(src|href|action)\s*=\s*["']?(https?:|//)[^"'>]*|@import|url\(\s*["']?(https?:|//)`).FindString(text); m != "" {
		t.Errorf("the page names %s, want \"\"", m)
	}
	for _, want := range []string{
		`default-src 'none'`, `data-chart="timeline"`, `data-chart="ledger"`, `data-chart="steps"`, `data-chart="heat"`, `data-chart="lanes"`,
		`data-chart="comm"`, `data-chart="saves"`, "Rank 3&#39;s data loading (node-a0)", `<html lang="en">`, `prefers-color-scheme: dark`, "Disruptions",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

// TestNamesAreText checks that names, which come from files, do not become markup.
func TestNamesAreText(t *testing.T) {
	r := report.Build(read(t, faulty(t)))
	evil := `</script><script>alert(1)</script><b>` + "\x1b[31m\u009b2J\u202e\u200b\x7f\r\n\xff\\u001b\\"
	r.Name, r.SessionTag, r.Ranks[0].Host = evil, evil, evil
	r.Slowest = append(r.Slowest, report.SlowSpan{Name: evil})
	r.Series.Lanes.Parts[0].Name = evil
	text := page(t, r)
	if strings.Contains(text, evil) || strings.Contains(text, "<script>alert") {
		t.Error("a name is markup, want text")
	}
	if strings.ContainsAny(text, "\x1b\u009b\u202e\u200b\x7f\r") || !utf8.ValidString(text) {
		t.Error("a name is not escaped")
	}
	_, data, _ := strings.Cut(text, `id="data">`)
	var page struct {
		Series struct {
			Lanes struct{ Parts []struct{ Name string } }
		}
	}
	if err := json.NewDecoder(strings.NewReader(data)).Decode(&page); err != nil || len(page.Series.Lanes.Parts) == 0 {
		t.Fatalf("data of the page: %v, %+v; want parts of lanes", err, page)
	}
	if got, want := page.Series.Lanes.Parts[0].Name, "</script><script>alert(1)</script><b>·[31m·2J·····\ufffd\\u001b\\"; got != want {
		t.Errorf("a picture has %q, want %q", got, want)
	}
	r.Verdict.Sentence = "a\x1b[31mb\x00\nc"
	var out bytes.Buffer
	if err := report.Text(&out, r); err != nil || strings.ContainsAny(out.String(), "\x1b\x00") {
		t.Errorf("Text() = %v, want no control characters of a name in the text", err)
	}
}

// TestSizes checks that pages and screens stay small for jobs of any size.
func TestSizes(t *testing.T) {
	for _, c := range []struct{ ranks, steps int }{{1, 3}, {1, 20_000}, {130, 30}, {2, 1000}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, simjob.Attempt{Ranks: c.ranks, Steps: c.steps, Save: 10, Scale: 0.02})
			r := report.Build(read(t, dir))
			screen(t, r)
			if n := len(page(t, r)); n > 1<<20 {
				t.Errorf("%d bytes, want at most %d", n, 1<<20)
			}
			if s := r.Series.Steps; s != nil && len(s.Step) > 900 {
				t.Errorf("the series has %d steps, want at most 900", len(s.Step))
			}
			if h := r.Series.Heat; h != nil && (len(h.Ranks) > 128 || len(h.Steps) > 240) {
				t.Errorf("the heat map has %d rows and %d columns, want at most 128 and 240", len(h.Ranks), len(h.Steps))
			}
			if l := r.Series.Lanes; l != nil && len(l.Ranks) > 16 || len(r.Series.Time) > 151 {
				t.Errorf("%d lanes, %d edges of time; want at most 16 and 151", len(l.Ranks), len(r.Series.Time))
			}
		})
	}
}

// TestFactsOnPage checks that the page has the labelled lines of the first screen: the parts of a step, the start,
// the use of GPUs, a loss that is not a number, missing files and the utilization.
func TestFactsOnPage(t *testing.T) {
	dir := t.TempDir()
	if _, err := (simjob.Attempt{Ranks: 2, Steps: 60}).Write(dir); err != nil {
		t.Fatal(err)
	}
	r := report.Build(read(t, dir))
	step := int64(7)
	r.GPUs, r.BadLoss = []report.GPU{{Host: "a", Index: "0", Busy: 96, Memory: 60 << 30, Samples: 9}}, &report.BadLoss{Step: &step}
	r.Quality.Missing, r.Limits = []string{"the file of rank 7 is missing"}, &report.Limits{MFU: 0.4, Devices: 2}
	r.Evidence = []string{"rank 0 was killed", "memory grew"}
	text, lines := page(t, r), strings.Join(strings.Fields(strings.Join(r.First(80), " ")), " ")
	if !strings.Contains(text, "2 files, ") || strings.Contains(text, "0 spans, ") {
		t.Error("the page does not have the numbers of files and spans")
	}
	if strings.Contains(text, "--full") || strings.Count(text, "memory grew") != 1 {
		t.Error("the page has --full, or evidence twice")
	}
	for _, label := range []string{"Missing", "MFU", "Step", "Start", "Loss", "GPU"} {
		m := regexp.MustCompile("<dt>" + label + "</dt><dd>([^<]+)</dd>").FindStringSubmatch(text)
		if m == nil {
			t.Errorf("the page has no line %s", label)
		} else if want := label + " " + m[1]; !strings.Contains(lines, want) {
			t.Errorf("the page has %q, the screen %q", want, lines)
		}
	}
}
