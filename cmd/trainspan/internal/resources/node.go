package resources

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/proc"
)

// Member is one command whose processes are sampled.
type Member struct {
	// Command is the process that was started, Base the one that started it and
	// adopts its orphans, and Exclude a child of that which is not of the command.
	Command, Base, Exclude int
	// GPUs are those of the command, as nvidia-smi takes them; empty for all.
	GPUs string
}

// Node is where those meet that record the ranks of one start on one node: a folder in
// its memory, of which other nodes know nothing. One at a time samples for all of
// them; when it ends, however it does, another one does.
type Node struct {
	dir  string
	lock *os.File
	held bool
	mine string
	ours fswrite.Proof
}

// nodePrefix is how such folders are called.
const nodePrefix = "trainspan-node-"

// Meet joins those of the start with a key, in a folder of this node. An error means that
// each has to sample for itself.
func Meet(in, key string, m Member) (n *Node, err error) {
	space, _ := os.Readlink("/proc/self/ns/pid") // numbers of processes mean something only there
	sum := sha256.Sum256([]byte(key + "\x00" + space))
	n = &Node{dir: filepath.Join(in, fmt.Sprintf("%s%d-%s", nodePrefix, os.Getuid(), hex.EncodeToString(sum[:8])))}
	if err := fswrite.OwnDir(n.dir); err != nil {
		return nil, err
	}
	if n.lock, err = fswrite.OpenAppend(filepath.Join(n.dir, lockName)); err != nil {
		return nil, err
	}
	n.mine = filepath.Join(n.dir, m.name())
	f, err := fswrite.Create(n.mine, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w; %w", err, n.lock.Close())
	}
	n.ours = fswrite.Same(f)
	return n, f.Close()
}

// Leads reports whether this one samples for all.
func (n *Node) Leads() bool {
	n.held = n.held || fswrite.Lock(n.lock)
	return n.held
}

// Members returns the commands that live.
func (n *Node) Members() (all []Member) {
	entries, _ := os.ReadDir(n.dir) // without them there is nobody else
	for _, e := range entries {
		if m, ok := memberOf(e.Name()); ok && proc.Alive(m.Command, 0) {
			all = append(all, m)
		}
	}
	return all
}

// Leave lets another one sample. The last one takes the folder away.
func (n *Node) Leave() {
	_ = fswrite.Remove(n.mine, n.ours) // a command that has ended is not looked at
	_ = n.lock.Close()
	if len(n.Members()) == 0 {
		_ = fswrite.RemoveDir(n.dir, func(path string) bool { // who comes now samples for itself
			_, ok := memberOf(path)
			return ok || path == lockName
		})
	}
}

const lockName = "lock"

// name says all of a member: its file holds nothing, so it is never half there.
func (m *Member) name() string {
	return fmt.Sprintf("%d-%d-%d-%s", m.Command, m.Base, m.Exclude, hex.EncodeToString([]byte(m.GPUs)))
}

func memberOf(name string) (m Member, ok bool) {
	var gpus string
	if _, err := fmt.Sscanf(name+"-", "%d-%d-%d-%s", &m.Command, &m.Base, &m.Exclude, &gpus); err != nil {
		return m, false
	}
	text, err := hex.DecodeString(strings.TrimSuffix(gpus, "-"))
	m.GPUs = string(text)
	return m, err == nil && m.name() == name
}

// gpusOf returns the GPUs of all members.
func gpusOf(all []Member) string {
	var list []string
	for _, m := range all {
		if m.GPUs == "" {
			return ""
		}
		list = append(list, strings.Split(m.GPUs, ",")...)
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), ",")
}
