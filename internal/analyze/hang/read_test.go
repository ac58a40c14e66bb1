package hang_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/hang"
)

// folder reads the files that examples/pytorch/testdata/hangs.py wrote with
// PyTorch 2.14 and gloo.
func folder(t *testing.T, name string) (dumps []*hang.Dump, stacks map[int]*hang.Stack) {
	t.Helper()
	paths, _ := filepath.Glob(filepath.Join("testdata", name, "*"))
	stacks = make(map[int]*hang.Stack)
	for _, path := range paths {
		f, err := hang.Read(path)
		switch {
		case err != nil || f == nil:
			t.Fatalf("Read(%s) = %v, %v; want a dump", path, f, err)
		case f.Dump != nil:
			dumps = append(dumps, f.Dump)
		case len(f.Stacks) == 1:
			stacks[f.Rank] = &f.Stacks[0]
		}
	}
	return dumps, stacks
}

// TestRealDumps checks the dumps of two ranks, one of which sleeps in its
// loader, or calls collectives in another order.
func TestRealDumps(t *testing.T) {
	dumps, stacks := folder(t, "loader")
	m := hang.Meet(dumps)
	if m == nil || !slices.Equal(m.Ranks, []int{1}) || m.Mismatch || !strings.Contains(m.Text, "rank 1 did not enter all_reduce 201 of group default_pg (hangs.py:") {
		t.Errorf("Meet() = %+v, want rank 1 that did not enter all_reduce 201", m)
	}
	if s := stacks[1]; !strings.HasPrefix(s.Place, "hangs.py:") || s.Function != "wait" || !strings.Contains(strings.Join(s.Frames, " < "), "< never (hangs.py:") {
		t.Errorf("rank 1 is in %+v, want hangs.py, waiting in never", s)
	}
	dumps, _ = folder(t, "mismatch")
	m = hang.Meet(dumps)
	if m == nil || len(m.Ranks) != 0 || !m.Mismatch || !strings.Contains(m.Text, "of group pair") || !strings.Contains(m.Text, "of group default_pg") {
		t.Errorf("Meet() = %+v, want a mismatch between the groups pair and default_pg, without a rank", m)
	}
	if m := hang.Meet(dumps[:1]); m == nil || len(m.Ranks) != 0 { // the state of the other rank is unknown
		t.Errorf("Meet() of one dump = %+v, want no ranks", m)
	}
	if m := hang.Meet(nil); m != nil {
		t.Errorf("Meet(nil) = %+v, want nil", m)
	}
}

