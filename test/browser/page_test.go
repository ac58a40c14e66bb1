package browser_test

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// browser starts Chromium, or skips the test if it is not installed.
func browser(t *testing.T) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skip("no chromium: install Debian's package chromium to open the page in a browser")
	}
	opts := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WindowSize(1240, 1000), chromedp.WSURLReadTimeout(2*time.Minute))
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute) // limits a test that hangs
	t.Cleanup(stop)
	ctx, stopAllocator := chromedp.NewExecAllocator(ctx, opts...)
	t.Cleanup(stopAllocator)
	ctx, stopTab := chromedp.NewContext(ctx)
	t.Cleanup(func() { _ = chromedp.Cancel(ctx); stopTab() })
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	return ctx
}

// open loads a page and waits until all of its charts are drawn.
func open(t *testing.T, ctx context.Context, address string) {
	t.Helper()
	if err := chromedp.Do(ctx, chromedp.Navigate(address)); err != nil {
		t.Fatal(err)
	}
	eval[bool](t, ctx, `document.querySelectorAll("details.section").forEach(d => d.open = true), true`)
	eval[bool](t, ctx, `new Promise(done => { const look = () => document.querySelectorAll(".chart:not([data-drawn])").length ? setTimeout(look, 20) : done(true); look(); })`)
}

func eval[T any](t *testing.T, ctx context.Context, script string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return v
}

func press(t *testing.T, ctx context.Context, chart string, keys ...string) {
	t.Helper()
	eval[bool](t, ctx, fmt.Sprintf("document.querySelector('[data-chart=%s]').focus(), true", chart))
	for _, k := range keys {
		if err := chromedp.Do(ctx, chromedp.KeyEvent(k)); err != nil {
			t.Fatal(err)
		}
	}
}

