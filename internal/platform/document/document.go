// Package document reads YAML and JSON into values that keep the order of keys,
// all digits of numbers, and the position of every value in the file.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits of a document. A larger file is not a configuration, and reading it
// would take long: the parser's work grows with the square of the number of
// lines and of the depth of brackets, and aliases can multiply a small document
// without end.
const (
	maxBytes    = 4 << 20
	maxLines    = 10_000
	maxBrackets = 1000
	maxDepth    = 64
	maxValues   = 100_000
	maxFaults   = 20
)

var errTooLarge = errors.New("the document is too deep or too large for a configuration")

// Faults is the error for a document with YAML syntax errors. The value
// returned with it has the top-level keys that can be read.
type Faults []Fault

// Fault is one syntax error with its position.
type Fault struct{ At, Message string }

func (f Faults) Error() string { return fmt.Sprintf("read %s: %s", f[0].At, f[0].Message) }

// Mapping is an object. A value is a Mapping, a []any, a scalar, or nil for null; an integer beyond
// 64 bits is a json.Number.
type Mapping []Entry

// Entry is one key of a Mapping. KeyAt and At are the positions of key and
// value, file:line:column; they are empty in a Mapping that was not read from a
// file.
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

// ReadFile reads the document of a file.
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

// Read reads one document and returns nil for an empty one. Positions begin
// with name. The error is [Faults] if the syntax is wrong.
func Read(data []byte, name string) (any, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	switch {
	case !utf8.Valid(data):
		return nil, fmt.Errorf("read %s: the file is not UTF-8 text; save it as UTF-8", name)
	case len(data) > maxBytes || bytes.Count(data, []byte("\n")) > maxLines || deeplyNested(data):
		return nil, fmt.Errorf("read %s: %w", name, errTooLarge)
	}
	v, err := read(string(data), name)
	faults, flow := (Faults)(nil), strings.HasPrefix(strings.TrimLeft(string(data), " \t\r\n"), "{")
	if errors.As(err, &faults) && !flow {
		return readParts(string(data), name, faults)
	}
	return v, err
}

// parse returns the syntax tree of a document, or of a part that begins after a
// number of lines.
func parse(text, name string, after int) (*ast.File, token.Tokens, error) {
	tokens := lexer.Tokenize(text)
	// Callers report a repeated key together with all other problems.
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if located := yaml.Error(nil); errors.As(err, &located) && located.GetToken() != nil {
		// The library's own text prints source lines, which could have a secret.
		t := located.GetToken()
		if t.Position != nil {
			t.Position.Line += after
		}
		return nil, nil, Faults{{place(name, t), strings.ReplaceAll(located.GetMessage(), "\t", `\t`)}}
	} else if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", name, err)
	}
	return file, tokens, nil
}

func read(text, name string) (any, error) {
	file, tokens, err := parse(text, name, 0)
	if err != nil {
		return nil, err
	}
	docs := slices.DeleteFunc(file.Docs, func(d *ast.DocumentNode) bool {
		_, directive := d.Body.(*ast.DirectiveNode)
		return d.Body == nil || directive
	})
	r := reader{name: name, anchors: map[string]anchor{}}
	begins := slices.DeleteFunc(tokens, func(t *token.Token) bool { return t.Type != token.DocumentHeaderType })
	switch {
	case len(docs) > 1:
		return nil, fmt.Errorf("read %s: more than one document", r.place(docs[1].Body))
	case len(begins) > 1: // the library drops what follows an empty document
		return nil, fmt.Errorf("read %s: more than one document", place(name, begins[1]))
	case len(docs) == 0:
		return nil, nil //nolint:nilnil // null is a value
	}
	return r.value(docs[0].Body, 0)
}

// topLevel matches the start of a line with a top-level key.
var topLevel = regexp.MustCompile(`(?m)^[^\s#\-.\]}]`)

// readParts parses each top-level key of a document with a syntax error
// separately, and returns those that can be read.
func readParts(text, name string, first Faults) (any, error) {
	var faults Faults
	var readable strings.Builder
	begin, line := 0, 0
	for _, at := range append(topLevel.FindAllStringIndex(text, -1), []int{len(text)}) {
		part := text[begin:at[0]]
		lines := strings.Count(part, "\n")
		file, _, err := parse(part, name, line)
		if own := (Faults)(nil); errors.As(err, &own) {
			faults = append(faults, own...)
		} else if err == nil && slices.ContainsFunc(file.Docs, func(d *ast.DocumentNode) bool { _, text := d.Body.(ast.ScalarNode); return text }) {
			faults = append(faults, Fault{fmt.Sprintf("%s:%d:1", name, line+1), "a key must be followed by a colon and a space"})
		} else if err == nil {
			readable.WriteString(part)
			lines = 0
		}
		readable.WriteString(strings.Repeat("\n", lines)) // keeps the line numbers
		line += strings.Count(part, "\n")
		begin = at[0]
	}
	if len(faults) == 0 || len(faults) > maxFaults { // the parts do not fit together, or the file is not a configuration
		return nil, first
	}
	v, err := read(readable.String(), name)
	if err != nil { // for example an alias of a value that cannot be read
		return nil, faults
	}
	return v, faults
}

func deeplyNested(data []byte) bool {
	depth := 0
	for _, c := range data { // brackets in strings count too
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

// anchor is a value with aliases, and the number of values in it.
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
		return scalarText(n), nil
	case ast.ScalarNode:
		return n.GetValue(), nil
	}
	return nil, fmt.Errorf("read %s: cannot read a %s here", r.place(n), n.Type())
}

func (r *reader) mapping(values []*ast.MappingValueNode, depth int) (any, error) {
	m, own := Mapping{}, map[string]bool{}
	var merged Mapping
	for _, n := range values {
		v, err := r.value(n.Value, depth+1)
		if err != nil {
			return nil, err
		}
		if !n.Key.IsMergeKey() {
			key := n.Key.GetToken().Value
			m, own[key] = append(m, Entry{key, v, r.place(n.Key), r.place(n.Value)}), true
			continue
		}
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		for _, item := range list {
			other, ok := item.(Mapping)
			if !ok {
				return nil, fmt.Errorf("read %s: << needs an alias of a mapping, or a list of such aliases", r.place(n.Key))
			}
			merged = append(merged, other...)
		}
	}
	for _, e := range merged {
		if !own[e.Key] {
			m, own[e.Key] = append(m, e), true
		}
	}
	return m, nil
}

func (r *reader) place(n ast.Node) string {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		n = m.Values[0] // its own token is the colon
	}
	if v, ok := n.(*ast.MappingValueNode); ok {
		n = v.Key
	}
	if n == nil {
		return r.name
	}
	return place(r.name, n.GetToken())
}

func place(name string, t *token.Token) string {
	if t == nil || t.Position == nil {
		return name
	}
	return fmt.Sprintf("%s:%d:%d", name, t.Position.Line, t.Position.Column)
}

var number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// scalarText returns the value of a string node. The library leaves integers
// beyond 64 bits and numbers such as 1e-5 as strings, which YAML 1.2 reads as
// numbers unless they are quoted.
func scalarText(n *ast.StringNode) any {
	if n.Token.Type != token.StringType || !number.MatchString(n.Value) {
		return n.Value
	}
	if f, err := strconv.ParseFloat(n.Value, 64); err == nil && strings.ContainsAny(n.Value, ".eE") {
		return f
	}
	return json.Number(n.Value)
}
