package config

import (
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// Lookup finds a variable of an environment, as os.LookupEnv does.
type Lookup func(name string) (value string, ok bool)

// Environ returns a [Lookup] over "NAME=value" strings, such as os.Environ
// returns. Of a repeated name the last counts.
func Environ(vars []string) Lookup {
	m := env.ToMap(vars)
	return func(name string) (string, bool) {
		v, ok := m[name]
		return v, ok
	}
}

// EnvironmentVariables returns the names of the variables that [Load] reads
// into fields, each with the key of its field, in the order of precedence.
// [DetectRanks] reads a few more, and TRAINSPAN_CONFIG names the file.
func EnvironmentVariables() []EnvironmentVariable {
	t := reflect.TypeFor[environment]()
	out := make([]EnvironmentVariable, t.NumField())
	for i := range out {
		tag := t.Field(i).Tag
		out[i] = EnvironmentVariable{Name: tag.Get("env"), Key: tag.Get("key")}
	}
	return out
}

// EnvironmentVariable is one variable and the key of the field that it sets.
type EnvironmentVariable struct {
	Name string
	Key  string
}

// readEnvironment makes a document of the variables that are set. The second
// result lists the texts that cannot be read.
func readEnvironment(lookup Lookup) (*node, problems) {
	var found problems
	values := map[string]string{}
	for _, v := range EnvironmentVariables() {
		if s, ok := lookup(v.Name); ok && strings.TrimSpace(s) != "" {
			values[v.Name] = s
		}
	}
	var vars environment
	if err := env.ParseWithOptions(&vars, env.Options{Environment: values}); err != nil {
		found.add("environment", err, "cannot be read")
		return &node{}, found
	}
	root := &node{kind: mappingNode, where: "environment"}
	v := reflect.ValueOf(vars)
	for i := range v.NumField() {
		text, _ := v.Field(i).Interface().(*string)
		if text == nil {
			continue
		}
		tag := v.Type().Field(i).Tag
		name, key := tag.Get("env"), tag.Get("key")
		value, err := envNode(*text, tag.Get("as"), name)
		if err != nil {
			shown := any(*text)
			if tag.Get("as") == "headers" {
				shown = nil
			}
			found.list = append(found.list, Problem{Field: key, Value: shown, Message: err.Error(), Where: name})
			continue
		}
		root.put(strings.Split(key, "."), value)
	}
	return root, found
}

// envNode reads the text of one variable.
func envNode(text, as, name string) (*node, error) {
	text = strings.TrimSpace(text)
	switch as {
	case "list":
		return textList(text, ",", name), nil
	case "dirs":
		if text == "all" {
			return &node{kind: listNode, where: name}, nil
		}
		return textList(text, ":", name), nil
	case "pairs", "headers":
		return pairs(text, name)
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

// TraceRequested tells whether the environment switches trace files on, with
// DFTRACER_ENABLE.
func TraceRequested(lookup Lookup) bool {
	text, set := lookup("DFTRACER_ENABLE")
	on, err := toBool(text)
	return set && err == nil && on
}
