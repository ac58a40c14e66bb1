package config

import (
	"fmt"
	"iter"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/identity"
)

// Environ returns a lookup over "NAME=value" strings, such as os.Environ
// returns, in the manner of os.LookupEnv. Of a repeated name the last counts.
func Environ(vars []string) func(name string) (string, bool) {
	m := make(map[string]string, len(vars))
	for _, v := range vars {
		if name, value, ok := strings.Cut(v, "="); ok {
			m[name] = value
		}
	}
	return func(name string) (string, bool) {
		v, ok := m[name]
		return v, ok
	}
}

// environmentVariables returns the names of the variables that [Load] reads into
// fields, each with the key of its field. Of several for one key the first that
// is set counts; those of world_size are [DetectRanks]'s. That reads a few more, and TRAINSPAN_CONFIG names the
// file.
func environmentVariables() iter.Seq2[string, string] {
	return func(yield func(name, key string) bool) {
		for _, v := range variablesOf(reflect.TypeFor[Config](), "") {
			for _, name := range v.names {
				if !yield(name, v.key) {
					return
				}
			}
		}
	}
}

// variables are those of one field. as is the way in which their text is
// written, where the field's type does not tell it.
type variables struct {
	key, as string
	names   []string
	field   reflect.Type
}

// variablesOf reads the env tags of a struct: names, the strongest first, and
// perhaps a colon and the way of writing.
func variablesOf(t reflect.Type, path string) (all []variables) {
	for _, k := range keysOf(t) {
		f := t.FieldByIndex(k.index)
		at := join(path, k.name)
		if names, as, _ := strings.Cut(f.Tag.Get("env"), ":"); names != "" {
			v := variables{at, as, strings.Split(names, ","), f.Type}
			if as == "launcher" {
				v.names = identity.WorldSizes()
			}
			all = append(all, v)
		}
		if below := sectionType(f.Type); below != nil {
			all = append(all, variablesOf(below, at)...)
		}
	}
	return all
}

// readEnvironment makes a document of the variables that are set. A variable
// that is set to nothing counts as not set. The second result lists the texts
// that cannot be read, and the third what is suspicious.
func readEnvironment(lookup func(string) (string, bool)) (root *node, found, suspect problems) {
	root = &node{kind: mappingNode, where: "environment"}
	for _, v := range variablesOf(reflect.TypeFor[Config](), "") {
		for _, name := range v.names {
			text, _ := lookup(name)
			if text = strings.TrimSpace(text); text == "" {
				continue
			}
			if v.as == "launcher" { // which of them counts depends on others
				r, bad := detectRanks(lookup)
				if r.WorldSize.IsSet() {
					root.put(strings.Split(v.key, "."), scalar(r.WorldSize.Get(), name))
				}
				for _, p := range bad.list {
					if p.Field == v.key {
						p.Message = strings.TrimPrefix(p.Message, v.key+" ")
						found.list = append(found.list, p)
					}
				}
				break
			}
			value, err := v.read(text, name)
			if err != nil {
				p := Problem{Field: v.key, Value: text, Message: err.Error(), Where: name}
				if v.field == reflect.TypeFor[Headers]() {
					p.Value = nil
				}
				found.list = append(found.list, p)
			} else {
				root.put(strings.Split(v.key, "."), value)
			}
			if v.as == "exporters" {
				checkExporters(&suspect, name, v.key, text)
			}
			break
		}
	}
	return root, found, suspect
}

// read reads the text of one variable.
func (v *variables) read(text, name string) (*node, error) {
	switch v.field {
	case reflect.TypeFor[[]string](), reflect.TypeFor[Var[[]string]]():
		if v.as == "dirs" {
			return folders(text, name), nil
		}
		return textList(text, ",", name), nil
	case reflect.TypeFor[Metadata](), reflect.TypeFor[Headers]():
		return pairs(text, name)
	}
	switch v.as {
	case "not":
		b, err := toBool(text)
		return scalar(!b, name), err
	case "exporters":
		for item := range strings.SplitSeq(text, ",") {
			if strings.TrimSpace(item) == "otlp" {
				return scalar(true, name), nil
			}
		}
		return scalar(false, name), nil
	case "ms":
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil || ms > int64(1<<63-1)/int64(time.Millisecond) || ms < 0 {
			return nil, fmt.Errorf("must be a number of milliseconds")
		}
		return scalar(time.Duration(ms)*time.Millisecond, name), nil
	}
	return scalar(text, name), nil
}

// folders reads DFTracer's list, whose word "all" is the empty one.
func folders(text, where string) *node {
	if text == "all" {
		return &node{kind: listNode, where: where}
	}
	return textList(text, ":", where)
}

func textList(text, separator, name string) *node {
	list := &node{kind: listNode, where: name}
	for item := range strings.SplitSeq(text, separator) {
		if item = strings.TrimSpace(item); item != "" {
			list.items = append(list.items, scalar(item, name))
		}
	}
	return list
}

// pairs reads "key=value,key=value" with percent-encoded values. Its errors
// show no value: headers are written this way.
func pairs(text, name string) (*node, error) {
	m := &node{kind: mappingNode, where: name}
	for item := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(item) == "" {
			continue
		}
		key, value, ok := strings.Cut(item, "=")
		key = strings.TrimSpace(key)
		if !ok || key == "" {
			return nil, fmt.Errorf("must be written key=value,key=value")
		}
		decodedKey, keyErr := url.PathUnescape(key)
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		if err != nil || keyErr != nil {
			return nil, fmt.Errorf("must be percent-encoded: a value has a stray %%")
		}
		m.fields = append(m.fields, field{key: decodedKey, where: name, value: scalar(decoded, name)})
	}
	return m, nil
}
