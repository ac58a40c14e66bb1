// Package document reads YAML, of which JSON is a part, into values that keep the order
// of keys, all digits of numbers and the place of everything. Its limits keep a hostile
// file from exhausting memory: aliases can multiply a small document without end.
package document

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits of a document.
const (
	maxDepth    = 64
	maxBrackets = 1000 // the parser's work grows with the square of their depth
	maxValues   = 100_000
	maxBytes    = 4 << 20
)

var errTooLarge = errors.New("too deep or too large a document")

// Mapping is an object. A value is a Mapping, a []any, a scalar, or nil for null.
type Mapping []Entry

// Entry is one key of a Mapping. KeyAt and At are the places of both, file:line:column,
// empty in a Mapping that was not read.
type Entry struct {
	Key       string
	Value     any
	KeyAt, At string
}

// Get returns the entry at a path of keys.
func (m Mapping) Get(path ...string) (Entry, bool) {
	i := slices.IndexFunc(m, func(e Entry) bool { return e.Key == path[0] })
	if i < 0 {
		return Entry{}, false
	} else if len(path) == 1 {
		return m[i], true
	}
	below, _ := m[i].Value.(Mapping)
	return below.Get(path[1:]...)
}

// ReadFile reads the document in a file.
func ReadFile(path string) (any, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxBytes {
		return nil, fmt.Errorf("read %s: %w", path, errTooLarge)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Read(data, path)
}

// Read reads one document; nil stands for an empty one. Places begin with name.
func Read(data []byte, name string) (any, error) {
	if len(data) > maxBytes || deeplyNested(data) {
		return nil, fmt.Errorf("read %s: %w", name, errTooLarge)
	}
	file, err := parser.ParseBytes(bytes.TrimPrefix(data, []byte("\ufeff")), 0)
	if err != nil {
		// The library's own text draws the source, which could show a secret.
		if located := yaml.Error(nil); errors.As(err, &located) && located.GetToken() != nil {
			pos := located.GetToken().Position
			return nil, fmt.Errorf("read %s:%d:%d: %s", name, pos.Line, pos.Column, located.GetMessage())
		}
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	r := reader{name: name, anchors: map[string]anchor{}}
	docs := slices.DeleteFunc(file.Docs, func(d *ast.DocumentNode) bool { return d.Body == nil })
	switch len(docs) {
	case 0:
		return nil, nil //nolint:nilnil // null is a value
	case 1:
		return r.value(docs[0].Body, 0)
	}
	return nil, fmt.Errorf("read %s: more than one document", r.place(docs[1].Body))
}

func deeplyNested(data []byte) bool {
	depth := 0
	for _, c := range data { // brackets in text count too
		switch c {
		case '[', '{':
			if depth++; depth > maxBrackets {
				return true
			}
		case ']', '}':
			depth = max(0, depth-1)
		}
	}
	return false
}

// reader walks the syntax tree of a document.
type reader struct {
	name    string
	anchors map[string]anchor
	count   int
}

// anchor is a value that aliases repeat, and the number of values in it.
type anchor struct {
	value any
	size  int
}

func (r *reader) value(n ast.Node, depth int) (any, error) {
	if r.count++; depth > maxDepth || r.count > maxValues {
		return nil, fmt.Errorf("read %s: %w", r.place(n), errTooLarge)
	}
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return nil, nil //nolint:nilnil // null is a value
	case *ast.MappingNode:
		return r.mapping(n.Values, depth)
	case *ast.MappingValueNode:
		return r.mapping([]*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		list := make([]any, len(n.Values))
		for i, item := range n.Values {
			v, err := r.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			list[i] = v
		}
		return list, nil
	case *ast.AnchorNode:
		before := r.count
		v, err := r.value(n.Value, depth+1)
		r.anchors[n.Name.String()] = anchor{v, r.count - before}
		return v, err
	case *ast.AliasNode:
		a, ok := r.anchors[n.Value.String()]
		if !ok {
			return nil, fmt.Errorf("read %s: unknown alias %q", r.place(n), n.Value.String())
		}
		r.count += a.size
		return a.value, nil
	case *ast.TagNode:
		if n.Start.Value == "!!str" {
			return n.Value.GetToken().Value, nil
		}
		return r.value(n.Value, depth+1)
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.StringNode:
		return plainText(n), nil
	case ast.ScalarNode:
		return n.GetValue(), nil
	}
	return nil, fmt.Errorf("read %s: cannot read a %s here", r.place(n), n.Type())
}

func (r *reader) mapping(values []*ast.MappingValueNode, depth int) (any, error) {
	m := Mapping{}
	var merged []any
	for _, n := range values {
		v, err := r.value(n.Value, depth+1)
		if err != nil {
			return nil, err
		}
		if n.Key.IsMergeKey() {
			list, _ := v.([]any)
			merged = append(append(merged, v), list...)
			continue
		}
		m = append(m, Entry{n.Key.GetToken().Value, v, r.place(n.Key), r.place(n.Value)})
	}
	for _, from := range merged {
		other, _ := from.(Mapping)
		for _, e := range other {
			if _, ok := m.Get(e.Key); !ok {
				m = append(m, e)
			}
		}
	}
	return m, nil
}

func (r *reader) place(n ast.Node) string {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		n = m.Values[0] // its own token is a colon
	}
	if v, ok := n.(*ast.MappingValueNode); ok {
		n = v.Key
	}
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return r.name
	}
	pos := n.GetToken().Position
	return fmt.Sprintf("%s:%d:%d", r.name, pos.Line, pos.Column)
}

// plainText returns the value of a text. The library leaves integers beyond 64 bits and
// numbers such as 1e-5 as text, which YAML 1.2 reads as numbers unless they are quoted.
func plainText(n *ast.StringNode) any {
	const longest = 400 // more digits than any number a machine can use
	if n.Token.Type != token.StringType || len(n.Value) > longest || strings.Trim(n.Value, "0123456789+-.eE") != "" {
		return n.Value
	}
	if i, ok := new(big.Int).SetString(n.Value, 10); ok {
		return i
	}
	if f, err := strconv.ParseFloat(n.Value, 64); err == nil {
		return f
	}
	return n.Value
}
