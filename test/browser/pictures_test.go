package browser_test

import (
	"bytes"
	"context"
	"fmt"
	"html/template"
	"image"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/report"
)

// maxPictures limits the bytes of all pictures in the documents together.
const maxPictures = 300 << 10

// readReport reads a report that a make target left in a folder.
func readReport(t *testing.T, dir, name string) *report.Report {
	t.Helper()
	set, err := job.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := report.Read(set)
	if err != nil {
		t.Fatal(err)
	}
	jobs[0].Name = name
	return report.Build(jobs[0])
}

// picture is one file of docs/pictures: a region of a page, with a size that
// does not depend on the run.
type picture struct {
	name          string
	theme         string // empty: the page has only one, and the picture shows all of it
	address       string
	from          string // the element below which the region ends at the top; empty for the top of the page
	width, height int64
}

// TestPictures makes the pictures of the documents: see the make target.
func TestPictures(t *testing.T) {
	out, faults := os.Getenv("TRAINSPAN_PICTURES"), os.Getenv("TRAINSPAN_FAULTS")
	if out == "" {
		t.Skip("tools/pictures sets TRAINSPAN_PICTURES and TRAINSPAN_FAULTS")
	}
	ctx := browser(t)
	dir := t.TempDir()
	bad := watch(t, ctx)
	slow := readReport(t, faults, "runs/demo-faults")
	if slow.ExitCode() != 3 || len(slow.Attempts) != 2 {
		t.Fatalf("the machine was too busy for the pictures: want exit code 3 and two attempts, got %s", slow.Verdict.Sentence)
	}
	faulty := save(t, dir, slow)
	screen := terminal(t, dir, "trainspan report runs/demo-faults", readReport(t, faults, "runs/demo-faults"))
	var total int64
	for _, p := range []picture{
		{name: "screen", address: screen, width: 900, height: 460},
		{name: "report-light", theme: "light", address: faulty, width: 1100, height: 1118},
		{name: "report-dark", theme: "dark", address: faulty, width: 1100, height: 1118},
		{name: "charts", theme: "light", address: faulty, from: "#h-ledger", width: 1100, height: 1650},
	} {
		total += p.take(t, ctx, out)
	}
	if total > maxPictures {
		t.Errorf("the pictures have %d bytes, want at most %d", total, maxPictures)
	}
	t.Logf("%d bytes in all", total)
	for _, b := range bad() {
		t.Errorf("error in the browser: %s", b)
	}
}

func (p *picture) take(t *testing.T, ctx context.Context, dir string) int64 {
	t.Helper()
	if p.theme != "" {
		theme(t, ctx, p.theme)
	}
	if _, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: p.width, Height: p.height, DeviceScaleFactor: 1}); err != nil {
		t.Fatal(err)
	}
	open(t, ctx, p.address)
	if high := eval[int64](t, ctx, `document.documentElement.scrollHeight`); p.theme == "" && high > p.height {
		t.Errorf("%s is cut: the text is %d high, want at most %d", p.name, high, p.height)
	}
	top := 0.0
	if p.from != "" {
		top = eval[float64](t, ctx, fmt.Sprintf(`document.querySelector(%q).getBoundingClientRect().top + scrollY - 16`, p.from))
	}
	beyond, quality := true, int64(60)
	region := &page.Viewport{Y: top, Width: float64(p.width), Height: float64(p.height), Scale: 1}
	shoot := func(format page.CaptureScreenshotFormat, dir string) []byte {
		shot, err := chromedp.Call(ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: format, Quality: &quality, Clip: region, CaptureBeyondViewport: &beyond})
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, p.name+"."+string(format)), shot.Data, 0o644) //nolint:gosec // to be shown
		}
		if err != nil {
			t.Fatal(err)
		}
		return shot.Data
	}
	// The same as PNG, for programs without the other format.
	size, _, err := image.DecodeConfig(bytes.NewReader(shoot(page.CaptureScreenshotFormatPng, t.ArtifactDir())))
	if err != nil || size.Width != int(p.width) || size.Height != int(p.height) {
		t.Errorf("%s: %d x %d, %v; want %d x %d", p.name, size.Width, size.Height, err, p.width, p.height)
	}
	n := len(shoot(page.CaptureScreenshotFormatWebp, dir))
	t.Logf("%s: %d x %d, %d bytes", p.name, size.Width, size.Height, n)
	return int64(n)
}

// theme selects light or dark.
func theme(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		t.Fatal(err)
	}
}

// console shows lines of text as a terminal of 100 columns does.
var console = template.Must(template.New("").Parse(`<!doctype html>
<meta charset="utf-8">
<link rel="icon" href="data:,">
<style>
body { margin: 0; padding: 22px 26px; background: #14181d; }
pre { margin: 0; color: #dfe5ea; font: 14px/19px "DejaVu Sans Mono", monospace; }
b { color: #fff; }
i { color: #8fc7a6; font-style: normal; }
</style>
<pre><i>$</i> {{.Command}}
{{range .Lines}}{{if .Head}}<b>{{.Text}}</b>{{else}}{{.Text}}{{end}}
{{end}}</pre>
`))

// terminal writes a page with the text of a report, and returns its address.
func terminal(t *testing.T, dir, command string, r *report.Report) string {
	t.Helper()
	type line struct {
		Text string
		Head bool
	}
	var out bytes.Buffer
	var lines []line
	for _, l := range r.First(100) {
		lines = append(lines, line{l, len(lines) > 0 && lines[len(lines)-1].Text == ""})
	}
	if err := console.Execute(&out, map[string]any{"Command": command, "Lines": lines}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "screen.html")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}
