package config

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/agnivade/levenshtein"
)

// structKey is one key of a struct as files spell it.
type structKey struct {
	name  string
	alias string // another spelling, usually the reference's
	index []int
}

type structKeys []structKey

// keysOf lists the keys of a struct type; the keys of an embedded struct count
// as its own.
func keysOf(t reflect.Type) structKeys {
	var keys structKeys
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			for _, k := range keysOf(f.Type) {
				k.index = append([]int{i}, k.index...)
				keys = append(keys, k)
			}
			continue
		}
		if name := f.Tag.Get("key"); name != "" && name != "-" {
			keys = append(keys, structKey{name: name, alias: f.Tag.Get("alias"), index: []int{i}})
		}
	}
	return keys
}

func (ks structKeys) find(key string) (structKey, bool) {
	i := slices.IndexFunc(ks, func(k structKey) bool { return k.name == key || k.alias != "" && k.alias == key })
	if i < 0 {
		return structKey{}, false
	}
	return ks[i], true
}

// unknown reports a key that the struct lacks, with the nearest one it has. A
// key that is known in a section below is meant for that section.
func (d *decoder) unknown(f field, t reflect.Type, path string) {
	nearest := elsewhere(t, f.key)
	if nearest == "" {
		nearest = nearestKey(t, f.key)
	}
	d.problem(join(path, f.key), f.where, nil, "unknown key %q; the nearest known key is %q", f.key, join(path, nearest))
}

// elsewhere finds key in a section of t and returns the way there.
func elsewhere(t reflect.Type, key string) string {
	for _, k := range keysOf(t) {
		ft := t.FieldByIndex(k.index).Type
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		if ft.Kind() != reflect.Struct {
			continue
		}
		if below, ok := keysOf(ft).find(key); ok {
			return join(k.name, below.name)
		}
		if way := elsewhere(ft, key); way != "" {
			return join(k.name, way)
		}
	}
	return ""
}

func nearestKey(t reflect.Type, key string) string {
	var candidates []string
	for _, k := range keysOf(t) {
		candidates = append(candidates, k.name)
		if k.alias != "" {
			candidates = append(candidates, k.alias)
		}
	}
	return nearest(key, candidates)
}

// nearest returns the candidate with the fewest edits from word.
func nearest(word string, candidates []string) string {
	if len(candidates) == 0 {
		return ""
	}
	// A key can be as long as the file: beyond this, distances tell nothing.
	const longest = 128
	if len(word) > longest {
		word = word[:longest]
	}
	return slices.MinFunc(candidates, func(a, b string) int {
		return cmp.Compare(levenshtein.ComputeDistance(word, a), levenshtein.ComputeDistance(word, b))
	})
}
