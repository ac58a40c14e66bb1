package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// jsonReader reads JSON into nodes. It keeps the order of keys, the digits of
// numbers and the places of both, none of which encoding/json's maps keep.
type jsonReader struct {
	dec  *json.Decoder
	data []byte
	name string
}

func readJSON(data []byte, name string) (*node, error) {
	r := &jsonReader{dec: json.NewDecoder(bytes.NewReader(data)), data: data, name: name}
	r.dec.UseNumber()
	n, err := r.value(0)
	if err != nil {
		return nil, r.failed(err)
	}
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("config: read %s: more than one JSON value", r.here())
	}
	return n, nil
}

func (r *jsonReader) value(depth int) (*node, error) {
	if depth > maxDepth {
		return nil, errTooLarge
	}
	tok, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	where := r.here()
	delim, ok := tok.(json.Delim)
	if !ok {
		return scalar(tok, where), nil
	}
	if delim == '[' {
		n := &node{kind: listNode, where: where}
		for r.dec.More() {
			item, err := r.value(depth + 1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
		_, err = r.dec.Token()
		return n, err
	}
	n := &node{kind: mappingNode, where: where}
	for r.dec.More() {
		key, err := r.dec.Token()
		if err != nil {
			return nil, err
		}
		keyWhere := r.here()
		value, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		// The decoder lets only strings through as keys.
		text, _ := key.(string)
		n.fields = append(n.fields, field{key: text, where: keyWhere, value: value})
	}
	_, err = r.dec.Token()
	return n, err
}

// here names the line of the token read last.
func (r *jsonReader) here() string { return r.line(r.dec.InputOffset()) }

func (r *jsonReader) line(offset int64) string {
	offset = min(max(offset, 0), int64(len(r.data)))
	return fmt.Sprintf("%s:%d", r.name, 1+bytes.Count(r.data[:offset], []byte{'\n'}))
}

func (r *jsonReader) failed(err error) error {
	where := r.here()
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		where = r.line(syntax.Offset)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("config: read %s: %w", where, err)
}
