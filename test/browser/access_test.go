package browser_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// faint lists texts whose contrast with their background is below WCAG AA: 4.5,
// or 3 for large texts. Opacity counts.
const faint = `(() => {
	const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
	const parse = c => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); const p = canvas.getImageData(0, 0, 1, 1).data; return [p[0], p[1], p[2], p[3] / 255]; };
	const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3]));
	const light = c => { const l = c.map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * l[0] + .7152 * l[1] + .0722 * l[2]; };
	const behind = e => { const up = []; for (; e; e = e.parentElement) up.push(parse(getComputedStyle(e).backgroundColor)); return up.reverse().reduce((b, c) => over(c, b), [255, 255, 255]); };
	const out = new Set();
	for (const e of document.querySelectorAll("body *")) {
		if (!e.checkVisibility() || ![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
		const s = getComputedStyle(e), b = behind(e), ink = parse(s.color);
		for (let p = e; p; p = p.parentElement) ink[3] *= +getComputedStyle(p).opacity;
		const [x, y] = [light(over(ink, b)), light(b)].sort((p, q) => q - p), ratio = (x + .05) / (y + .05), size = parseFloat(s.fontSize);
		if (ratio < (size >= 24 || size >= 18.66 && +s.fontWeight >= 700 ? 3 : 4.5)) out.add(e.tagName + "." + e.className + " " + ratio.toFixed(2));
	}
	return [...out];
})()`

// small lists controls that are smaller than the 24 pixels of WCAG 2.2; links
// within a sentence may be smaller.
const small = `[...document.querySelectorAll("summary, button, a:not(.to), [tabindex='0'], input")].filter(e => e.checkVisibility()).map(e => [e, e.getBoundingClientRect()])
	.filter(([e, r]) => r.width < 24 || r.height < 24).map(([e, r]) => e.tagName + "." + e.className + " " + Math.round(r.width) + "x" + Math.round(r.height) + " " + e.textContent.slice(0, 30))`

// TestAccess checks that the pages of 1, 4 and 1,024 ranks have enough contrast
// in both themes and large enough targets, fit on a telephone, and are readable
// without JavaScript. The page of one rank has no table of ranks; that of many
// lists the slow one first.
func TestAccess(t *testing.T) {
	ctx := browser(t)
	for _, tc := range []struct{ ranks, slow, rows int }{{1, 0, 0}, {4, 2, 4}, {1024, 700, 128}} {
		dir := t.TempDir()
		a := simjob.Attempt{Ranks: tc.ranks, Steps: 30, Plain: true, Save: 10}
		if tc.ranks > 1 {
			a.Slow, a.Extra = tc.slow, [4]float64{14}
		}
		if _, err := a.Write(filepath.Join(dir, "job")); err != nil {
			t.Fatal(err)
		}
		address := save(t, dir, readReport(t, filepath.Join(dir, "job"), fmt.Sprint(tc.ranks, " ranks")))
		if err := chromedp.Do(ctx, chromedp.EmulateViewport(390, 844)); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"light", "dark"} {
			theme(t, ctx, name)
			open(t, ctx, address)
			eval[bool](t, ctx, `document.querySelectorAll("details").forEach(d => d.open = true), true`)
			if list := eval[[]string](t, ctx, faint); len(list) > 0 {
				t.Errorf("%d ranks, %s: text of too little contrast: %q, want none", tc.ranks, name, list)
			}
		}
		if list := eval[[]string](t, ctx, small); len(list) > 0 {
			t.Errorf("%d ranks: too small to be pressed: %q, want none", tc.ranks, list)
		}
		if wide := eval[int](t, ctx, `document.documentElement.scrollWidth`); wide > 390 {
			t.Errorf("%d ranks: the page is %d wide on a screen of 390, want at most 390", tc.ranks, wide)
		}
		if n := eval[int](t, ctx, `document.querySelectorAll("[aria-label='Table: Ranks'] tbody tr").length`); n > tc.rows || (n > 0) != (tc.rows > 0) {
			t.Errorf("%d ranks: the table of ranks has %d rows, want %d at most", tc.ranks, n, tc.rows)
		}
		if tc.ranks > 1 {
			for _, table := range []string{"Ranks", "The finding"} {
				first := eval[string](t, ctx, fmt.Sprintf(`document.querySelector("[aria-label='Table: %s'] tbody td").textContent`, table))
				if first != fmt.Sprint(tc.slow) {
					t.Errorf("%d ranks: %s begins with %q, want rank %d", tc.ranks, table, first, tc.slow)
				}
			}
			if n := eval[int](t, ctx, `document.querySelectorAll("[aria-label='Table: The finding'] tbody tr").length`); n != 2 {
				t.Errorf("%d ranks: the finding has %d rows, want the slow rank and one group", tc.ranks, n)
			}
		}
		script(t, ctx, true)
		if err := chromedp.Do(ctx, chromedp.Navigate(address)); err != nil {
			t.Fatal(err)
		}
		text := eval[string](t, ctx, `document.body.innerText`)
		for _, want := range []string{"COMPLETED", "Where the time went", "Attempts", "wall time", "charts need JavaScript"} {
			if !strings.Contains(text, want) {
				t.Errorf("%d ranks: without JavaScript the page has no %q", tc.ranks, want)
			}
		}
		for _, empty := range []string{"One step, rank by rank", "who is late", "Where the time went, over time"} {
			if strings.Contains(text, empty) {
				t.Errorf("%d ranks: without JavaScript the page has the heading %q of a chart that is not drawn", tc.ranks, empty)
			}
		}
		script(t, ctx, false)
		printed(t, ctx, address)
	}
}

