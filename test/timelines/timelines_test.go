package timelines

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
)

const (
	ms   = int64(time.Millisecond)
	long = 20 * ms // more than clocks may differ
)

// timelines are drawings with the positions of their spans, in the form of
// placed. All writers that can write the drawing must agree, except for the
// entries in but:
//
//   - The Pool writes no levels, since children come first, and does not know
//     the name of a span that did not end.
//   - A Tree that was killed has assigned its ids: recovery knows no more of a
//     span that did not end than a Pool does.
//   - The Batch knows the times of rows of one thread and no parents. It cuts a
//     row at the end of the row around it.
var timelines = []struct {
	name, drawing string
	unit          int64
	order         string // in which the program begins and ends, unless it follows from the times
	want          string
	but           map[string]string
}{
	{
		name: "one in the other", unit: long, drawing: `
			a -:==========
			b a: =====
			c b:  ==
			d a:       ==
			e -:           ==`,
		want: "a:-/0/1 b:a/0/2 c:b/0/3 d:a/0/2 e:-/0/1",
	},
	{
		name: "one after the other", unit: long, drawing: `
			a -:==
			b -:  ==
			c b:  ==
			d -:    ==`,
		want: "a:-/0/1 b:-/0/1 c:b/0/2 d:-/0/1",
	},
	{
		name: "of one time", unit: long, drawing: `
			a -:====
			b a:====
			c b:====`,
		want: "a:-/0/1 b:a/0/2 c:b/0/3",
	},
	{
		name: "without a length", unit: long, drawing: `
			a -:====
			b a:|
			c a:  |
			d a:    |`,
		want: "a:-/0/1 b:a/0/2 c:a/0/2 d:a/0/2",
		but: map[string]string{
			"batch": "a:-/0/1 b:a/0/2 c:a/0/2 d:-/0/1", // a has ended when d begins
		},
	},
	{
		name: "beside each other", unit: long, drawing: `
			a -:==========
			b a: =====
			c a:   =====
			d c:     =`,
		want: "a:-/0/1 b:a/0/2 c:a/1/2 d:c/1/3",
		but: map[string]string{
			"batch": "a:-/0/1 b:a/0/2 c:b/0/3@3-6 d:c/0/4",
		},
	},
	{
		name: "roots beside each other", unit: long, drawing: `
			a -:=====
			b -:  =====
			c -:      ====`,
		want: "a:-/0/1 b:-/1/1 c:-/0/1",
		but:  map[string]string{"batch": "a:-/0/1 b:a/0/2@2-5 c:-/0/1"},
	},
	{
		name: "outlives its parent", unit: long, drawing: `
			r -:============
			a r: ====
			b a:   =====`,
		want: "r:-/0/1 a:r/0/2 b:r/1/2",
		but: map[string]string{
			"batch": "r:-/0/1 a:r/0/2 b:a/0/3@3-5",
		},
	},
	{
		name: "outlives its root", unit: long, drawing: `
			a -:=====
			b a:   =====`,
		want: "a:-/0/1 b:-/1/1",
		but:  map[string]string{"batch": "a:-/0/1 b:a/0/2@3-5"},
	},
	{
		name: "outlives its parent and that one's", unit: long, drawing: `
			r -:===============
			a r: =====
			b a:  =====
			c b:    =======`,
		want: "r:-/0/1 a:r/0/2 b:r/1/2 c:r/2/2",
		but: map[string]string{
			"batch": "r:-/0/1 a:r/0/2 b:a/0/3@2-6 c:b/0/4@4-6",
		},
	},
	{
		name: "outlives its parent with children", unit: long, drawing: `
			r -:===============
			a r: ====
			b a:  ========
			c b:   ===
			d b:       ==`,
		want: "r:-/0/1 a:r/0/2 b:r/1/2 c:b/1/3 d:b/1/3",
		but: map[string]string{
			"tree":  "r:-/0/1 a:r/0/2 b:r/1/? c:b/1/3 d:b/1/3", // it was at level 3 when c ended
			"batch": "r:-/0/1 a:r/0/2 b:a/0/3@2-5 c:b/0/4@3-5 d:r/0/2",
		},
	},
	{
		name: "begins when its parent has ended", unit: long, drawing: `
			r -:============
			a r: ==
			b a:     ==`,
		want: "r:-/0/1 a:r/0/2 b:r/0/2",
	},
	{
		name: "begins a little before its parent", unit: ms, order: "+a +b -b -a", drawing: `
			a -: =====
			b a:====`,
		want: "a:-/0/1@0-6 b:a/0/2", // b is written first: a covers it
		but: map[string]string{
			"tree":           "a:-/0/1 b:a/0/2@1-4", // a has begun: b begins with it
			"stack":          "a:-/0/1 b:-/1/1",     // a process has one clock: the time is explicit
			"pool by begins": "a:-/0/? b:a/0/?@1-4",
			"batch":          "a:b/0/2@1-4 b:-/0/1",
		},
	},
	{
		name: "ends a little after its parent by times", unit: ms, order: "+a +b -b -a", drawing: `
			a -:====
			b a: =====`,
		want: "a:-/0/1@0-6 b:a/0/2",
		but: map[string]string{
			"stack":          "a:-/0/1 b:-/1/1",
			"pool by begins": "a:-/0/? b:-/1/?", // a is written
			"batch":          "a:-/0/1 b:a/0/2@1-4",
		},
	},
	{
		name: "outlives its parent by a little", unit: ms, order: "+a +b -a -b", drawing: `
			a -:====
			b a: =====`,
		want: "a:-/0/1 b:-/1/1",
		but:  map[string]string{"batch": "a:-/0/1 b:a/0/2@1-4"},
	},
	{
		name: "begins long before its parent", unit: long, order: "+r +a +b -b -a -r", drawing: `
			r -:=========
			a r:   =====
			b a: ====`,
		want: "r:-/0/1 a:r/0/2 b:r/1/2",
		but: map[string]string{
			"stack":        "r:-/0/1 a:r/1/2 b:r/0/2", // b is written first
			"pool by ends": "r:-/0/? a:r/0/? b:a/1/?", // a is unknown when b is written
			"pool at once": "r:-/0/? a:r/1/? b:r/0/?",
			"batch":        "r:-/0/1 a:b/0/3@3-5 b:r/0/2",
		},
	},
	{
		name: "has not ended", unit: long, drawing: `
			a -:========>
			b a: ====
			c b:  ==`,
		want: "a:-/0/1* b:a/0/2 c:b/0/3",
		but: map[string]string{
			"tree, killed":   "unfinished:-/0/1* b:unfinished/1/2 c:b/1/3",
			"stack":          "a:-/0/1+ b:a/0/2 c:b/0/3", // its end may be in a later ring buffer
			"pool by ends":   "unfinished:-/0/?* b:unfinished/0/? c:b/0/?",
			"pool by begins": "unfinished:-/0/?* b:unfinished/0/? c:b/0/?",
			"pool at once":   "unfinished:-/0/?* b:unfinished/0/? c:b/0/?",
		},
	},
}

func TestTimelines(t *testing.T) {
	for _, c := range timelines {
		t.Run(c.name, func(t *testing.T) {
			spans := parse(t, c.drawing, c.unit)
			for _, w := range writers {
				path := w.write(t, spans, calls(t, spans, c.order))
				if path == "" {
					continue // the writer cannot represent it
				}
				want, other := c.but[w.name]
				if !other {
					want = c.want
				}
				// A Pool that has written a child cannot change its parent any more.
				dftest.CheckWith(t, path, &dftracer.ValidateOptions{AllowOutliving: strings.HasPrefix(w.name, "pool")})
				got := placed(spans, c.unit, read(t, path))
				if strings.HasPrefix(w.name, "pool") && !other {
					want = level.ReplaceAllString(want, "/?$1")
				}
				if got != want {
					t.Errorf("%s: got  %s\n\twant %s", w.name, got, want)
				}
			}
		})
	}
}

// level matches the level of a span, the last number of its position.
var level = regexp.MustCompile(`/[1-9](@|\*| |$)`)
