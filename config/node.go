package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// A node is one place of a document: a mapping, a list, or a scalar, from
// whatever source. The decoder sees only nodes.
type node struct {
	kind   nodeKind
	value  any     // scalar: the Go value
	items  []*node // list
	fields []field // mapping, in source order
	where  string  // file:line:column or the name of a variable; may be empty
}

type nodeKind int

const (
	nullNode nodeKind = iota
	scalarNode
	listNode
	mappingNode
)

type field struct {
	key   string
	where string
	value *node
}

func scalar(v any, where string) *node {
	if v == nil {
		return &node{where: where}
	}
	return &node{kind: scalarNode, value: v, where: where}
}

// plain returns what the node holds as a Go value: Metadata for a mapping,
// []any for a list.
func (n *node) plain() any {
	switch n.kind {
	case listNode:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = item.plain()
		}
		return list
	case mappingNode:
		m := make(Metadata, len(n.fields))
		for i, f := range n.fields {
			m[i].Key, m[i].Value = f.key, f.value.plain()
		}
		return m
	}
	return n.value
}

// child returns the value of key in a mapping, or nil.
func (n *node) child(key string) *node {
	for _, f := range n.fields {
		if f.key == key {
			return f.value
		}
	}
	return nil
}

// put sets the value at a path of keys below n, unless there is one already.
func (n *node) put(path []string, v *node) {
	n.kind = mappingNode
	next := n.child(path[0])
	if len(path) == 1 {
		if next == nil {
			n.fields = append(n.fields, field{key: path[0], where: v.where, value: v})
		}
		return
	}
	if next == nil {
		next = &node{kind: mappingNode}
		n.fields = append(n.fields, field{key: path[0], value: next})
	}
	next.put(path[1:], v)
}

// goNode makes a node of a Go value: maps become mappings (by key order, as a Go
// map has none of its own), slices lists, everything else a scalar.
func goNode(v any) *node {
	switch x := v.(type) {
	case nil:
		return &node{}
	case Override:
		return mapNode(x)
	case map[string]any:
		return mapNode(x)
	case Metadata:
		if x == nil {
			return &node{}
		}
		n := &node{kind: mappingNode}
		for _, e := range x {
			n.fields = append(n.fields, field{key: e.Key, value: goNode(e.Value)})
		}
		return n
	}
	rv := reflect.ValueOf(v)
	switch rv.Kind() {
	case reflect.Map:
		m := make(map[string]any, rv.Len())
		for it := rv.MapRange(); it.Next(); {
			m[fmt.Sprint(it.Key().Interface())] = it.Value().Interface()
		}
		return mapNode(m)
	case reflect.Slice, reflect.Array:
		n := &node{kind: listNode}
		for i := range rv.Len() {
			n.items = append(n.items, goNode(rv.Index(i).Interface()))
		}
		return n
	case reflect.Pointer, reflect.Func:
		if rv.IsNil() {
			return &node{}
		}
	}
	return &node{kind: scalarNode, value: v}
}

func mapNode(m map[string]any) *node {
	n := &node{kind: mappingNode}
	if m == nil {
		n.kind = nullNode
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		n.fields = append(n.fields, field{key: key, value: goNode(m[key])})
	}
	return n
}
