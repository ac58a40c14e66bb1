package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/testkit/gziptest"
)

// TestDamageIsKept checks that a trace made from a damaged one, or from one
// without an end, does not show a successful end of the program. The input has
// no span around all others, whose end would show the damage, and is tested with
// and without hashes of a host.
func TestDamageIsKept(t *testing.T) {
	dir := t.TempDir()
	for _, hash := range []string{"", `"hhash":"abc123","level":1`} {
		var text strings.Builder
		text.WriteString("[\n")
		event := func(id int, cat, name string, at, took int) {
			fmt.Fprintf(&text, `{"id":%d,"name":%q,"cat":%q,"pid":7,"tid":7,"ts":%d,"dur":%d,"ph":"X","args":{%s}}`+"\n", id, name, cat, 1_700_000_000_000_000+at, took, hash)
		}
		event(0, "dftracer", "start", 0, 0)
		for i := range 400 {
			event(1+i, "training", "training_iteration", 1000*i, 900)
		}
		killed := []byte(text.String())
		event(401, "dftracer", "end", 500_000, 0)
		good := gziptest.Pack([]byte(text.String()))
		for name, c := range map[string]struct {
			data []byte
			want string
		}{
			"whole":  {good, "COMPLETED"},
			"killed": {gziptest.Pack(killed), "END UNKNOWN"},
			"cut":    {good[:len(good)*6/10], "END UNKNOWN"},
		} {
			in := filepath.Join(dir, name+".pfw.gz")
			if err := os.WriteFile(in, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, verb := range []string{"trace convert IN --to v2 -o OUT", "trace convert IN --to v1 -o OUT", "trace merge IN -o OUT", "trace recover IN -o OUT"} {
				out := filepath.Join(dir, "made.pfw.gz")
				call(strings.Fields(strings.NewReplacer("IN", in, "OUT", out).Replace(verb))...)
				_, text, problems := call("report", "--json", out)
				if !strings.Contains(text, `"outcome": "`+c.want+`"`) {
					t.Errorf("%s of a trace (%s) that was %s: want outcome %s in the report, got %.300s%s", verb, hash, name, c.want, text, problems)
				}
				if err := os.Remove(out); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestMergedPartsKeepTheEnd checks that the last part of a rotated trace decides
// how the program ended.
func TestMergedPartsKeepTheEnd(t *testing.T) {
	dir := t.TempDir()
	part := func(pid, n int, end string) string {
		var text strings.Builder
		text.WriteString("[\n")
		event := func(id int, cat, name string, at, took int, args string) {
			fmt.Fprintf(&text, `{"id":%d,"name":%q,"cat":%q,"pid":%d,"tid":7,"ts":%d,"dur":%d,"ph":"X","args":{%s}}`+"\n", id, name, cat, pid, 1_700_000_000_000_000+500_000*n+at, took, args)
		}
		event(0, "dftracer", "start", 0, 0, "")
		for i := range 400 {
			event(1+i, "training", "training_iteration", 1000*i, 900, "")
		}
		if end != "none" {
			event(401, "dftracer", "end", 450_000, 0, end)
		}
		path := filepath.Join(t.TempDir(), fmt.Sprintf("trace-%d.%d.pfw.gz", pid, n))
		if err := os.WriteFile(path, gziptest.Pack([]byte(text.String())), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const continued = `"continued":1`
	for name, c := range map[string]struct {
		parts []string
		want  string
	}{
		"all parts":         {[]string{part(7, 0, continued), part(7, 1, continued), part(7, 2, "")}, "COMPLETED"},
		"in another order":  {[]string{part(7, 2, ""), part(7, 0, continued)}, "COMPLETED"},
		"without the last":  {[]string{part(7, 0, continued), part(7, 1, continued)}, "END UNKNOWN"},
		"killed":            {[]string{part(7, 0, continued), part(7, 1, "none")}, "END UNKNOWN"},
		"another one ended": {[]string{part(7, 0, continued), part(8, 0, "")}, "END UNKNOWN"},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(dir, "made.pfw.gz")
			want(t, append([]string{"trace", "merge", "--force", "-o", out}, c.parts...)...)
			if _, text, problems := call("report", "--json", out); !strings.Contains(text, `"outcome": "`+c.want+`"`) {
				t.Errorf("want outcome %s in the report, got %.300s%s", c.want, text, problems)
			}
		})
	}
}
