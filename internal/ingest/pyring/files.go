package pyring

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/pyring/ring"
	"github.com/trainspan/trainspan/internal/tracefile"
)

const (
	// fileRate is how many file calls of a process that end in one second get their
	// own event. Further calls of that second are added up, by name, file and thread.
	fileRate = 1000
	// maxFiles is the minimum number of recently opened or used files that are
	// remembered. A process repeats the numbers of its open files sooner than that.
	maxFiles = 1 << 15

	argFile    = "fhash"
	argNewFile = "newpath_hash"
	argRet     = "ret"
)

// files holds what is known of a process's files.
type files struct {
	p        *process
	byNumber [2]map[int64]dftracer.Arg // with the hashes of their paths; later ones first
	second   int64                     // the current second since the Unix epoch
	inSecond int                       // calls in it so far
	totals   map[callKey]*tracefile.CallTotal
}

type callKey struct {
	node *node
	file dftracer.Arg
	tid  int64
}

func (k callKey) compare(o callKey) int {
	return cmp.Or(cmp.Compare(k.tid, o.tid), cmp.Compare(tracefile.KeyName(k.node.key), tracefile.KeyName(o.node.key)), cmp.Compare(k.file.Text(), o.file.Text()))
}

// take adds the number of a file, unless its path was lost. A process never
// uses a number for another file.
func (f *files) take(number int64, path []byte) {
	if len(path) > 0 {
		f.know(number, f.pathArg(argFile, path))
	}
}

func (f *files) know(number int64, path dftracer.Arg) {
	if len(f.byNumber[0]) >= maxFiles {
		f.byNumber = [2]map[int64]dftracer.Arg{nil, f.byNumber[0]}
	}
	if f.byNumber[0] == nil {
		f.byNumber[0] = make(map[int64]dftracer.Arg)
	}
	f.byNumber[0][number] = path
}

// fileArg returns the argument for a file number; its key is empty if the
// number is unknown.
func (f *files) fileArg(number int64) dftracer.Arg {
	path, ok := f.byNumber[0][number]
	if !ok {
		if path, ok = f.byNumber[1][number]; ok {
			f.know(number, path)
		}
	}
	return path
}

func (f *files) pathArg(key string, path []byte) dftracer.Arg {
	return tracefile.HashArg(key, f.p.w.Hash(tracefile.NameFileHash, string(path)))
}

// call handles a file call.
func (f *files) call(t *thread, n *node, r *ring.Record) {
	var file, other dftracer.Arg
	switch {
	case r.File != 0:
		file = f.fileArg(r.File)
	case len(r.Args) > 0:
		first, second, both := bytes.Cut(r.Args, []byte{0})
		file = f.pathArg(argFile, first)
		if both {
			other = f.pathArg(argNewFile, second)
		}
	}
	if second := r.End / 1e9; second != f.second { // calls come in the order of their ends
		f.writeTotals()
		f.second, f.inSecond = second, 0
	}
	if f.inSecond++; f.inSecond > fileRate {
		f.addCall(callKey{n, file, t.tid}, r)
		return
	}
	args := make([]dftracer.Arg, 0, 6)
	for i, v := range r.Numbers {
		if v != ring.NoNumber && n.numbers[i] != "" {
			args = append(args, dftracer.Int(n.numbers[i], v))
		}
	}
	for _, a := range []dftracer.Arg{file, other} {
		if a.Key != "" {
			args = append(args, a)
		}
	}
	f.p.end(t, span{node: n, start: r.Start, end: r.End, thread: t, args: args}, r.Depth, false)
}

// addCall adds a call to the totals.
func (f *files) addCall(key callKey, r *ring.Record) {
	total := f.totals[key]
	if total == nil {
		if f.totals == nil {
			f.totals = make(map[callKey]*tracefile.CallTotal)
		}
		total = new(tracefile.CallTotal)
		f.totals[key] = total
	}
	returned, moves := int64(0), false
	if i := slices.Index(key.node.numbers[:], argRet); i >= 0 && r.Numbers[i] != ring.NoNumber {
		returned = r.Numbers[i]
		moves = slices.Contains(key.node.numbers[:], "count")
	}
	total.Add(r.End/1000-r.Start/1000, returned, moves)
}

// writeTotals writes the totals of the last second.
func (f *files) writeTotals() {
	for _, key := range slices.SortedFunc(maps.Keys(f.totals), callKey.compare) {
		var args []dftracer.Arg
		if key.file.Key != "" {
			args = append(args, key.file)
		}
		f.p.w.Write(&dftracer.Event{
			Phase: dftracer.PhaseCounter, Type: tracefile.TypeLibcIO, Cat: tracefile.KeyCat(key.node.key), Name: tracefile.KeyName(key.node.key),
			TID: key.tid, TS: f.second * 1e6, Args: f.totals[key].AppendArgs(args),
		})
	}
	clear(f.totals)
}

// passTotals writes the totals of a second that is over.
func (f *files) passTotals(now int64) {
	if now/1e9 > f.second+1 {
		f.writeTotals()
	}
}
