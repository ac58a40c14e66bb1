package config_test

import (
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/trainspan/trainspan/config"
)

func TestMetadataStrings(t *testing.T) {
	huge, _ := new(big.Int).SetString("7046430720000000000000", 10)
	for _, c := range []struct {
		value any
		want  string
	}{
		{"x", "x"},
		{true, "True"},
		{false, "False"},
		{nil, "None"},
		{5.0, "5.0"},
		{1e-05, "1e-05"},
		{1e-4, "0.0001"},
		{0.00012345, "0.00012345"},
		{0.000099, "9.9e-05"},
		{1e15, "1000000000000000.0"},
		{1e16, "1e+16"},
		{9999999999999998.0, "9999999999999998.0"},
		{1.5e22, "1.5e+22"},
		{-2.5e-7, "-2.5e-07"},
		{5e-324, "5e-324"},
		{math.MaxFloat64, "1.7976931348623157e+308"},
		{123456789.125, "123456789.125"},
		{math.Copysign(0, -1), "-0.0"},
		{0.0003, "0.0003"},
		{math.NaN(), "nan"},
		{math.Inf(1), "inf"},
		{math.Inf(-1), "-inf"},
		{float32(0.5), "0.5"},
		{32, "32"},
		{int8(-3), "-3"},
		{uint64(math.MaxUint64), "18446744073709551615"},
		{huge, "7046430720000000000000"},
		{json.Number("7046430720000000000000"), "7046430720000000000000"},
		{json.Number("4.0"), "4.0"},
		{json.Number("1e3"), "1000.0"},
		{[]string{"h200", "b200"}, "['h200', 'b200']"},
		{[]any{1, 2.0, true, nil, "a"}, "[1, 2.0, True, None, 'a']"},
		{[]int{}, "[]"},
		{[]string{"it's"}, `["it's"]`},
		{[]string{`q"`}, `['q"']`},
		{[]string{`b'"`}, `['b\'"']`},
		{[]string{`a\b`}, `['a\\b']`},
		{[]string{"n\nr\rt\t\x00\x7f"}, `['n\nr\rt\t\x00\x7f']`},
		{[]string{"\u0085\u00ad\u00a0é中😀"}, `['\x85\xad\xa0é中😀']`},
		{[]string{"\u200b\u2028\U000e0001"}, `['\u200b\u2028\U000e0001']`},
		{[]string{"\xff"}, `['\udcff']`},
		{config.Pairs("a", 1, "b", "c"), "{'a': 1, 'b': 'c'}"},
		{time.Second, "1s"},
		{config.PropagateErrors, "propagate_exceptions"},
	} {
		got := config.Pairs("key", c.value).Strings()
		if !slices.Equal(got, []string{"key:" + c.want}) {
			t.Errorf("%T %v: %q, want %q", c.value, c.value, got, c.want)
		}
	}
	if got := config.Metadata(nil).Strings(); got != nil {
		t.Errorf("Strings of no metadata = %q, want nil", got)
	}
}

func TestMetadataIsOrderedAndCopied(t *testing.T) {
	m := config.Pairs("z", 1, "a", 2, "z", 3, "odd")
	want := []string{"z:3", "a:2", "odd:None"}
	if got := m.Strings(); !slices.Equal(got, want) {
		t.Errorf("strings = %q, want %q", got, want)
	}
	n := m.With("a", 9)
	if got := n.Strings(); !slices.Equal(got, []string{"z:3", "a:9", "odd:None"}) {
		t.Errorf("changed copy = %q, want [z:3 a:9 odd:None]", got)
	}
	if got := m.Strings(); !slices.Equal(got, want) {
		t.Errorf("the original changed: %q, want %q", got, want)
	}
	if v, ok := m.Get("a"); v != 2 || !ok {
		t.Errorf("Get(a) = %v, %v; want 2", v, ok)
	}
	if _, ok := m.Get("b"); ok {
		t.Error("the metadata has the key b, want none")
	}
}

func TestMetadataFromFilesKeepsOrderAndDigits(t *testing.T) {
	for name, text := range map[string]string{
		"yaml": "custom_metadata:\n  z: 7046430720000000000000\n  a: 1e-5\n  m: [h200, 'yes', yes, 1.0]\n  q: '1'\n  e:\n",
		"json": "{\"custom_metadata\": {\n\t\"z\": 7046430720000000000000, \"a\": 1e-5, \"m\": [\"h200\", \"yes\", \"yes\", 1.0], \"q\": \"1\", \"e\": null}}",
	} {
		b, _, err := config.Decode[config.Base]([]byte(text), "config")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := []string{"z:7046430720000000000000", "a:1e-05", "m:['h200', 'yes', 'yes', 1.0]", "q:1", "e:None"}
		if got := b.CustomMetadata.Strings(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
