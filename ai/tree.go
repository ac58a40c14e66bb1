package ai

import (
	"strings"
	"sync"

	"github.com/trainspan/trainspan/telemetry"
)

// Tree is a tree of nodes that record with one provider. Its categories are
// nodes too. [NewTree] makes one. It is safe for concurrent use.
type Tree struct {
	tel *telemetry.Provider // nil means the default provider

	mu         sync.Mutex // guards the shape of the tree and orders changes of state
	categories map[string]*Node
	custom     map[[2]string]*Node
	nodes      int // nodes and names of iterators

	// Root is the node ai_root: one scope of it spans the run.
	Root       *Node
	Compute    ComputeNodes
	Data       DataNodes
	DataLoader DataLoaderNodes
	Comm       CommNodes
	Device     DeviceNodes
	Checkpoint CheckpointNodes
	Pipeline   PipelineNodes
}

// ComputeNodes is the category compute.
type ComputeNodes struct {
	*Node
	Forward, Backward, Step *Node
}

// DataNodes is the category data.
type DataNodes struct {
	*Node
	Preprocess, Item *Node
}

// DataLoaderNodes is the category dataloader.
type DataLoaderNodes struct {
	*Node
	Fetch *Node
}

// CommNodes is the category comm.
type CommNodes struct {
	*Node
	Send, Receive, Barrier, Bcast, Reduce, AllReduce    *Node
	Gather, AllGather, Scatter, ReduceScatter, AllToAll *Node
}

// DeviceNodes is the category device.
type DeviceNodes struct {
	*Node
	Transfer *Node
}

// CheckpointNodes is the category checkpoint.
type CheckpointNodes struct {
	*Node
	Capture, Restart *Node
}

// PipelineNodes is the category pipeline.
type PipelineNodes struct {
	*Node
	Epoch, Train, Evaluate, Test *Node
}

// newNode returns a node in the state of the node above it. If the tree is
// full, the node is not part of it and not kept. The caller holds tree.mu, or
// the tree is not shared yet.
func newNode(t *Tree, above *Node, category, name string) (n *Node, kept bool) {
	n = &Node{tree: t, label: label{category: category, name: name}}
	if above != nil {
		n.off.Store(above.off.Load())
		n.args.Store(above.args.Load())
		if t.nodes >= maxNodes {
			return n, false
		}
		above.children = append(above.children, n)
	}
	t.nodes++
	return n, true
}

// NewTree returns a tree whose scopes tel records. Nil means the default
// provider of package telemetry at the time of each scope.
func NewTree(tel *telemetry.Provider) *Tree {
	t := &Tree{tel: tel, categories: make(map[string]*Node), custom: make(map[[2]string]*Node)}
	t.Root, _ = newNode(t, nil, "ai_root", "ai_root")
	category := func(name string) *Node {
		n, _ := newNode(t, t.Root, name, name)
		t.categories[name] = n
		return n
	}
	leaf := func(c *Node, name string) *Node {
		n, _ := newNode(t, c, c.category, name)
		t.custom[[2]string{c.category, name}] = n
		return n
	}

	c := category("compute")
	t.Compute = ComputeNodes{c, leaf(c, "forward"), leaf(c, "backward"), leaf(c, "step")}
	c = category("data")
	t.Data = DataNodes{c, leaf(c, "preprocess"), leaf(c, "item")}
	c = category("dataloader")
	t.DataLoader = DataLoaderNodes{c, leaf(c, "fetch")}
	c = category("comm")
	t.Comm = CommNodes{
		Node: c, Send: leaf(c, "send"), Receive: leaf(c, "receive"), Barrier: leaf(c, "barrier"),
		Bcast: leaf(c, "bcast"), Reduce: leaf(c, "reduce"), AllReduce: leaf(c, "all_reduce"),
		Gather: leaf(c, "gather"), AllGather: leaf(c, "all_gather"), Scatter: leaf(c, "scatter"),
		ReduceScatter: leaf(c, "reduce_scatter"), AllToAll: leaf(c, "all_to_all"),
	}
	c = category("device")
	t.Device = DeviceNodes{c, leaf(c, "transfer")}
	c = category("checkpoint")
	t.Checkpoint = CheckpointNodes{c, leaf(c, "capture"), leaf(c, "restart")}
	c = category("pipeline")
	t.Pipeline = PipelineNodes{c, leaf(c, "epoch"), leaf(c, "train"), leaf(c, "evaluate"), leaf(c, "test")}
	return t
}

// NewNode returns the node with a category and a name, the same one every time.
// A new category becomes part of the tree.
//
// A tree keeps 1024 nodes and names of iterators. Further nodes are made at
// every call: they record like others and start in the state of the node above
// them, but later calls of Update, Enable and Disable do not affect them. One
// warning is logged.
func (t *Tree) NewNode(category, name string) *Node {
	if t == nil {
		return nil
	}
	n, kept := t.node(category, name)
	if !kept {
		warnNodes(n)
	}
	return n
}

func (t *Tree) node(category, name string) (n *Node, kept bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, kept := t.categories[category], true
	if c == nil {
		if c, kept = newNode(t, t.Root, category, category); kept {
			t.categories[category] = c
		}
	}
	if name == category {
		return c, kept
	}
	id := [2]string{category, name}
	if n = t.custom[id]; n != nil {
		return n, true
	}
	if n, kept = newNode(t, c, category, name); kept {
		t.custom[id] = n
	}
	return n, kept
}

// derive returns the node below n with a suffix, and whether the tree keeps it.
func (t *Tree) derive(n *Node, suffix string) (d *Node, kept bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d = n.derived[suffix]; d != nil {
		return d, true
	}
	suffix = strings.Clone(suffix)
	if d, kept = newNode(t, n, n.category, n.name+"."+suffix); !kept {
		return d, false
	}
	if n.derived == nil {
		n.derived = make(map[string]*Node)
	}
	n.derived[suffix] = d
	return d, true
}

// labelled returns the label of a node for another name, the same one every
// time unless the tree is full.
func (t *Tree) labelled(n *Node, name string) *label {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := n.labels[name]; l != nil {
		return l
	}
	if n.labels == nil {
		n.labels = make(map[string]*label)
	}
	l := &label{category: n.category, name: name}
	if t.nodes < maxNodes {
		t.nodes++
		n.labels[name] = l
	}
	return l
}

func (t *Tree) provider() *telemetry.Provider {
	if t.tel != nil {
		return t.tel
	}
	return telemetry.Default()
}

var std = NewTree(nil)

// The tree of the default provider.
var (
	Root       = std.Root
	Compute    = std.Compute
	Data       = std.Data
	DataLoader = std.DataLoader
	Comm       = std.Comm
	Device     = std.Device
	Checkpoint = std.Checkpoint
	Pipeline   = std.Pipeline
)

// NewNode calls [Tree.NewNode] on the tree of the default provider.
func NewNode(category, name string) *Node { return std.NewNode(category, name) }