// printed checks that the page can be printed: no table is cut at the edge of
// the paper, bars keep their filling, and no button is shown.
func printed(t *testing.T, ctx context.Context, address string) {
	t.Helper()
	const paper = 720 // A4 without its margins
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(paper, 1000)); err != nil {
		t.Fatal(err)
	}
	open(t, ctx, address)
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"}); err != nil {
		t.Fatal(err)
	}
	cut := eval[[]string](t, ctx, `[...document.querySelectorAll("table")].filter(e => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth).map(e => e.parentElement.getAttribute("aria-label"))`)
	if len(cut) > 0 {
		t.Errorf("on paper these are cut: %q, want none", cut)
	}
	if n := eval[int](t, ctx, `[...document.querySelectorAll(".stack i, td.bar i")].filter(e => getComputedStyle(e).printColorAdjust !== "exact").length`); n > 0 {
		t.Errorf("%d bars lose their filling on paper, want none", n)
	}
	if n := eval[int](t, ctx, `[...document.querySelectorAll("button, .readout")].filter(e => e.checkVisibility()).length`); n > 0 {
		t.Errorf("%d controls are printed, want none", n)
	}
	theme(t, ctx, "light")
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{}); err != nil {
		t.Fatal(err)
	}
}

// script turns the JavaScript of pages off or on; the scripts of a test run in
// any case.
func script(t *testing.T, ctx context.Context, off bool) {
	t.Helper()
	if _, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: off}); err != nil {
		t.Fatal(err)
	}
}

// touch sends one event of a touch screen, with a finger at each place of the
// element; no place lifts all fingers.
func touch(t *testing.T, ctx context.Context, kind input.DispatchTouchEventType, places ...[2]float64) {
	t.Helper()
	var points []*input.TouchPoint
	for i, p := range places {
		id := float64(i + 1)
		points = append(points, &input.TouchPoint{X: p[0], Y: p[1], ID: &id})
	}
	if _, err := chromedp.Call(ctx, input.DispatchTouchEvent, input.DispatchTouchEventParams{Type: kind, TouchPoints: points}); err != nil {
		t.Fatal(err)
	}
}

