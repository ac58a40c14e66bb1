package hang

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/internal/analyze/hang/pickle"
)

// Dump is the content of the flight recorder of a rank: the latest collectives
// of each process group.
type Dump struct {
	Rank   int   // -1 if the name of the file has none
	At     int64 // time of its newest entry, nanoseconds
	Groups []Group
	// AtMessage is set if the newest send or receive was not completed.
	AtMessage bool
}

// Group is a process group in the dump of one rank.
type Group struct {
	Name, Desc string
	Ranks      []int // of all members, if the dump has them
	Enqueued   int64 // the highest number of a collective
	Open       []Op  // those that were not completed, by number; at most 16
	Last       Op    // the newest
}

// Op is one collective.
type Op struct {
	Seq   int64
	Name  string // such as all_reduce
	Shape string // of the input, with its types
	Where string // the line of the program that called it
	At    int64  // when it was enqueued, nanoseconds; 0 if unknown
}

// maxMembers limits the lists of members of all groups together, in bytes.
const maxMembers = 4 << 20

// maxOpen limits the open collectives of a group: the first shows what waits.
const maxOpen = 16

// readDump reads the pickle that PyTorch writes.
func readDump(r io.Reader) (*Dump, error) {
	v, err := pickle.Read(r, pickle.Limits{})
	if err != nil {
		return nil, err
	}
	top := dict(v)
	entries := items(top["entries"])
	if entries == nil && top["pg_config"] == nil {
		return nil, errors.New("not a flight recorder dump: it has no entries")
	}
	d := &Dump{Rank: -1}
	members := make(map[string]string)
	for _, c := range dict(top["pg_config"]) {
		of := dict(c)
		members[text(of["name"])], _ = of["ranks"].(string)
	}
	of := make(map[[2]string]*Group)
	for _, e := range entries {
		d.entry(dict(e), of)
	}
	for _, g := range of {
		slices.SortFunc(g.Open, func(a, b Op) int { return cmp.Compare(a.Seq, b.Seq) })
		g.Open = g.Open[:min(len(g.Open), maxOpen)]
		d.Groups = append(d.Groups, *g)
	}
	slices.SortFunc(d.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Desc, b.Desc))
	})
	left := maxMembers
	for i := range d.Groups {
		g := &d.Groups[i]
		list := members[g.Name]
		if list == "" && g.Desc == "default_pg" {
			list = members[""] // gloo's name for it
		}
		if left -= len(list); left >= 0 { // a list is read whole or not at all
			g.Ranks = numbers(list)
		}
	}
	return d, nil
}

// entry reads one entry. Entries are in the order in which they were enqueued.
// Messages have separate numbers; those of a batch are never completed, but the
// entry after them, which stands for the batch, is. The same holds for the
// collectives of a batch, which have one number: the last entry of it counts.
func (d *Dump) entry(e map[string]any, of map[[2]string]*Group) {
	at, _ := e["time_created_ns"].(int64)
	d.At = max(d.At, at)
	backend, name, _ := strings.Cut(text(e["profiling_name"]), ":")
	done := isDone(e, backend)
	if p2p, _ := e["is_p2p"].(bool); p2p {
		d.AtMessage = !done
		return
	}
	if done && name == "coalesced" { // before PyTorch 2.6 that of messages is no message
		d.AtMessage = false
	}
	seq, ok := e["collective_seq_id"].(int64)
	if !ok {
		return
	}
	var key [2]string
	for i, name := range items(e["process_group"]) {
		if i < 2 {
			key[i] = text(name)
		}
	}
	g := of[key]
	if g == nil {
		g = &Group{Name: key[0], Desc: key[1]}
		of[key] = g
	}
	op := Op{Seq: seq, Name: name, Where: where(items(e["frames"])), At: at}
	if name == "" {
		op.Name = backend
	}
	for i, size := range items(e["input_sizes"]) {
		dtype := ""
		if all := items(e["input_dtypes"]); i < len(all) {
			dtype = text(all[i])
		}
		if i == 4 {
			op.Shape += " …"
			break
		}
		op.Shape = strings.TrimPrefix(fmt.Sprintf("%s %s%s", op.Shape, dtype, shape(items(size))), " ")
	}
	if seq >= g.Enqueued {
		g.Enqueued, g.Last = seq, op
	}
	g.Open = slices.DeleteFunc(g.Open, func(o Op) bool { return o.Seq == seq })
	if !done {
		g.Open = append(g.Open, op)
	}
}

// isDone reports whether an entry was completed. A watchdog of NCCL also retires
// entries that have timed out; for other backends retired is the only record of
// an end.
func isDone(e map[string]any, backend string) bool {
	retired, _ := e["retired"].(bool)
	return text(e["state"]) == "completed" || retired && backend != "nccl"
}

// where returns the innermost frame outside of PyTorch.
func where(frames []any) string {
	for _, f := range frames {
		of := dict(f)
		file, _ := of["filename"].(string)
		if file == "" || torch.MatchString(file) || ours(file) {
			continue
		}
		line, _ := of["line"].(int64)
		return fmt.Sprintf("%s:%d in %s", text(base(file)), line, text(of["name"]))
	}
	return ""
}

// torch matches the files of PyTorch, with or without the path before the
// package.
var torch = regexp.MustCompile(`(/(site|dist)-packages/|/pytorch/|^)torch/`)

// ours reports whether a file belongs to the client that observes PyTorch.
func ours(file string) bool {
	return strings.HasPrefix(file, "trainspan_torch/") || strings.Contains(file, "/trainspan_torch/")
}

func shape(size []any) string {
	var out []string
	for i, n := range size {
		if i == 8 {
			out = append(out, "…")
			break
		}
		out = append(out, fmt.Sprint(n))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// maxText limits the length of a text.
const maxText = 200

func text(v any) string {
	s, _ := v.(string)
	return strings.Clone(s[:min(len(s), maxText)])
}

func dict(v any) map[string]any {
	d, _ := v.(map[string]any)
	return d
}

func items(v any) []any {
	if l, ok := v.(*pickle.List); ok {
		return l.Items
	}
	return nil
}

// numbers parses a list as Python prints it.
func numbers(s string) (out []int) {
	for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
		if n, err := strconv.Atoi(f); err == nil && n < 1<<20 {
			out = append(out, n)
		}
	}
	return out
}

func base(path string) string { return path[strings.LastIndexAny(path, `/\`)+1:] }
