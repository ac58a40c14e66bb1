package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

type options struct {
	sample  int
	seed    uint64
	long    bool
	timeout time.Duration
	memory  int // GiB
	only    string
	dir     string // to run go in, "" for the current one
}

// result counts what became of the mutants.
type result struct{ possible, tried, survived, broken int }

// run tries mutants of a package and calls told with those that survive.
func run(ctx context.Context, pkg string, o *options, told func(*mutant)) (r result, err error) {
	files, err := source(ctx, pkg, o.dir)
	if err != nil {
		return r, err
	}
	all, err := shuffled(files, o)
	if err != nil {
		return r, err
	}
	r.possible = len(all)
	temp, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(temp) //nolint:errcheck // it is temporary
	t := &tester{pkg: pkg, o: o, temp: temp, limit: 10 * time.Minute}
	start := time.Now()
	if passed, out, err := t.test(ctx, ""); err != nil || !passed {
		return r, errors.Join(err, fmt.Errorf("the tests of %s fail without any mutant:\n%s", pkg, out))
	}
	if t.limit = o.timeout; t.limit == 0 {
		t.limit = 3*time.Since(start) + 20*time.Second
	}
	for i := range all {
		if r.tried == o.sample {
			break
		}
		m := &all[i]
		overlay, err := t.overlay(m)
		if err != nil {
			return r, err
		}
		passed, out, err := t.test(ctx, overlay)
		switch {
		case err != nil:
			return r, err
		case !passed && (strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]")):
			r.broken++
			continue
		case passed:
			r.survived++
			told(m)
		}
		r.tried++
	}
	return r, nil
}

// shuffled lists the mutants of files in an order that the seed says.
func shuffled(files []string, o *options) (all []mutant, err error) {
	for _, path := range files {
		if strings.Contains(filepath.Base(path), o.only) {
			list, err := mutants(path)
			if err != nil {
				return nil, err
			}
			all = append(all, list...)
		}
	}
	rng := rand.New(rand.NewPCG(o.seed, 0)) //nolint:gosec // an order that can be had again
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all, nil
}

// source lists the files of a package that are no tests.
func source(ctx context.Context, pkg, dir string) (paths []string, err error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-json=Dir,GoFiles", pkg)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", pkg, err)
	}
	var p struct {
		Dir     string
		GoFiles []string
	}
	if err := json.Unmarshal(out, &p); err != nil {
		return nil, fmt.Errorf("%s is not one package: %w", pkg, err)
	}
	for _, name := range p.GoFiles {
		paths = append(paths, filepath.Join(p.Dir, name))
	}
	return paths, nil
}

// tester runs the tests of a package.
type tester struct {
	pkg   string
	o     *options
	temp  string
	limit time.Duration
}

// overlay writes the changed file, and which one it stands for.
func (t *tester) overlay(m *mutant) (string, error) {
	changed, overlay := filepath.Join(t.temp, "mutant.go"), filepath.Join(t.temp, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {m.path: changed}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(changed, []byte(m.apply()), 0o600), os.WriteFile(overlay, replace, 0o600))
}

// test reports whether the tests pass. An error is one of the tool's own.
func (t *tester) test(ctx context.Context, overlay string) (passed bool, out string, err error) {
	args := []string{"test", "-vet=off", "-failfast", "-timeout", t.limit.String()}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	if !t.o.long {
		args = append(args, "-short")
	}
	// A mutant may be a loop that allocates.
	if path, err := exec.LookPath("prlimit"); err == nil && t.o.memory > 0 {
		args = append(args, "-exec", fmt.Sprintf("%s --as=%d", path, int64(t.o.memory)<<30))
	}
	cmd := exec.CommandContext(ctx, "go", append(args, t.pkg)...)
	cmd.Dir = t.o.dir
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second // for what a test has started
	err = cmd.Run()
	if ctx.Err() != nil {
		return false, both.String(), ctx.Err()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, exec.ErrWaitDelay) {
		return false, both.String(), nil
	}
	return err == nil, both.String(), err
}
