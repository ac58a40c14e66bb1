package main

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
	"github.com/trainspan/trainspan/test/bench"
)

// row is a line of the table: the measured case, the compared one, and the
// result.
type row struct{ what, rival, goal string }

// line prints a row with its figures.
func (r *row) line(value, ratio string) {
	fmt.Printf("| %s | %s | %s | %s | %s |\n", r.what, r.rival, value, ratio, r.goal)
}

// group is a set of rows from one measurement.
type group struct {
	rows    []row
	measure func(t *tables, rows []row) error
}

// tables holds the values that the groups share.
type tables struct {
	only   *regexp.Regexp // the selected rows
	dir    string         // temporary
	self   string         // this program, which reads, inflates and scans in a separate process
	binary string         // the command, after it is built
	rounds int            // of commands
	inner  int            // of cases within this process
	each   time.Duration

	others bool // the rows beside other tools, in place of the others

	profile, functions bool // instead of figures
}

// command returns the path of the trainspan binary.
func (t *tables) command() (_ string, err error) {
	if t.binary == "" {
		var flags []string
		if t.profile {
			overlay, err := t.profilingMain()
			if err != nil {
				return "", err
			}
			flags = []string{"-overlay", overlay}
		}
		t.binary, err = bench.BuildCommand(t.dir, flags...)
	}
	return t.binary, err
}

// beside runs two commands alternately and returns the medians of their user
// time and wall time, and the median of the ratios of user time.
func (t *tables) beside(ours, rival []string) (m, r bench.Usage, ratio float64, err error) {
	if t.profile {
		return m, r, 0, t.profiledCommand(ours)
	}
	var all [2][]bench.Usage
	var ratios []float64
	for range t.rounds {
		for i, args := range [][]string{ours, rival} {
			u, err := bench.RunCommand(args[0], args[1:]...)
			if err != nil {
				return m, r, 0, err
			}
			all[i] = append(all[i], u)
		}
		ratios = append(ratios, all[0][len(all[0])-1].User.Seconds()/all[1][len(all[1])-1].User.Seconds())
	}
	mid := func(of []bench.Usage) (u bench.Usage) {
		u.User = median(of, func(u bench.Usage) time.Duration { return u.User })
		u.Wall = median(of, func(u bench.Usage) time.Duration { return u.Wall })
		u.Memory = median(of, func(u bench.Usage) int64 { return u.Memory })
		return u
	}
	slices.Sort(ratios)
	return mid(all[0]), mid(all[1]), ratios[len(ratios)/2], nil
}

func median[T any, N int64 | time.Duration](of []T, get func(T) N) N {
	x := make([]N, len(of))
	for i := range of {
		x[i] = get(of[i])
	}
	slices.Sort(x)
	return x[len(x)/2]
}

// alone does the work that a command is compared with, in the measured process.
func alone(what, path string) error {
	if to := os.Getenv(profileEnv); to != "" {
		return recorded(to, func() error { return aloneOf(what, path) })
	}
	return aloneOf(what, path)
}

func aloneOf(what, path string) error {
	if what == "read" {
		return bench.ReadBare(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	switch what {
	case "inflate":
		z, err := gzip.NewReader(f)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, z)
		return err
	case "scan":
		text, err := io.ReadAll(f)
		if err == nil && !gjson.ValidBytes(text) {
			err = fmt.Errorf("%s is no JSON", path)
		}
		return err
	}
	return fmt.Errorf("-alone %s: there are read, inflate and scan", what)
}

// hello builds a Go program that only prints a line.
func (t *tables) hello() (string, error) {
	src, path := filepath.Join(t.dir, "hello.go"), filepath.Join(t.dir, "hello")
	text := "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"hello\") }\n"
	if err := os.WriteFile(src, []byte(text), 0o644); err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-o", path, src).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build a program that does nothing: %w: %s", err, out)
	}
	return path, nil
}

// job writes the traces of a job once.
func (t *tables) job(ranks, steps int) (string, error) {
	dir := filepath.Join(t.dir, fmt.Sprintf("job-%d-%d", ranks, steps))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	return dir, simjob.Large{Ranks: ranks, Steps: steps, Slow: ranks * 2 / 3, Extra: 12, Save: 200}.Write(dir)
}

// moduleRoot is the folder of the module that is measured, seen from test/bench,
// where the table runs.
const moduleRoot = "../.."

// goTest runs a benchmark of a package of the module and returns its figures by
// unit, as the median of the rounds.
func (t *tables) goTest(pkg, bench string) (map[string]float64, error) {
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", bench, "-benchtime", "0.5s", "-count", strconv.Itoa(t.rounds), pkg)
	cmd.Dir, cmd.Stderr = moduleRoot, os.Stderr
	if t.profile {
		return nil, t.profiled(bench, func(path string) error {
			cmd.Args = append(cmd.Args, "-cpuprofile", path, "-o", filepath.Join(t.dir, "test"))
			return cmd.Run()
		})
	}
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go test -bench %s %s: %w\n%s", bench, pkg, err, out)
	}
	all := make(map[string][]float64)
	for _, m := range figure.FindAllSubmatch(out, -1) {
		v, err := strconv.ParseFloat(string(m[1]), 64)
		if err == nil {
			all[string(m[2])] = append(all[string(m[2])], v)
		}
	}
	units := make(map[string]float64)
	for unit, v := range all {
		slices.Sort(v)
		units[unit] = v[len(v)/2]
	}
	return units, nil
}

var figure = regexp.MustCompile(`\t *([0-9.e+]+) ([^\s]+)`)
