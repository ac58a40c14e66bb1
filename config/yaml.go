package config

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"os"
	"regexp"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits that keep a hostile file from exhausting memory: aliases can multiply a small
// document without end.
const (
	maxDepth = 64
	maxNodes = 100_000
	maxBytes = 4 << 20
)

var errTooLarge = errors.New("too deep or too large a document")

func readFile(path string) (any, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxBytes {
		return nil, fmt.Errorf("config: read %s: %w", path, errTooLarge)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return readDocument(data, path)
}

// readDocument reads YAML, of which JSON is a part.
func readDocument(data []byte, name string) (root any, err error) {
	if len(data) > maxBytes || deeplyNested(data) {
		return nil, fmt.Errorf("config: read %s: %w", name, errTooLarge)
	}
	file, err := parser.ParseBytes(bytes.TrimPrefix(data, []byte("\ufeff")), 0)
	if err != nil {
		// The library's own text draws the source, which could show a secret.
		if located := yaml.Error(nil); errors.As(err, &located) && located.GetToken() != nil {
			pos := located.GetToken().Position
			return nil, fmt.Errorf("config: read %s:%d:%d: %s", name, pos.Line, pos.Column, located.GetMessage())
		}
		return nil, fmt.Errorf("config: read %s: %w", name, err)
	}
	y := yamlReader{name: name, anchors: map[string]any{}}
	docs := slices.DeleteFunc(file.Docs, func(d *ast.DocumentNode) bool { return d.Body == nil })
	if len(docs) > 1 {
		return nil, fmt.Errorf("config: read %s: more than one document", y.place(docs[1].Body))
	}
	if len(docs) == 1 {
		root, err = y.value(docs[0].Body, 0)
	}
	return root, err
}

// deeplyNested finds what would keep the parser busy for minutes: its work grows with
// the square of the depth.
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

// yamlReader walks the syntax tree of a document.
type yamlReader struct {
	name    string
	anchors map[string]any
	count   int
}

func (y *yamlReader) value(n ast.Node, depth int) (any, error) {
	if y.count++; depth > maxDepth || y.count > maxNodes {
		return nil, fmt.Errorf("config: read %s: %w", y.place(n), errTooLarge)
	}
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return nil, nil //nolint:nilnil // null is not set
	case *ast.MappingNode:
		return y.mapping(n.Values, depth)
	case *ast.MappingValueNode:
		return y.mapping([]*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		list := make([]any, len(n.Values))
		for i, item := range n.Values {
			v, err := y.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			list[i] = v
		}
		return list, nil
	case *ast.AnchorNode:
		v, err := y.value(n.Value, depth+1)
		y.anchors[n.Name.String()] = v
		return v, err
	case *ast.AliasNode:
		v, ok := y.anchors[n.Value.String()]
		if !ok {
			return nil, fmt.Errorf("config: read %s: unknown alias %q", y.place(n), n.Value.String())
		}
		y.count += size(v)
		return v, nil
	case *ast.TagNode:
		if n.Start.Value == "!!str" {
			return n.Value.GetToken().Value, nil
		}
		return y.value(n.Value, depth+1)
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.StringNode:
		return plainText(n), nil
	case ast.ScalarNode:
		return n.GetValue(), nil
	}
	return nil, fmt.Errorf("config: read %s: cannot read a %s here", y.place(n), n.Type())
}

func (y *yamlReader) mapping(values []*ast.MappingValueNode, depth int) (any, error) {
	m := mapping{}
	var merged []any
	for _, n := range values {
		v, err := y.value(n.Value, depth+1)
		if err != nil {
			return nil, err
		}
		if n.Key.IsMergeKey() {
			list, _ := v.([]any)
			merged = append(append(merged, v), list...)
			continue
		}
		m = append(m, entry{n.Key.GetToken().Value, v, y.place(n.Key), y.place(n.Value)})
	}
	for _, from := range merged {
		other, _ := from.(mapping)
		for _, e := range other {
			if _, ok := m.get(e.key); !ok {
				m = append(m, e)
			}
		}
	}
	return m, nil
}

// get returns the entry at a path of keys.
func (m mapping) get(path ...string) (entry, bool) {
	for _, e := range m {
		if e.key != path[0] {
			continue
		}
		if len(path) == 1 {
			return e, true
		}
		below, _ := e.value.(mapping)
		return below.get(path[1:]...)
	}
	return entry{}, false
}

func (y *yamlReader) place(n ast.Node) string {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return y.name
	}
	pos := n.GetToken().Position
	return fmt.Sprintf("%s:%d:%d", y.name, pos.Line, pos.Column)
}

var (
	yamlInt   = regexp.MustCompile(`^[-+]?[0-9]+$`)
	yamlFloat = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
)

// plainText returns the value of a text. The library leaves integers beyond 64 bits and
// numbers such as 1e-5 as text, which YAML 1.2 reads as numbers unless they are quoted.
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

// size counts the values at and below v.
func size(v any) (total int) {
	switch v := v.(type) {
	case mapping:
		for _, e := range v {
			total += size(e.value)
		}
	case []any:
		for _, item := range v {
			total += size(item)
		}
	}
	return total + 1
}