// TestLargeGroup checks that all members of a group are read: the rank that is missing is a late
// one, and no number is cut. The name of a file below a long path is not cut either.
func TestLargeGroup(t *testing.T) {
	text := func(s string) string { return "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s }
	dir := t.TempDir()
	read := func(rank int, entry string, members []int) *hang.Dump {
		list := "[" + strings.Trim(strings.ReplaceAll(fmt.Sprint(members), " ", ", "), "[]") + "]"
		path := filepath.Join(dir, fmt.Sprint("comm_lib_trace_rank_", rank))
		data := "\x80\x02}(" + text("pg_config") + "}" + text("0") + "}(" + text("name") + text("0") + text("ranks") + text(list) + "us" + text("entries") + "](" + entry + "eu."
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := hang.Read(path)
		if err != nil || f == nil || f.Dump == nil {
			t.Fatalf("Read(%s) = %v, %v; want a dump", path, f, err)
		}
		return f.Dump
	}
	path := "/torch/" + strings.Repeat("deep/", 50)
	waits := "}(" + text("process_group") + "](" + text("0") + text("tp") + "e" + text("collective_seq_id") + "K\x01" + text("profiling_name") + text("nccl:all_reduce") +
		text("frames") + "](}(" + text("filename") + text(path+"train.py") + text("line") + "K\x07" + text("name") + text("main") + "u" + "e" + "u"
	var all, strided []int
	for i := range 64 {
		all, strided = append(all, i), append(strided, 5+8*i)
	}
	var dumps []*hang.Dump
	for _, rank := range all {
		entry := waits
		if rank == 60 {
			entry = ""
		}
		dumps = append(dumps, read(rank, entry, all))
	}
	if m := hang.Meet(dumps); m == nil || !slices.Equal(m.Ranks, []int{60}) || !strings.Contains(m.Text, "(train.py:7 in main)") {
		t.Errorf("Meet() = %+v, want rank 60, which did not enter the collective at train.py:7", m)
	}
	dumps = []*hang.Dump{read(34, "", nil)}
	for _, rank := range strided {
		dumps = append(dumps, read(rank, waits, strided))
	}
	if m := hang.Meet(dumps); m == nil || len(m.Ranks) != 0 || !slices.Equal(dumps[1].Groups[0].Ranks, strided) {
		t.Errorf("Meet() = %+v with the members %v, want no rank: 34 is not a member", m, dumps[1].Groups[0].Ranks)
	}
}

// group returns a group of four ranks in the dump of one of them, with one open
// collective.
func group(name string, enqueued int64, open ...hang.Op) hang.Group {
	return hang.Group{Name: name, Ranks: []int{0, 1, 2, 3}, Enqueued: enqueued, Open: open}
}

func op(seq int64, name string) hang.Op {
	return hang.Op{Seq: seq, Name: name, Shape: "Float[4]"}
}

// TestMeet checks that the majority decides, not the first rank.
func TestMeet(t *testing.T) {
	in := func(rank int, groups ...hang.Group) *hang.Dump {
		return &hang.Dump{Rank: rank, Groups: groups}
	}
	// The groups of stages of two ranks, and ranks that wait for a message.
	stage := func(name string, enqueued int64, open ...hang.Op) hang.Group {
		return hang.Group{Name: name, Ranks: map[string][]int{"1": {0, 1}, "2": {2, 3}}[name], Enqueued: enqueued, Open: open}
	}
	waiting := func(d *hang.Dump) *hang.Dump {
		d.AtMessage = true
		return d
	}
	reduce := op(7, "all_reduce")
	sized := reduce
	sized.Shape = "Float[5]"
	w := group("0", 7, reduce)
	for name, tt := range map[string]struct {
		dumps []*hang.Dump
		want  string
	}{
		"nothing waits":                           {[]*hang.Dump{in(0, group("0", 7)), in(1, group("0", 7))}, "nil"},
		"the first rank is late":                  {[]*hang.Dump{in(0, group("0", 6)), in(1, w), in(2, w), in(3, w)}, "[0] false"},
		"half did not come":                       {[]*hang.Dump{in(0, w), in(1, w), in(2, group("0", 6)), in(3, group("0", 6))}, "[2 3] false"},
		"all came":                                {[]*hang.Dump{in(0, w), in(1, w), in(2, w), in(3, w)}, "[] false"},
		"the first rank differs":                  {[]*hang.Dump{in(0, group("0", 7, op(7, "broadcast"))), in(1, w), in(2, w), in(3, w)}, "[0] true"},
		"another size":                            {[]*hang.Dump{in(0, w), in(1, w), in(2, group("0", 7, sized)), in(3, w)}, "[2] true"},
		"half and half":                           {[]*hang.Dump{in(0, w), in(1, w), in(2, group("0", 7, sized)), in(3, group("0", 7, sized))}, "[] true"},
		"sizes may differ":                        {[]*hang.Dump{in(0, group("0", 7, op(7, "broadcast"))), in(1, group("0", 7, hang.Op{Seq: 7, Name: "broadcast", Shape: "Float[9]"}))}, "[] false"},
		"who waits is no culprit":                 {[]*hang.Dump{in(0, w), in(1, w), in(2, group("0", 6), group("1", 3, op(3, "all_gather"))), in(3, group("0", 6), group("1", 2))}, "[3] false"},
		"in another order":                        {[]*hang.Dump{in(0, w), in(1, w), in(2, w), in(3, group("0", 6), group("1", 3, op(3, "all_gather")))}, "[3] true"},
		"one never used it":                       {[]*hang.Dump{in(0, w), in(1, w), in(2, w), in(3)}, "[3] false"},
		"a rank without a dump":                   {[]*hang.Dump{in(0, w), in(1, w), in(2, w)}, "[] false"},
		"one is ahead":                            {[]*hang.Dump{in(0, group("0", 9, reduce, op(8, "all_reduce"), op(9, "all_reduce"))), in(1, w), in(2, w), in(3, group("0", 6))}, "[3] false"},
		"one waits for a message":                 {[]*hang.Dump{in(0, stage("1", 7, reduce)), waiting(in(1, stage("1", 6))), in(2, stage("2", 7, reduce)), in(3, stage("2", 6))}, "[3] false"},
		"all that did not come wait for messages": {[]*hang.Dump{in(0, w), in(1, w), in(2, w), waiting(in(3, group("0", 6)))}, "[] false"},
		"one did not complete it":                 {[]*hang.Dump{in(0, group("0", 8, op(8, "all_reduce"))), in(1, group("0", 8, op(8, "all_reduce"))), in(2, group("0", 8, op(8, "all_reduce"))), in(3, w)}, "[3] false"},
		"one completed it":                        {[]*hang.Dump{in(0, group("0", 8, op(8, "all_reduce"))), in(1, w), in(2, w), in(3, w)}, "[] false"},
		"the older dump":                          {[]*hang.Dump{{Rank: 0, At: 1, Groups: []hang.Group{w}}, {Rank: 0, At: 2, Groups: []hang.Group{group("0", 9)}}, in(1, group("0", 9))}, "nil"},
	} {
		t.Run(name, func(t *testing.T) {
			got := "nil"
			m := hang.Meet(tt.dumps)
			if m != nil {
				got = fmt.Sprint(m.Ranks, m.Mismatch)
			}
			if got != tt.want {
				t.Errorf("%s, want %s: %+v", got, tt.want, m)
			}
		})
	}
}

// TestFirst checks that of several groups in which all ranks wait, the text has
// the one that they entered first.
func TestFirst(t *testing.T) {
	var dumps []*hang.Dump
	for rank := range 4 {
		a, b := op(7, "all_reduce"), op(3, "all_gather")
		a.At, b.At = int64(20+rank), int64(10+rank)
		dumps = append(dumps, &hang.Dump{Rank: rank, Groups: []hang.Group{group("0", 7, a), group("1", 3, b)}})
	}
	if m := hang.Meet(dumps); m == nil || !strings.Contains(m.Text, "all_gather 3 of group 1") {
		t.Errorf("Meet() = %+v, want the all_gather", m)
	}
}

// TestEntries checks which entries of a dump wait: of a batch, the entry that stands for it.
func TestEntries(t *testing.T) {
	str := func(s string) string { return "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s }
	entry := func(name, number string, seq byte, state, p2p string) string {
		return "}(" + str("process_group") + "](" + str("0") + str("dp") + "e" + str(number) + "K" + string(seq) + str("profiling_name") + str("nccl:"+name) +
			str("state") + str(state) + str("is_p2p") + p2p + str("retired") + "\x89" + "u"
	}
	collective := func(name string, seq byte, state string) string {
		return entry(name, "collective_seq_id", seq, state, "\x89")
	}
	message := func(name, state string) string { return entry(name, "p2p_seq_id", 1, state, "\x88") }
	for name, tt := range map[string]struct{ entries, want string }{
		"a batch of collectives": {collective("_broadcast_oop", 12, "scheduled") + collective("_broadcast_oop", 12, "scheduled") + collective("ALLGATHER_coalesced", 12, "completed") +
			collective("all_reduce", 13, "scheduled"), "[all_reduce 13] false"},
		"a batch that hangs":             {collective("_broadcast_oop", 12, "scheduled") + collective("ALLGATHER_coalesced", 12, "started"), "[ALLGATHER_coalesced 12] false"},
		"a batch of messages":            {message("send 0->1", "scheduled") + message("recv 0<-1", "scheduled") + message("coalesced", "completed"), "[] false"},
		"a batch of messages before 2.6": {message("send 0->1", "scheduled") + collective("coalesced", 3, "completed"), "[] false"},
		"a message":                      {message("send 0->1", "completed") + message("recv 0<-1", "started"), "[] true"},
	} {
		path := filepath.Join(t.TempDir(), "comm_lib_trace_rank_0")
		if err := os.WriteFile(path, []byte("\x80\x02}("+str("pg_config")+"}"+str("entries")+"]("+tt.entries+"eu."), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := hang.Read(path)
		if err != nil || f == nil || f.Dump == nil {
			t.Fatalf("%s: Read() = %v, %v; want a dump", name, f, err)
		}
		open := []string{}
		for _, g := range f.Dump.Groups {
			for _, o := range g.Open {
				open = append(open, fmt.Sprint(o.Name, " ", o.Seq))
			}
		}
		if got := fmt.Sprint(open, f.Dump.AtMessage); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestManyThatDiffer checks that the text shows whether it lists all ranks that entered another collective.
func TestManyThatDiffer(t *testing.T) {
	for n, want := range map[int]bool{4: false, 5: true} {
		var dumps []*hang.Dump
		for rank := range 12 {
			name := "all_reduce"
			if rank < n {
				name = "broadcast"
			}
			dumps = append(dumps, &hang.Dump{Rank: rank, Groups: []hang.Group{group("0", 7, op(7, name))}})
		}
		if m := hang.Meet(dumps); m == nil || strings.Contains(m.Text, ", …;") != want {
			t.Errorf("%d of 12 ranks differ: %+v, want … in the text: %v", n, m, want)
		}
	}
}

// TestStacks checks the main thread of each process, in the output of each
// program.
func TestStacks(t *testing.T) {
	const handler = "Thread 0x00007f641f4ff6c0 (most recent call first):\n  File \"/a/worker.py\", line 3 in work\n\n"
	for name, tt := range map[string]struct {
		text string
		want string
	}{
		"py-spy": {"Process 13085: python3 -u train.py\nPython v3.11.2 (/usr/bin/python3.11)\n\nThread 13085 (idle): \"MainThread\"\n    wait (threading.py:369)\n    main (a/b/train.py:12)\n" +
			"Thread 13090 (active): \"pin_memory\"\n    pin (pin_memory.py:3)\n\nProcess 13086: python3 -u train.py\nPython v3.11.2 (/usr/bin/python3.11)\n\nThread 0x7F (active)\n    step (train.py:9)\nThread 13099 (idle): \"MainThread\"\n    load (train.py:7)\n",
			"13085 py-spy wait (threading.py:369) < main (train.py:12); 13086 py-spy load (train.py:7)"},
		"faulthandler, all threads": {handler + "Current thread 0x00007f6426ffd6c0 [Thread-1] (most recent call first):\n  File \"dump.py\", line 1 in dump\n\nThread 0x00007f6453c1a200 [python3] (most recent call first):\n  File \"/a/train.py\", line 5 in load\n  File \"/a/train.py\", line 9 in main\n",
			"0 faulthandler load (train.py:5) < main (train.py:9)"},
		"faulthandler, a crash": {"Fatal Python error: Aborted\n\nCurrent thread 0x00007f6426ffd6c0 (most recent call first):\n  File \"/a/comm.py\", line 1 in reduce\n\n" + handler,
			"0 faulthandler reduce (comm.py:1)"},
		"a secret": {"Current thread 0x0 (most recent call first):\n  File \"/a/b.py\", line 1 in password=hunter2hunter2\n", "0 faulthandler password=REDACTED (b.py:1)"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "stacks.12.txt")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := hang.Read(path)
			if err != nil || f == nil {
				t.Fatalf("Read() = %v, %v; want a dump", f, err)
			}
			var got []string
			for i := range f.Stacks {
				s := &f.Stacks[i]
				got = append(got, fmt.Sprint(s.PID, " ", s.From, " ", strings.Join(s.Frames, " < ")))
			}
			if got := strings.Join(got, "; "); got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestPlace checks the innermost line of the program's own code, and the
// function that it called there.
func TestPlace(t *testing.T) {
	const begin, torch = "Current thread 0x1 (most recent call first):\n", "/usr/lib/python3/dist-packages/torch/distributed/"
	in := func(path, function string) string { return fmt.Sprintf("  File %q, line 7 in %s\n", path, function) }
	spy := func(frames ...string) string {
		return "Process 7: python3 a.py\nPython v3.11.2 (/usr/bin/python3)\n\nThread 7 (idle): \"MainThread\"\n    " + strings.Join(frames, "\n    ") + "\n"
	}
	for name, tt := range map[string]struct{ text, want string }{
		"in a collective":          {begin + in(torch+"distributed_c10d.py", "all_reduce") + in("/a/train.py", "main") + in("/a/train.py", "<module>"), "train.py:7 (all_reduce)"},
		"behind a wrapper":         {begin + in(torch+"distributed_c10d.py", "all_reduce") + in(torch+"c10d_logger.py", "wrapper") + in("/a/train.py", "main"), "train.py:7 (all_reduce)"},
		"behind the client":        {begin + in(torch+"distributed_c10d.py", "barrier") + in("/tmp/x/client/trainspan_torch/comm.py", "call") + in("/a/train.py", "main"), "train.py:7 (barrier)"},
		"the program itself":       {begin + in("/a/data.py", "decode") + in("/a/train.py", "main"), "data.py:7 (decode)"},
		"Python's own library":     {begin + in("/usr/lib/python3.11/threading.py", "wait") + in("/usr/lib/python3.11/threading.py", "wait") + in("/a/data.py", "never"), "data.py:7 (wait)"},
		"a virtual environment":    {begin + in("/a/venv/lib/python3.12/site-packages/timm/data.py", "load") + in("/a/train.py", "main"), "train.py:7 (load)"},
		"a folder named torch":     {begin + in("/home/me/torch/train.py", "main"), "train.py:7 (main)"},
		"PyTorch from source":      {begin + in("/opt/pytorch/torch/nn/modules/module.py", "_call_impl") + in("/home/me/torch/train.py", "main"), "train.py:7 (main)"},
		"frozen":                   {begin + in("<frozen importlib._bootstrap>", "_find_and_load") + in("/a/train.py", "main"), "train.py:7 (_find_and_load)"},
		"only wrappers":            {begin + in(torch+"a.py", "wrapper") + in("/a/train.py", "main"), "train.py:7 (main)"},
		"none of the program":      {begin + in(torch+"run.py", "poll") + in("/usr/lib/python3.11/runpy.py", "_run_code"), "run.py:7 (poll)"},
		"py-spy":                   {spy("all_reduce (torch/distributed/distributed_c10d.py:1536)", "call (trainspan_torch/comm.py:88)", "main (train.py:41)"), "train.py:41 (all_reduce)"},
		"py-spy, names of classes": {spy("all_reduce (torch/distributed/distributed_c10d.py:1)", "_exception_logger.<locals>.wrapper (torch/distributed/c10d_logger.py:2)", "main (train.py:41)"), "train.py:41 (all_reduce)"},
		"py-spy, short names":      {spy("wait (threading.py:320)", "never (data.py:53)", "main (train.py:41)"), "data.py:53 (wait)"},
		"py-spy, full names":       {spy("wait (/usr/lib/python3.11/threading.py:320)", "never (/a/b c/data.py:53)"), "data.py:53 (wait)"},
		"a thread after the main":  {spy("f (a.py:1)") + "Thread 8 (active): \"pin\"\n    g (b.py:2)\n", "a.py:1 (f)"},
		"deeper than what is kept": {begin + strings.Repeat(in(torch+"nn.py", "forward"), 40) + in("/a/train.py", "main"), "train.py:7 (forward)"},
		"a secret":                 {begin + in("/a/b.py", "password=hunter2hunter2"), "b.py:7 (password=REDACTED)"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "stacks.12.txt")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := hang.Read(path)
			if err != nil || f == nil || len(f.Stacks) != 1 {
				t.Fatalf("Read() = %+v, %v, want one stack", f, err)
			}
			if got := fmt.Sprintf("%s (%s)", f.Stacks[0].Place, f.Stacks[0].Function); got != tt.want {
				t.Errorf("place and function = %s, want %s", got, tt.want)
			}
		})
	}
}

// TestReadRefuses checks that a pickle with calls is not read as a dump, and
// that other files are ignored.
func TestReadRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "comm_lib_trace_rank_0")
	for text, want := range map[string]string{
		"\x80\x02}X\x09\x00\x00\x00pg_configcos\nsystem\nX\x07\x00\x00\x00entries\x85R.": "unsupported instruction",
		"\x80\x02}(X\x09\x00\x00\x00pg_configNX\x07\x00\x00\x00entriesNu.":               "no entries",
		"\x80\x02}(X\x09\x00\x00\x00pg_config}X\x07\x00\x00\x00entries](":                "truncated",
		"nothing": "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := hang.Read(path)
		if f != nil || (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("Read(%q) = %v, %v; want nil and an error with %q", text, f, err, want)
		}
	}
}
