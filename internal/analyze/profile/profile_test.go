package profile_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/profile"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// in is a record of a profile, in milliseconds.
type in struct {
	what     string
	from, to int64
}

// use returns the result of a profile with these records.
func use(t *testing.T, list []in) *profile.Use {
	t.Helper()
	p := &job.Process{Profile: true, Start: 0, LastSeen: 100e6}
	to, u := profile.OpenSink(p)
	for i, x := range list {
		s := job.Span{ID: uint64(i + 1), Start: x.from * 1e6, End: x.to * 1e6, Step: job.Unknown, Epoch: job.Unknown, First: job.Unknown, Thread: 1, Profiling: job.Profiling{Profiled: true}}
		switch x.what {
		case "step":
			s.SetName("pipeline", "train.iteration")
		case "fetch":
			s.SetName("dataloader", "fetch.iter")
		case "all_reduce":
			s.SetName("comm", "all_reduce")
		case "kernel", "collective", "copy":
			s.SetName("PP", x.what)
			s.OnDevice, s.Operator = true, "aten::mm"
			s.For = map[string]vocab.Class{"kernel": vocab.ClassCompute, "collective": vocab.ClassCollective, "copy": vocab.ClassTransfer}[x.what]
		default:
			s.SetName("PP", x.what)
		}
		p.Steps.Add(&s)
		to.Span(&s)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestParts(t *testing.T) {
	for _, c := range []struct {
		name   string
		in     []in
		steps  int
		parts  [profile.Parts]int64 // compute, communication, copies, input, idle, in milliseconds
		hidden float64              // NaN without communication
		busy   int64
	}{
		{name: "nothing on the device", in: []in{{"step", 0, 10}, {"kernel", 20, 30}}, steps: 1, parts: [5]int64{0, 0, 0, 0, 10}, hidden: math.NaN(), busy: 10},
		{
			name: "each moment counts once, by the order of the parts", steps: 1, hidden: 0.5, busy: 8,
			in:    []in{{"step", 0, 10}, {"kernel", 0, 4}, {"kernel", 1, 3}, {"collective", 2, 6}, {"copy", 5, 8}, {"fetch", 7, 9}},
			parts: [5]int64{4, 2, 2, 1, 1},
		},
		{
			name: "only what is in steps", steps: 2, hidden: 1, busy: 30,
			in:    []in{{"step", 10, 20}, {"step", 30, 40}, {"kernel", 5, 35}, {"collective", 12, 14}},
			parts: [5]int64{15, 0, 0, 0, 5},
		},
		{
			name: "the host alone: waiting for input comes first", steps: 1, hidden: 0.5, busy: 8,
			in:    []in{{"step", 0, 10}, {"fetch", 0, 3}, {"aten::stack", 1, 2}, {"aten::mm", 3, 6}, {"aten::add", 4, 5}, {"all_reduce", 4, 8}, {"c10d::wait", 8, 9}, {"aten::copy_", 9, 11}},
			parts: [5]int64{4, 2, 0, 3, 1},
		},
		{name: "no steps", in: []in{{"kernel", 1, 2}, {"kernel", 4, 6}}, hidden: math.NaN(), busy: 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := use(t, c.in)
			for i := range c.parts {
				c.parts[i] *= 1e6
			}
			if u.Steps != c.steps || u.Parts != c.parts || u.Busy != c.busy*1e6 || u.Window != 100e6 {
				t.Errorf("use of the device is %+v, want %d steps, parts %+v, busy %v of 100 ms", u, c.steps, c.parts, c.busy)
			}
			if h := u.Hidden(); h != c.hidden && !(math.IsNaN(h) && math.IsNaN(c.hidden)) {
				t.Errorf("%v hidden, want %v", h, c.hidden)
			}
			body, err := u.AppendBinary(nil)
			var again profile.Use
			if err != nil || again.UnmarshalBinary(body) != nil || fmt.Sprint(again) != fmt.Sprint(*u) {
				t.Errorf("stored it is %+v, want %+v", again, *u)
			}
			for n := range body {
				if err := again.UnmarshalBinary(body[:n]); err == nil {
					t.Errorf("UnmarshalBinary of %d of %d bytes: no error, want one", n, len(body))
				}
			}
		})
	}
}

// TestOperators checks that kernels count for the operator that launched them
// and operators of the host for the outermost one, and that the longest come
// first.
func TestOperators(t *testing.T) {
	u := use(t, []in{{"aten::linear", 0, 10}, {"aten::mm", 1, 9}, {"aten::add", 10, 12}, {"aten::linear", 20, 25}})
	if want := "[{aten::linear 2 15000000} {aten::add 1 2000000}]"; fmt.Sprint(u.Operators) != want {
		t.Errorf("%v, want %s", u.Operators, want)
	}
	u.Add(use(t, []in{{"kernel", 0, 4}, {"aten::add", 4, 5}}))
	if want := "[{aten::linear 2 15000000} {aten::mm 1 4000000} {aten::add 1 2000000}]"; fmt.Sprint(u.Operators) != want || !u.Device || u.Processes != 2 {
		t.Errorf("%+v, want %s", u, want)
	}
}

// TestManyOperators checks that operators of the host do not count on a device, however many
// there are before the first kernel.
func TestManyOperators(t *testing.T) {
	var list []in
	for i := range int64(70_000) {
		list = append(list, in{"aten::add", 10 * i, 10*i + 9})
	}
	u := use(t, append(list, in{"kernel", 0, 4}))
	if want := "[{aten::mm 1 4000000}]"; fmt.Sprint(u.Operators) != want {
		t.Errorf("%v, want %s", u.Operators, want)
	}
	if u := use(t, list); fmt.Sprint(u.Operators) != "[{aten::add 70000 630000000000}]" {
		t.Errorf("on the host: %v, want 70000 times aten::add", u.Operators)
	}
}

// TestAnyOrder checks rows in any order, because several goroutines read a
// file.
func TestAnyOrder(t *testing.T) {
	var list []in
	for i := range int64(20_000) {
		list = append(list, in{[]string{"kernel", "collective", "copy"}[i%3], 2 * i, 2*i + 1 + i%4})
		if i%100 == 0 {
			list = append(list, in{"step", 2 * i, 2*i + 150})
		}
	}
	want := use(t, list)
	r := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		if got := use(t, list); got.Parts != want.Parts || got.Busy != want.Busy || got.Collectives != want.Collectives || got.Time != want.Time {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}
