package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const code = `package p

// Limit is the largest number.
const Limit = 10

func ok(n int) bool {
	if n < 0 {
		return false
	}
	return n <= Limit && n != 7
}

func count(n int) (sum int) {
	for i := 0; i < n; i++ {
		sum += i
	}
	noted(sum)
	return sum - 1
}

var last int

func noted(n int) { last = n }
`

func project(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "")
	return dir
}

func TestMutants(t *testing.T) {
	dir := project(t, map[string]string{"p.go": code})
	list, err := mutants(filepath.Join(dir, "p.go"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range list {
		got = append(got, strings.TrimPrefix(list[i].String(), dir+"/"))
		if list[i].apply() == code {
			t.Errorf("%s changes nothing", got[i])
		}
	}
	for _, want := range []string{
		"p.go:4: 10 becomes 11", "p.go:7: n < 0 becomes !(n < 0)", "p.go:7: n < 0 becomes n <= 0", "p.go:8: false becomes true",
		"p.go:10: n <= Limit && n != 7 becomes n <= Limit || n != 7", "p.go:10: n <= Limit && n != 7 becomes n != 7", "p.go:10: n != 7 becomes n == 7",
		"p.go:15: without sum += i", "p.go:17: without noted(sum)", "p.go:18: sum - 1 becomes sum", "p.go:18: sum - 1 becomes sum + 1", "p.go:18: 1 becomes 2",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is missing of\n%s", want, strings.Join(got, "\n"))
		}
	}
}

// The same seed is the same order.
func TestShuffled(t *testing.T) {
	dir := project(t, map[string]string{"p.go": code, "q.go": small})
	order := func(seed uint64, only string) (got []string) {
		t.Helper()
		list, err := shuffled([]string{filepath.Join(dir, "p.go"), filepath.Join(dir, "q.go")}, &options{seed: seed, only: only})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list {
			got = append(got, list[i].String())
		}
		return got
	}
	first := order(1, "")
	if other := order(2, ""); !slices.Equal(first, order(1, "")) || slices.Equal(first, other) || len(first) != len(other) {
		t.Errorf("seed 1: %q; seed 2: %q", first, other)
	}
	if some := order(1, "q"); len(some) == 0 || len(some) >= len(first) {
		t.Errorf("of one file: %q", some)
	}
}

const small = `package p

func ok(n int) bool {
	noted(n)
	last := n
	noted(last)
	return n <= 10
}

func noted(int) {}
`

const smallTest = `package p

import "testing"

func TestOK(t *testing.T) {
	if !ok(3) || ok(11) {
		t.Fatal("not ok")
	}
}
`

// What the tests do not notice is found, whatever else is; the files stay.
func TestRun(t *testing.T) {
	dir := project(t, map[string]string{"p.go": small, "p_test.go": smallTest, "go.mod": "module p\n\ngo 1.26.0\n"})
	var survived []string
	o := options{sample: 100, dir: dir, memory: 8}
	r, err := run(t.Context(), ".", &o, func(m *mutant) { survived = append(survived, strings.TrimPrefix(m.String(), dir+"/")) })
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(survived)
	if want := []string{"p.go:4: without noted(n)", "p.go:7: n <= 10 becomes n < 10"}; !slices.Equal(survived, want) {
		t.Errorf("these survived:\n%s", strings.Join(survived, "\n"))
	}
	if r != (result{possible: 4, tried: 3, survived: 2, broken: 1}) {
		t.Errorf("%+v", r)
	}
	text, err := os.ReadFile(filepath.Join(dir, "p.go"))
	if err != nil || string(text) != small {
		t.Errorf("the file was changed: %v", err)
	}
	// Tests that do not end in time notice a mutant: this one waits for what it leaves out.
	endless := options{sample: 1, memory: 8, timeout: time.Second, dir: project(t, map[string]string{
		"p.go": "package p\n\nfunc done(c chan bool) { close(c) }\n", "go.mod": "module p\n\ngo 1.26.0\n",
		"p_test.go": "package p\n\nimport \"testing\"\n\nfunc TestDone(t *testing.T) {\n\tc := make(chan bool)\n\tdone(c)\n\t<-c\n}\n",
	})}
	if r, err := run(t.Context(), ".", &endless, nil); err != nil || r.tried != 1 || r.survived != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	// Tests that fail by themselves say nothing.
	if err := os.WriteFile(filepath.Join(dir, "p_test.go"), []byte(strings.Replace(smallTest, "3", "30", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t.Context(), ".", &o, nil); err == nil || !strings.Contains(err.Error(), "without any mutant") {
		t.Error(err)
	}
}
