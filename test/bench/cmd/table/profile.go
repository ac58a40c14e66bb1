package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
	"github.com/trainspan/trainspan/test/bench"
)

// errProfiled ends a measurement that has printed a profile instead of its
// rows.
var errProfiled = errors.New("profiled")

const (
	profileEnv = "TRAINSPAN_BENCH_PROFILE" // the file that the profiled command writes
	leastShare = 0.01                      // share of the samples from which on an area is printed
)

// profiled prints the CPU time of do by package. do writes a profile to the
// given path, or runs under recorded.
func (t *tables) profiled(what string, do func(path string) error) error {
	path := filepath.Join(t.dir, "cpu.pprof")
	if err := do(path); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	p, err := profile.Parse(f)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s\n\n", what)
	shares(p)
	if t.functions {
		top := exec.Command("go", "tool", "pprof", "-top", "-nodecount", "45", path)
		top.Stdout, top.Stderr = os.Stdout, os.Stderr
		err = top.Run()
	}
	return errors.Join(err, errProfiled)
}

// recorded writes the profile of this process while do runs.
func recorded(path string, do func() error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	err = do()
	pprof.StopCPUProfile()
	return errors.Join(err, f.Close())
}

// shares prints the share of each package: its own time, with that of the
// runtime and of small packages of the standard library that it calls.
func shares(p *profile.Profile) {
	areas, whole, last := make(map[string]int64), int64(0), len(p.SampleType)-1
	for _, s := range p.Sample {
		areas[area(s)] += s.Value[last]
		whole += s.Value[last]
	}
	for _, a := range slices.SortedFunc(maps.Keys(areas), func(a, b string) int { return cmp.Compare(areas[b], areas[a]) }) {
		if share := float64(areas[a]) / float64(whole); share >= leastShare {
			fmt.Printf("%5.1f %% %s\n", share*100, a)
		}
	}
}

// area returns the package of the innermost function of a sample, without
// packages that work for their callers.
func area(s *profile.Sample) string {
	for _, l := range s.Location {
		for i := range l.Line {
			name, _, _ := strings.Cut(l.Line[i].Function.Name, "[") // without type arguments, which contain other packages
			slash := strings.LastIndexByte(name, '/') + 1
			pkg, _, _ := strings.Cut(name[slash:], ".")
			pkg = name[:slash] + pkg
			first, _, _ := strings.Cut(pkg, "/")
			switch {
			case name == "runtime.gcBgMarkWorker" || name == "runtime.bgsweep" || name == "runtime.gcAssistAlloc":
				return "garbage collector"
			case pkg == "time":
				return "clock"
			case strings.Contains(first, ".") || slices.Contains(standard, first):
				return strings.TrimPrefix(pkg, "github.com/trainspan/trainspan/")
			}
		}
	}
	return "runtime"
}

// standard lists the packages of the standard library that are separate areas.
var standard = []string{"compress", "encoding", "hash", "os", "syscall", "crypto", "main"}

// profiledCase profiles a case of this process.
func (t *tables) profiledCase(what string, c *bench.Case) error {
	return t.profiled(what, func(path string) (err error) {
		run, done, err := c.Setup(t.dir)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, done()) }()
		n := bench.Calibrate(run, 20*t.each)
		return recorded(path, func() error { run(n); return nil })
	})
}

// profiledCommand profiles a command. The last part of its name tells whether
// it is this program.
func (t *tables) profiledCommand(args []string) error {
	return t.profiled(filepath.Base(args[0])+" "+args[1], func(path string) error {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env, cmd.Stderr = append(os.Environ(), profileEnv+"="+path), os.Stderr
		return cmd.Run()
	})
}

// profilingMain replaces the main function of the command by one that records a
// profile. The command itself cannot do that.
func (t *tables) profilingMain() (overlay string, err error) {
	dir := filepath.Join(moduleRoot, "cmd", "trainspan")
	text, err := os.ReadFile(filepath.Join(dir, "main.go"))
	if err != nil {
		return "", err
	}
	main := strings.Replace(string(text), "os.Exit(realMain())", `f, err := os.Create(os.Getenv("`+profileEnv+`"))
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		panic(err)
	}
	code := realMain()
	pprof.StopCPUProfile()
	os.Exit(code)`, 1)
	main = strings.Replace(main, "import (", "import (\n\t\"runtime/pprof\"", 1)
	if err := os.WriteFile(filepath.Join(t.dir, "main.go"), []byte(main), 0o644); err != nil {
		return "", err
	}
	at, err := filepath.Abs(filepath.Join(dir, "main.go"))
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(t.dir, "overlay.json")
	return overlay, os.WriteFile(overlay, fmt.Appendf(nil, `{"Replace":{%q:%q}}`, at, filepath.Join(t.dir, "main.go")), 0o644)
}
