package resources

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

// TestNode checks that one process samples for all processes of a start on a
// node, that another one takes over when it ends, and that the last one removes
// all files.
func TestNode(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it is not known which processes live")
	}
	in := t.TempDir()
	var all []*Node
	for i, gpus := range []string{"2", "0,1", "2"} {
		n, err := Meet(in, "start", Member{Command: os.Getpid(), Base: 10 + i, Exclude: 20, GPUs: gpus})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	other, err := Meet(in, "another", Member{Command: os.Getpid(), Base: 10})
	if err != nil || !other.Leads() || len(other.Members()) != 1 {
		t.Fatalf("first member: %+v, %v; want it alone and leading", other, err)
	}
	other.Leave()
	gone, err := Meet(in, "start", Member{Command: 1 << 30, Base: 9})
	if err != nil || !all[1].Leads() || all[0].Leads() || all[2].Leads() || gone.Leads() || !all[1].Leads() {
		t.Fatalf("the member that asked first does not lead alone: %v", err)
	}
	members := all[0].Members()
	if len(members) != 3 || members[1].Base != 11 || members[1].GPUs != "0,1" || gpusOf(members) != "0,1,2" {
		t.Errorf("members are %+v, want 3, the second with base 11 and GPUs 0,1, together GPUs 0,1,2", members)
	}
	if gpusOf(append(members, Member{})) != "" {
		t.Error("a process with all GPUs was skipped, want it sampled")
	}
	_ = all[1].lock.Close() // as at the end of the process, even by a kill
	if !all[2].Leads() || all[0].Leads() {
		t.Errorf("leading after the leader ended: %v, %v; want exactly one successor", all[2].Leads(), all[0].Leads())
	}
	for _, n := range []*Node{all[2], all[0]} {
		n.Leave()
		if _, err := os.Stat(n.dir); err != nil {
			t.Errorf("the folder is gone before the last one, %v", err)
		}
	}
	_ = gone.lock.Close()
	all[1].Leave()
	if left, err := filepath.Glob(filepath.Join(in, "*")); err != nil || len(left) > 0 {
		t.Errorf("files left: %v, %v; want none", left, err)
	}
	// A foreign folder, or one that others can read, is not used.
	if err := os.Mkdir(all[0].dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if n, err := Meet(in, "start", Member{}); err == nil {
		t.Errorf("Meet in a directory that others can read = %+v, want an error", n)
	}
}

// TestTreeOfMembers checks that the processes of all commands are sampled, and
// that each command has its own processes in run.json.
func TestTreeOfMembers(t *testing.T) {
	tr := newTree("", Member{Command: 11, Base: 10, Exclude: 12})
	tr.foreign[21] = true
	tr.watch([]Member{{Command: 21, Base: 20, Exclude: 22}})
	found := map[int]stat{}
	for _, p := range [][2]int{{11, 10}, {21, 20}, {31, 21}, {32, 11}, {33, 20}, {40, 1}} {
		var s stat
		s.PID, s.Parent = p[0], p[1]
		found[p[0]] = s
	}
	tr.begin(found, tr.checked)
	bases := make(map[int][]int)
	for _, p := range tr.all() {
		bases[p.base] = append(bases[p.base], p.PID)
	}
	for _, list := range bases {
		slices.Sort(list)
	}
	if !slices.Equal(bases[10], []int{11, 32}) || !slices.Equal(bases[20], []int{21, 31, 33}) || len(bases) != 2 || tr.foreign[21] || !tr.isForeign(22) || !tr.isForeign(12) {
		t.Errorf("members by parent: %v, foreign %v; want 10: 11, 32; 20: 21, 31, 33; and 22 and 12 foreign", bases, tr.foreign)
	}
}
