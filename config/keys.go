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

// described are the sections whose keys have names that mean one thing only; the
// outputs share words such as enabled and path.
type described struct {
	Base
	Export Export `key:"export"`
}

// unknown reports a key that the struct lacks. A key that is known elsewhere is
// meant for that place, as in a flat configuration or one section's key in
// another; for any other the nearest key is named.
func (d *decoder) unknown(f field, t reflect.Type, path string) {
	right := join(path, nearestKey(t, f.key))
	if below := elsewhere(t, f.key); below != "" {
		right = join(path, below)
	} else if place := elsewhere(reflect.TypeFor[described](), f.key); place != "" {
		d.problem(join(path, f.key), f.where, nil, "%q does not belong here; its key is %q", f.key, place)
		return
	}
	d.problem(join(path, f.key), f.where, nil, "unknown key %q; the nearest known key is %q", f.key, right)
}

// sectionType is the struct type of a field that is a section, else nil.
func sectionType(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || len(keysOf(t)) == 0 {
		return nil
	}
	return t
}

// elsewhere finds key in t or in a section of it and returns the way there.
func elsewhere(t reflect.Type, key string) string {
	if k, ok := keysOf(t).find(key); ok {
		return k.name
	}
	for _, k := range keysOf(t) {
		if below := sectionType(t.FieldByIndex(k.index).Type); below != nil {
			if way := elsewhere(below, key); way != "" {
				return join(k.name, way)
			}
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
