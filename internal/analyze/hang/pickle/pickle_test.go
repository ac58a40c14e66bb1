package pickle_test

import (
	"errors"
	"math"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/hang/pickle"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
)

// plain converts the lists of a value that does not contain itself to slices.
func plain(v any) any {
	switch v := v.(type) {
	case *pickle.List:
		out := []any{}
		for _, e := range v.Items {
			out = append(out, plain(e))
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			out[k] = plain(e)
		}
		return out
	}
	return v
}

// TestRead checks Python's output in each protocol.
func TestRead(t *testing.T) {
	python := pyrun.Interpreter(t)
	const value = `{"a": [1, 255, 256, 65536, -1, 2**40, -2**40, 2**63-1, 0], "b": (1.5, True, False, None), "c": {"d": ("x",), "e": ("x", "y"), "f": (1, 2, 3), "g": (), "h": "ü"*300}, "i": [], "j": {}, "k": [None]*3000}`
	long := []any{}
	for range 3000 {
		long = append(long, nil)
	}
	want := map[string]any{
		"a": []any{int64(1), int64(255), int64(256), int64(65536), int64(-1), int64(1 << 40), int64(-1 << 40), int64(math.MaxInt64), int64(0)},
		"b": []any{1.5, true, false, nil},
		"c": map[string]any{"d": []any{"x"}, "e": []any{"x", "y"}, "f": []any{int64(1), int64(2), int64(3)}, "g": []any{}, "h": strings.Repeat("ü", 300)},
		"i": []any{}, "j": map[string]any{}, "k": long,
	}
	for _, protocol := range []string{"2", "3", "4", "5"} {
		out, err := exec.Command(python, "-c", "import pickle, sys; sys.stdout.buffer.write(pickle.dumps("+value+", "+protocol+"))").Output()
		if err != nil {
			t.Fatal(err)
		}
		got, err := pickle.Read(strings.NewReader(string(out)), pickle.Limits{})
		if err != nil {
			t.Fatalf("protocol %s: %v", protocol, err)
		}
		if got := plain(got); !reflect.DeepEqual(got, want) {
			t.Errorf("protocol %s: %v, want %v", protocol, got, want)
		}
		for n := range out {
			if _, err := pickle.Read(strings.NewReader(string(out[:n])), pickle.Limits{}); err == nil {
				t.Fatalf("Read of protocol %s cut to %d of %d bytes: no error, want one", protocol, n, len(out))
			}
		}
	}
}

// TestRefused checks that nothing is executed, and that the limits hold.
func TestRefused(t *testing.T) {
	for name, text := range map[string]string{
		"a call":                       "\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.",
		"a name from the stack":        "\x80\x04\x8c\x02os\x8c\x06system\x93.",
		"an instance":                  "\x80\x02(ios\nsystem\n.",
		"a persistent id":              "\x80\x02X\x01\x00\x00\x00aQ.",
		"a state":                      "\x80\x02N}b.",
		"an extension":                 "\x80\x02\x82\x01.",
		"the oldest protocol":          "(dp0\n.",
		"protocol 9":                   "\x80\x09N.",
		"nothing":                      "\x80\x02.",
		"two values":                   "\x80\x02NN.",
		"too few for a tuple":          "\x80\x02N\x86.",
		"a mark that is not there":     "\x80\x02Nt.",
		"a list for a dictionary":      "\x80\x02](X\x01\x00\x00\x00aNu.",
		"half a pair":                  "\x80\x02}(X\x01\x00\x00\x00au.",
		"a number for a key":           "\x80\x02}(K\x01Nu.",
		"below the mark":               "\x80\x02]N(a.",
		"what was not put":             "\x80\x02h\x05.",
		"a text of four gigabytes":     "\x80\x02X\xff\xff\xff\xffa",
		"a text of many gigabytes":     "\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xffa",
		"a number of 200 bytes":        "\x80\x02\x8a\xc8",
		"more values than are allowed": "\x80\x02](" + strings.Repeat("N", 2000) + "e.",
		"more bytes than are allowed":  "\x80\x02X\x00\x10\x00\x00" + strings.Repeat("a", 4096) + ".",
	} {
		if _, err := pickle.Read(strings.NewReader(text), pickle.Limits{Values: 1000, Bytes: 3000}); err == nil {
			t.Errorf("Read of %s: no error, want one", name)
		} else if strings.HasPrefix(name, "a call") && !errors.Is(err, pickle.ErrRefused) {
			t.Error(err)
		}
	}
	// A list that contains itself, and parts that are shared many times.
	if v, err := pickle.Read(strings.NewReader("\x80\x02]q\x00h\x00a."), pickle.Limits{}); err != nil || v.(*pickle.List).Items[0] != v {
		t.Errorf("Read of a list that contains itself = %v, %v; want it as its first item", v, err)
	}
	laughs := "\x80\x02]q\x00" + strings.Repeat("q\x00]h\x00ah\x00a", 100) + "."
	if _, err := pickle.Read(strings.NewReader(strings.Replace(laughs, "]q\x00q\x00", "]q\x00", 1)), pickle.Limits{}); err == nil {
		t.Error("got a value for a stack of many, want an error")
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("\x80\x02}(X\x01\x00\x00\x00a](K\x01Ne\x88u."))
	f.Add([]byte("\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x01a\x94."))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = pickle.Read(strings.NewReader(string(data)), pickle.Limits{Bytes: 1 << 16, Values: 1 << 12})
	})
}
