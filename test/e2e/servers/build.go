package servers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// JaegerVersion is the version of Jaeger in jaeger/go.mod.
const JaegerVersion = "v1.76.0"

// jaegerPackage is Jaeger's main package.
const jaegerPackage = "github.com/jaegertracing/jaeger/cmd/jaeger"

// CacheDir returns the folder of built servers: trainspan-e2e in the user's
// cache directory.
func CacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("servers: no place to keep built servers: %w", err)
	}
	return filepath.Join(dir, "trainspan-e2e"), nil
}

// Jaeger returns the path of Jaeger's program. It builds it in the module at
// moduleDir (e2e/jaeger) unless an earlier call did for the same versions. A
// build takes minutes and about 2.4 GB of memory; ctx limits it.
func Jaeger(ctx context.Context, moduleDir string) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	key, err := keyOf(filepath.Join(moduleDir, "go.mod"), filepath.Join(moduleDir, "go.sum"))
	if err != nil {
		return "", fmt.Errorf("servers: %w", err)
	}
	path := filepath.Join(cache, "jaeger-"+JaegerVersion+"-"+key, "jaeger")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, build(ctx, moduleDir, path, jaegerPackage)
}

// keyOf returns a key of the files that determine a build.
func keyOf(files ...string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		sum.Write(text)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:6]), nil
}

// build builds a main package of the module in dir. It renames the program when
// it is complete, so that an interrupted build leaves none.
func build(ctx context.Context, dir, path, pkg string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	part := fmt.Sprintf("%s.%d.part", path, os.Getpid())
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", part, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		_ = os.Remove(part) // it may not exist
		return fmt.Errorf("servers: build %s: %w", pkg, errors.Join(err, ctx.Err(), lastLines(out)))
	}
	return nil
}

// lastLines returns the end of a program's output as an error, nil if it is
// empty.
func lastLines(out []byte) error {
	const most = 2000
	if len(out) == 0 {
		return nil
	}
	if len(out) > most {
		out = out[len(out)-most:]
	}
	return errors.New(string(out))
}
