package tracefile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// plainText returns an event without the spacing of raw values, which may
// differ between the two parsers.
func plainText(ev *Event) string {
	args := make([]string, 0, len(ev.Args))
	for _, a := range ev.Args {
		if a.kind == KindRaw {
			var b bytes.Buffer
			if json.Compact(&b, []byte(a.str)) == nil {
				a.str = b.String()
			}
		}
		args = append(args, fmt.Sprintf("%q %d %d %q", a.Key, a.kind, a.num, a.str))
	}
	copied := *ev
	copied.Args = nil
	return fmt.Sprintf("%+v %q", copied, args)
}

// FuzzParse compares the two parsers: the fast one may reject lines, but must
// not accept what the general one rejects, or give another result.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"v1", "v2", "v22"} {
		text, err := os.ReadFile("../../dftracer/testdata/" + name + ".pfw")
		if err != nil {
			f.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			f.Add(bytes.TrimSpace(line))
		}
	}
	for _, s := range []string{
		`{"ph":"X","args":{"a":-0,"b":1e400,"c":[1],"d":"\ud800\udc00","e":-1,"f":-9223372036854775808,"g":-9223372036854775809}}`,
		`{"ph":3,"id":18446744073709551616,"args":{"p_idx":-5,"level":2147483648,"hhash":0}}`,
		`{"ph":"A","args":{"x":1.,"y":.5,"z":+1}}`,
		`{"ph":"X","args":{"p_idx":-0}}`,
		`{"pid":0A"tid":0A"ts":0}`,
		`{"ph":"M","ph":"X","name":"a\/b","args":{},"args":{"t":true,"n":null,"f":false}}`,
	} {
		f.Add([]byte(s))
	}
	neighbours := [][]byte{
		[]byte(`{"id":7,"name":"a","cat":"b","pid":1,"tid":1,"ts":17000000,"dur":2,"ph":"X","args":{"hhash":"a","level":1,"p_idx":-1,"epoch":1,"step":2}}`),
		[]byte(`{"id":8,"name":"","cat":"","pid":18,"tid":12,"ts":1,"dur":2,"ph":"M","args":{"hhash":"","":1,"e":"2"}}`),
		[]byte(`{"name":"HH","cat":"dftracer","type":1,"pid":0,"tid":0,"ph":4,"args":{"hhash":"0123456789abcdef","name":"h"}}`),
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.IndexByte(line, '\n') >= 0 {
			return
		}
		var p Parser
		fast := Event{Parent: NoParent}
		if !p.Fast(line, &fast) {
			return
		}
		if !json.Valid(line) {
			t.Fatalf("the fast parser accepted invalid JSON %q, want an error", line)
		}
		general := Event{Parent: NoParent}
		err := p.general(line, &general)
		if fast.Phase == PhaseUnknown {
			if err == nil {
				t.Fatalf("only the general parser found a phase in %q, want none or both", line)
			}
			return
		}
		if err != nil {
			t.Fatalf("the general parser refuses %q: %v", line, err)
		}
		if a, b := plainText(&fast), plainText(&general); a != b {
			t.Fatalf("%q\nfast parser: %s\nwant as the general one: %s", line, a, b)
		}
		// What a parser remembers of earlier lines must not change the result.
		for _, before := range append(neighbours, line) {
			var other Event
			_ = p.Parse([]byte(before), &other)
			if err := p.Parse(line, &other); err != nil || plainText(&other) != plainText(&general) {
				t.Fatalf("%q behind %q\nread as %s, %v\nwant %s", line, before, plainText(&other), err, plainText(&general))
			}
		}
	})
}

// TestFastRepeats checks that lines like earlier ones take the fast parser: what
// it remembers of them has a path of its own.
func TestFastRepeats(t *testing.T) {
	var p Parser
	var ev Event
	for _, name := range []string{"v1", "v2", "v22"} {
		text, err := os.ReadFile("../../dftracer/testdata/" + name + ".pfw")
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			if line = TrimLine(line); len(line) == 0 {
				continue
			}
			for range 3 {
				if err := p.Parse(line, &ev); err != nil || p.Slow > 0 {
					t.Fatalf("%s: %s\ngot %v, %d by the general parser, want none", name, line, err, p.Slow)
				}
			}
		}
	}
}