// TestTouch checks that a finger on a chart reads its values, also while it
// moves, that two fingers zoom, and that a tap twice shows all again.
func TestTouch(t *testing.T) {
	ctx := browser(t)
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile, chromedp.EmulateTouch)); err != nil {
		t.Fatal(err)
	}
	open(t, ctx, writePage(t))
	for _, chart := range []string{"steps", "heat", "lanes", "timeline"} {
		plot := eval[[]float64](t, ctx, fmt.Sprintf(`(() => { const o = document.querySelector("[data-chart=%s] .u-over"); o.scrollIntoView({block: "center"}); const r = o.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })()`, chart))
		at := func(x, y float64) [2]float64 { return [2]float64{plot[0] + x*plot[2], plot[1] + y*plot[3]} }
		said := func() string {
			return eval[string](t, ctx, fmt.Sprintf(`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(document.querySelector("[data-chart=%s] [role=status]").textContent))))`, chart))
		}
		before := said()
		touch(t, ctx, input.DispatchTouchEventTypeTouchStart, at(.3, .3))
		first := said()
		touch(t, ctx, input.DispatchTouchEventTypeTouchMove, at(.6, .3))
		touch(t, ctx, input.DispatchTouchEventTypeTouchMove, at(.8, .3))
		second := said()
		touch(t, ctx, input.DispatchTouchEventTypeTouchEnd)
		if first == before || second == first || strings.Contains(first+second, "Touch") {
			t.Errorf("%s: a finger reads %q, and after moving %q, want values; without it the chart says %q", chart, first, second, before)
		}
	}
	plot := eval[[]float64](t, ctx, `(() => { const o = document.querySelector("[data-chart=steps] .u-over"); o.scrollIntoView({block: "center"}); const r = o.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })()`)
	at := func(x float64) [2]float64 { return [2]float64{plot[0] + x*plot[2], plot[1] + plot[3]/2} }
	picture := func() string {
		return eval[string](t, ctx, `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(document.querySelector("[data-chart=steps] canvas").toDataURL()))))`)
	}
	all := picture()
	touch(t, ctx, input.DispatchTouchEventTypeTouchStart, at(.4), at(.6))
	touch(t, ctx, input.DispatchTouchEventTypeTouchMove, at(.3), at(.7))
	touch(t, ctx, input.DispatchTouchEventTypeTouchMove, at(.2), at(.8))
	touch(t, ctx, input.DispatchTouchEventTypeTouchEnd)
	if picture() == all {
		t.Error("two fingers do not zoom")
	}
	eval[bool](t, ctx, `document.querySelector("[data-chart=steps] .u-over").dispatchEvent(new MouseEvent("dblclick", {bubbles: true})), true`)
	if picture() != all {
		t.Error("after a double tap the chart does not show all")
	}
	if wide := eval[int](t, ctx, `document.documentElement.scrollWidth`); wide > 390 {
		t.Errorf("the page is %d wide, want at most 390", wide)
	}
}

// TestWordsOfPage checks that charts have the words of the account, and that the
// page has the facts of the first screen.
func TestWordsOfPage(t *testing.T) {
	ctx := browser(t)
	open(t, ctx, writePage(t))
	eval[bool](t, ctx, `document.querySelectorAll("details").forEach(d => d.open = true), true`)
	text := eval[string](t, ctx, `new Promise(done => setTimeout(() => done([...document.querySelectorAll(".legend li, .chart summary, .chart th, .chart td, dt")].map(e => e.textContent).join("\n")), 200))`)
	for _, word := range []string{"productive", "downtime", "warmup", "lost work", "data wait", "checkpoint save", "unobserved", "input", "host", "transfer of the collectives"} {
		if strings.Contains("\n"+text+"\n", "\n"+word+"\n") {
			t.Errorf("the page shows %q, want the word of the first screen", word)
		}
	}
	for _, word := range []string{"in steps", "lost steps", "data", "save", "waits", "collectives", "Step", "Restart"} {
		if !strings.Contains("\n"+text+"\n", "\n"+word+"\n") {
			t.Errorf("the page has no word %q of the first screen", word)
		}
	}
}