// watch collects what a page must not have: errors, and requests except for its
// own file.
func watch(t *testing.T, ctx context.Context) func() []string {
	t.Helper()
	var mu sync.Mutex
	var bad []string
	add := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		bad = append(bad, fmt.Sprintf(format, args...))
	}
	err := chromedp.Listen(ctx, func(ev any) {
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			add("exception: %s %+v", ev.ExceptionDetails.Text, ev.ExceptionDetails.Exception)
		case *runtime.EventConsoleAPICalled:
			if ev.Type == "error" || ev.Type == "warning" {
				add("console: %v", ev.Args)
			}
		case *log.EventEntryAdded:
			if ev.Entry.Level == "error" || ev.Entry.Level == "warning" {
				add("log: %s", ev.Entry.Text)
			}
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(ev.Request.URL, "file:") && !strings.HasPrefix(ev.Request.URL, "data:") {
				add("request: %s", ev.Request.URL)
			}
		}
	})
	if err == nil {
		_, err = chromedp.Call(ctx, network.Enable, network.EnableParams{})
	}
	if err == nil {
		_, err = chromedp.Call(ctx, log.Enable, cdp.Empty{})
	}
	if err == nil {
		_, err = chromedp.Call(ctx, runtime.Enable, cdp.Empty{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return bad
	}
}

// writePage writes the page of a job with a slow rank that was killed once.
func writePage(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	a := simjob.Attempt{Ranks: 16, Steps: 240, Save: 50, Killed: true, Slow: 3, Extra: [4]float64{14}, SlowAt: 60}
	end, err := a.Write(filepath.Join(dir, "job"))
	if err != nil {
		t.Fatal(err)
	}
	a.Number, a.First, a.Start, a.Steps, a.Killed, a.Async, a.SlowAt = 1, 200, end.Add(3*time.Second), 300, false, true, 0
	if _, err := a.Write(filepath.Join(dir, "job")); err != nil {
		t.Fatal(err)
	}
	set, err := job.Open(filepath.Join(dir, "job"))
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := report.Read(set)
	if err != nil {
		t.Fatal(err)
	}
	jobs[0].Name = "a job with a slow rank"
	return save(t, dir, report.Build(jobs[0]))
}

func save(t *testing.T, dir string, r *report.Report) string {
	t.Helper()
	path := filepath.Join(dir, "report.html")
	if err := report.WritePage(path, r); err != nil {
		t.Fatal(err)
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

// pictures counts the colors in the plot of each chart: an empty chart has one
// or two.
const pictures = `Object.fromEntries([...document.querySelectorAll(".chart")].map(box => {
	const c = box.querySelector(".u-wrap > canvas");
	if (!c || !c.width || !c.height) return [box.dataset.chart, 0];
	const p = c.getContext("2d").getImageData(c.width * .1, 0, c.width * .88, c.height * .8).data, seen = new Map();
	for (let i = 0; i < p.length; i += 4) if (p[i + 3]) { const k = (p[i] << 16) + (p[i + 1] << 8) + p[i + 2]; seen.set(k, (seen.get(k) || 0) + 1); }
	return [box.dataset.chart, [...seen.values()].filter(n => n > 60).length];
}))`

func TestPage(t *testing.T) {
	ctx := browser(t)
	bad := watch(t, ctx)
	address := writePage(t)
	out := os.Getenv("TRAINSPAN_SCREENSHOTS")
	if out == "" {
		out = t.TempDir()
	}
	for _, name := range []string{"light", "dark"} {
		theme(t, ctx, name)
		open(t, ctx, address)
		colours := eval[map[string]int](t, ctx, pictures)
		for _, chart := range []string{"timeline", "ledger", "steps", "heat", "lanes", "comm", "saves"} {
			if colours[chart] < 2 {
				t.Errorf("%s: %s has not drawn: %d colours, want at least 2", name, chart, colours[chart])
			}
		}
		if background := eval[string](t, ctx, `getComputedStyle(document.body).backgroundColor`); (name == "dark") == strings.Contains(background, "255") {
			t.Errorf("%s: background %s, want white only in the light theme", name, background)
		}
		if title := eval[string](t, ctx, `document.title`); !strings.Contains(title, "SLOW RANK") {
			t.Errorf("title %q, want \"SLOW RANK\" in it", title)
		}
		shot, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := png.Decode(bytes.NewReader(shot)); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(filepath.Join(out, "report-"+name+".png"), shot, 0o600); err != nil {
			t.Error(err)
		}
	}
	for _, b := range bad() {
		t.Errorf("error in the browser: %s", b)
	}
}

// TestSections checks that the page shows the finding and the goodput account,
// and that the other sections open by a click, a link or printing, and draw
// their charts then.
func TestSections(t *testing.T) {
	ctx := browser(t)
	bad := watch(t, ctx)
	if err := chromedp.Do(ctx, chromedp.Navigate(writePage(t))); err != nil {
		t.Fatal(err)
	}
	undrawn := func(section string) int {
		return eval[int](t, ctx, fmt.Sprintf(`document.querySelectorAll(%q).length`, section+" .chart:not([data-drawn])"))
	}
	if n, closed := undrawn("details.section"), eval[int](t, ctx, `document.querySelectorAll("details.section:not([open])").length`); n < 5 || closed < 7 {
		t.Errorf("%d charts are not drawn in %d closed sections, want 5 or more in 7 or more", n, closed)
	}
	if n := eval[int](t, ctx, `[...document.querySelectorAll(".chart:not([data-drawn])")].filter(c => !c.closest("details.section")).length`); n > 0 {
		t.Errorf("%d charts outside of sections are not drawn, want none", n)
	}
	drawn := func(chart string) {
		t.Helper()
		eval[bool](t, ctx, fmt.Sprintf(`new Promise(done => { const look = () => document.querySelector("[data-chart=%s][data-drawn]") ? done(true) : setTimeout(look, 20); look(); })`, chart))
	}
	eval[bool](t, ctx, `document.getElementById("h-steps").click(), true`)
	drawn("steps")
	eval[bool](t, ctx, `location.hash = "#attempts", true`)
	drawn("timeline")
	eval[bool](t, ctx, `dispatchEvent(new Event("beforeprint"))`)
	for _, chart := range []string{"ledger", "heat", "comm", "saves"} {
		drawn(chart)
	}
	for _, b := range bad() {
		t.Errorf("error in the browser: %s", b)
	}
}

// TestMoment checks that a click copies the command that opens the time of the
// finding, or selects it, and that links to the traces work from the folder of
// the page.
func TestMoment(t *testing.T) {
	ctx := browser(t)
	bad := watch(t, ctx)
	open(t, ctx, writePage(t))
	want := []string{"Copied", "Selected"}
	got := eval[string](t, ctx, `new Promise(done => { const b = document.querySelector("button.copy"); b.click(); const look = () => b.textContent === "Copy" ? setTimeout(look, 20) : done(b.textContent); look(); })`)
	if !slices.Contains(want, got) {
		t.Errorf("the button says %q, want one of %q", got, want)
	}
	links := eval[[]string](t, ctx, `[...document.querySelectorAll("a[download]")].map(a => decodeURIComponent(new URL(a.href).pathname))`)
	if len(links) == 0 {
		t.Error("no link to a trace")
	}
	for _, path := range links {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("a link leads nowhere: %v", err)
		}
	}
	for _, b := range bad() {
		t.Errorf("error in the browser: %s", b)
	}
}

// TestReading checks that keyboard and table give the values of a chart, and
// that + zooms in.
func TestReading(t *testing.T) {
	ctx := browser(t)
	bad := watch(t, ctx)
	open(t, ctx, writePage(t))
	status := func(chart string) string {
		return eval[string](t, ctx, fmt.Sprintf(`document.querySelector("[data-chart=%s] [role=status]").textContent`, chart))
	}
	if n := eval[int](t, ctx, `[...document.querySelectorAll(".chart[tabindex='0'][aria-labelledby] canvas[aria-label]")].length`); n < 7 {
		t.Errorf("%d charts can be reached with the keyboard and have a name, want at least 7", n)
	}
	for what, query := range map[string]string{
		"tables that scroll and cannot be reached with the keyboard": ".scroll:not([tabindex][role=region][aria-label])",
		"heads of tables that do not say of what":                    "th:not([scope])",
		"charts without a name":                                      ".chart:not([aria-labelledby])",
	} {
		if n := eval[int](t, ctx, fmt.Sprintf("document.querySelectorAll(%q).length", query)); n > 0 {
			t.Errorf("%d elements: %s, want none", n, what)
		}
	}
	press(t, ctx, "steps", kb.ArrowRight, kb.ArrowRight)
	keyed := status("steps")
	if !strings.Contains(keyed, "Attempt 1, step") || !strings.Contains(keyed, "backward") {
		t.Errorf(`status %q, want "Attempt 1, step" and backward`, keyed)
	}
	press(t, ctx, "heat", kb.ArrowDown, kb.ArrowDown, kb.ArrowDown)
	if heat := status("heat"); !strings.Contains(heat, "Rank 3, step") || !strings.Contains(heat, "more work than usual") {
		t.Errorf(`heat map: status %q, want rank 3 and "more work than usual"`, heat)
	}
	eval[bool](t, ctx, `document.querySelector("[data-chart=steps] details").open = true`)
	row := eval[string](t, ctx, `new Promise(done => { const look = () => { const r = document.querySelector("[data-chart=steps] tbody tr:nth-child(2)"); r ? done(r.textContent) : setTimeout(look, 20); }; look(); })`)
	_, took, _ := strings.Cut(keyed, ": ")
	if took, _, _ = strings.Cut(took, " ="); took == "" || !strings.Contains(row, took) {
		t.Errorf("chart shows %q, want the time of the table row %q", keyed, row)
	}
	// The axis has finer ticks after zooming in, so the picture differs.
	before := eval[string](t, ctx, `document.querySelector("[data-chart=steps] canvas").toDataURL()`)
	press(t, ctx, "steps", "+", "+")
	after := eval[string](t, ctx, `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(document.querySelector("[data-chart=steps] canvas").toDataURL()))))`)
	press(t, ctx, "steps", "0")
	back := eval[string](t, ctx, `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(document.querySelector("[data-chart=steps] canvas").toDataURL()))))`)
	if before == after || before != back {
		t.Errorf("zoomed in: changed %v, want true; zoomed out: as at first %v, want true", before != after, before == back)
	}
	for _, b := range bad() {
		t.Errorf("error in the browser: %s", b)
	}
}

// TestNarrow checks that on a small screen only tables scroll sideways, and
// that charts use the full width.
func TestNarrow(t *testing.T) {
	ctx := browser(t)
	address := writePage(t)
	for _, width := range []int64{360, 640, 900} {
		if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, 800)); err != nil {
			t.Fatal(err)
		}
		open(t, ctx, address)
		if wide := eval[int64](t, ctx, `document.documentElement.scrollWidth`); wide > width {
			t.Errorf("page is %d wide, want at most %d: %s", wide, width, eval[string](t, ctx, `Array.from(document.querySelectorAll("body *")).filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest("table")).map(e => e.tagName + "." + e.className).slice(0, 8).join(" ")`))
		}
		for chart, colours := range eval[map[string]int](t, ctx, pictures) {
			if colours < 2 {
				t.Errorf("width %d: %s shows no lines", width, chart)
			}
		}
	}
}
