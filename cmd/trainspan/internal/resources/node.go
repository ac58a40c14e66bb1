package resources

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/ingest/pyring/ring"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/proc"
)

// Member is one command whose processes are sampled.
type Member struct {
	// Command is the process that was started, Base its parent, which adopts its
	// orphans, and Exclude a child of Base that does not belong to the command.
	Command, Base, Exclude int
	// GPUs are the command's GPUs for nvidia-smi; empty for all.
	GPUs string
}

// Node coordinates the sampling of the ranks of one start on one node. It uses a
// folder in the node's memory, invisible to other nodes. One process at a time
// samples for all; when it ends or is killed, another one takes over.
type Node struct {
	dir  string
	lock *os.File
	held bool
	mine string
	ours fswrite.Proof
}

// nodePrefix is the prefix of such folders.
const nodePrefix = "trainspan-node-"

// Meet joins the processes of the start with a key, in a folder of this node.
// If it returns an error, each process must sample for itself.
func Meet(in, key string, m Member) (n *Node, err error) {
	space, _ := os.Readlink("/proc/self/ns/pid") // process ids are only valid in their namespace
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

// Leads reports whether this process samples for all.
func (n *Node) Leads() bool {
	n.held = n.held || fswrite.Lock(n.lock)
	return n.held
}

// Dir returns the folder. If no process has left it, for example because all
// were killed, another one may remove it.
func (n *Node) Dir() string { return n.dir }

// Members returns the running commands.
func (n *Node) Members() (all []Member) {
	entries, _ := os.ReadDir(n.dir) // if it fails, there are no other members
	for _, e := range entries {
		if m, ok := memberOf(e.Name()); ok && proc.Alive(m.Command, 0) {
			all = append(all, m)
		}
	}
	return all
}

// Leave lets another process sample. The last one removes the folder.
func (n *Node) Leave() {
	_ = fswrite.Remove(n.mine, n.ours) // commands that have ended are not sampled
	_ = n.lock.Close()
	if len(n.Members()) == 0 {
		_ = fswrite.RemoveDir(n.dir, func(path string) bool { return filepath.Ext(path) == ext }) // later processes sample for themselves
	}
}

// All files have the extension of those in the other folders of a start, which
// are removed in the same way if the start was killed.
const (
	ext      = ring.SideExt
	lockName = "lock" + ext
)

// name encodes a member as the name of an empty file, which other processes
// never see incomplete.
func (m *Member) name() string {
	return fmt.Sprintf("%d-%d-%d-%s", m.Command, m.Base, m.Exclude, hex.EncodeToString([]byte(m.GPUs))) + ext
}

func memberOf(name string) (m Member, ok bool) {
	var gpus string
	if _, err := fmt.Sscanf(strings.TrimSuffix(name, ext)+"-", "%d-%d-%d-%s", &m.Command, &m.Base, &m.Exclude, &gpus); err != nil {
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
