package config

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits that keep a hostile file from exhausting memory: aliases can multiply
// a small document without end.
const (
	maxDepth = 64
	maxNodes = 100_000
	maxBytes = 4 << 20
)

var errTooLarge = errors.New("too deep or too large a document")

// readDocument reads YAML, of which JSON is a part.
func readDocument(data []byte, name string) (*node, error) {
	if len(data) > maxBytes || deeplyNested(data) {
		return nil, fmt.Errorf("config: read %s: %w", name, errTooLarge)
	}
	file, err := parser.ParseBytes(bytes.TrimPrefix(data, []byte("\ufeff")), 0)
	if err != nil {
		return nil, yamlError(name, err)
	}
	r := &yamlReader{name: name, anchors: map[string]*node{}}
	var root *node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if root != nil {
			return nil, fmt.Errorf("config: read %s: more than one document", r.place(doc.Body))
		}
		if root, err = r.node(doc.Body, 0); err != nil {
			return nil, err
		}
	}
	if root == nil {
		root = &node{where: name}
	}
	return root, nil
}

// deeplyNested finds what would keep the parser busy for minutes: its work grows
// with the square of the depth.
func deeplyNested(data []byte) bool {
	const most = 1000 // of brackets; those in text count too
	depth := 0
	for _, c := range data {
		switch c {
		case '[', '{':
			if depth++; depth > most {
				return true
			}
		case ']', '}':
			depth = max(0, depth-1)
		}
	}
	return false
}

// yamlError names the line and leaves out the library's drawing of the source,
// which could show a secret.
func yamlError(name string, err error) error {
	var located yaml.Error
	if errors.As(err, &located) && located.GetToken() != nil {
		pos := located.GetToken().Position
		return fmt.Errorf("config: read %s:%d:%d: %s", name, pos.Line, pos.Column, located.GetMessage())
	}
	return fmt.Errorf("config: read %s: %w", name, err)
}

type yamlReader struct {
	name    string
	anchors map[string]*node
	count   int
}

func (r *yamlReader) node(n ast.Node, depth int) (*node, error) {
	r.count++
	if depth > maxDepth || r.count > maxNodes {
		return nil, fmt.Errorf("config: read %s: %w", r.place(n), errTooLarge)
	}
	where := r.place(n)
	switch n := n.(type) {
	case nil:
		return &node{where: where}, nil
	case *ast.NullNode:
		return &node{where: where}, nil
	case *ast.MappingNode:
		return r.mapping(n.Values, where, depth)
	case *ast.MappingValueNode:
		return r.mapping([]*ast.MappingValueNode{n}, where, depth)
	case *ast.SequenceNode:
		list := &node{kind: listNode, where: where}
		for _, value := range n.Values {
			item, err := r.node(value, depth+1)
			if err != nil {
				return nil, err
			}
			list.items = append(list.items, item)
		}
		return list, nil
	case *ast.AnchorNode:
		value, err := r.node(n.Value, depth+1)
		if err == nil {
			r.anchors[n.Name.String()] = value
		}
		return value, err
	case *ast.AliasNode:
		value, ok := r.anchors[n.Value.String()]
		if !ok {
			return nil, fmt.Errorf("config: read %s: unknown alias %q", where, n.Value.String())
		}
		r.count += value.size()
		return value, nil
	case *ast.TagNode:
		if n.Start.Value == "!!str" {
			return scalar(n.Value.GetToken().Value, where), nil
		}
		return r.node(n.Value, depth+1)
	case *ast.LiteralNode:
		return scalar(n.Value.Value, where), nil
	case *ast.IntegerNode:
		return scalar(exactInt(n), where), nil
	case *ast.StringNode:
		return scalar(plainText(n), where), nil
	case ast.ScalarNode:
		return scalar(n.GetValue(), where), nil
	}
	return nil, fmt.Errorf("config: read %s: cannot read a %s here", where, n.Type())
}

func (r *yamlReader) mapping(values []*ast.MappingValueNode, where string, depth int) (*node, error) {
	m := &node{kind: mappingNode, where: where}
	var merged []*node
	for _, v := range values {
		value, err := r.node(v.Value, depth+1)
		if err != nil {
			return nil, err
		}
		if v.Key.IsMergeKey() {
			merged = append(merged, value)
			continue
		}
		m.fields = append(m.fields, field{key: v.Key.GetToken().Value, where: r.place(v.Key), value: value})
	}
	for _, source := range merged {
		for _, from := range append([]*node{source}, source.items...) {
			for _, f := range from.fields {
				if m.child(f.key) == nil {
					m.fields = append(m.fields, f)
				}
			}
		}
	}
	return m, nil
}

func (r *yamlReader) place(n ast.Node) string {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return r.name
	}
	pos := n.GetToken().Position
	return fmt.Sprintf("%s:%d:%d", r.name, pos.Line, pos.Column)
}

// exactInt keeps an integer that no machine word holds.
func exactInt(n *ast.IntegerNode) any {
	u, ok := n.Value.(uint64)
	switch {
	case !ok:
		return n.Value
	case u <= math.MaxInt64:
		return int64(u)
	}
	return new(big.Int).SetUint64(u)
}

var (
	yamlInt   = regexp.MustCompile(`^[-+]?[0-9]+$`)
	yamlFloat = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
)

// plainText returns the value of a text. The library leaves integers beyond 64
// bits and numbers such as 1e-5 as text, which YAML 1.2 reads as numbers unless
// they are quoted.
func plainText(n *ast.StringNode) any {
	const longest = 400 // more digits than any number a machine can use
	if n.Token.Type != token.StringType || len(n.Value) > longest {
		return n.Value
	}
	if yamlInt.MatchString(n.Value) {
		if i, ok := new(big.Int).SetString(n.Value, 10); ok {
			return i
		}
	}
	if yamlFloat.MatchString(n.Value) {
		if f, err := strconv.ParseFloat(n.Value, 64); err == nil {
			return f
		}
	}
	return n.Value
}

// size counts the nodes at and below n.
func (n *node) size() int {
	total := 1
	for _, item := range n.items {
		total += item.size()
	}
	for _, f := range n.fields {
		total += f.value.size()
	}
	return total
}
