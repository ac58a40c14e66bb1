package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pythonTools check the metadata of a wheel, its types and platforms, and
// manifests.
var pythonTools = []string{"mypy==2.4.1", "pyright==1.1.414", "twine==7.0.0", "auditwheel==6.8.2", "kubernetes-validate==1.37.0"}

// notDescribed matches the names that stubs omit on purpose: those private to
// the client, and those that each node, span or enum has itself.
const notDescribed = `trainspan\.(_enum|_ring|_fn|_log|_opened|_paths|files).*
trainspan\.Span\.(__init__|off)
trainspan\.dftracer\.\w+\.__new__
trainspan\.dftracer\.__all__
trainspan\.__main__\.path
trainspan\.dftracer\.DFTracerAI\.__(enter|exit)__
trainspan\.onelogger.*
`

// TestWheelTools builds a wheel as a release does, and checks it with common
// tools: pip installs it, mypy and pyright check a strict program against its
// types, stubtest the types against the code, twine its metadata, auditwheel
// its platforms. The manifests are checked against the schema of Kubernetes.
func TestWheelTools(t *testing.T) {
	if testing.Short() {
		t.Skip("packages of Python are fetched")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	ctx, dir := untilDeadline(t), t.TempDir()
	do := func(name string, args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	venv := filepath.Join(dir, "venv")
	in := func(name string) string { return filepath.Join(venv, "bin", name) }
	if out, err := do(python, "-m", "venv", venv); err != nil {
		t.Skipf("no environment can be made: %v\n%s", err, out)
	}
	if out, err := do(in("pip"), append([]string{"install", "--disable-pip-version-check"}, pythonTools...)...); err != nil {
		t.Skipf("the packages cannot be fetched: %v\n%s", err, out)
	}
	for i, manifest := range manifests(t) {
		path := filepath.Join(dir, fmt.Sprintf("manifest%d.yaml", i))
		if err := os.WriteFile(path, manifest, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := do(in("kubernetes-validate"), "--strict", path); err != nil {
			t.Errorf("kubernetes-validate: %v\n%s\n%s", err, out, manifest)
		}
	}
	release, err := filepath.Abs("../../tools/release")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := do("env", "DIST="+dir, "PLATFORMS=linux/amd64 linux/arm64", release, "wheels"); err != nil {
		t.Fatalf("release wheels: %v\n%s", err, out)
	}
	wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(wheels) != 2 {
		t.Fatalf("wheels %v, %v; want two", wheels, err)
	}
	mine := ""
	for _, wheel := range wheels {
		info, err := os.Stat(wheel)
		if err != nil || info.Size() > 15<<20 {
			t.Errorf("%s has %d bytes, want at most 15 MiB: %v", wheel, info.Size(), err)
		}
		if strings.Contains(wheel, "x86_64") {
			mine = wheel
		}
	}
	if out, err := do(in("twine"), append([]string{"check", "--strict"}, wheels...)...); err != nil {
		t.Errorf("twine: %v\n%s", err, out)
	}
	for _, wheel := range wheels { // nothing is linked, so there is nothing to repair
		if out, err := do(in("auditwheel"), "show", wheel); err != nil || !strings.Contains(out, "requires no external shared libraries") {
			t.Errorf("auditwheel: %v, want no external shared libraries\n%s", err, out)
		}
	}
	if out, err := do(in("pip"), "install", "--no-index", "--disable-pip-version-check", mine); err != nil {
		t.Fatalf("pip install: %v\n%s", err, out)
	}
	text, err := os.ReadFile("testdata/typed.py")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "typed.py"), text, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "allowed"), []byte(notDescribed), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range [][]string{
		{in("mypy"), "--strict", "typed.py"},
		{in("pyright"), "--pythonpath", in("python"), "typed.py"},
		{in("stubtest"), "trainspan", "--allowlist", "allowed", "--ignore-unused-allowlist"},
	} {
		if out, err := do(check[0], check[1:]...); err != nil {
			t.Errorf("%s: %v\n%s", filepath.Base(check[0]), err, out)
		}
	}
	// This checks that the types are found: the tools report the error.
	if err := os.WriteFile(filepath.Join(dir, "wrong.py"), []byte("from trainspan.onelogger import on_save_checkpoint_start\non_save_checkpoint_start('one')\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, check := range [][]string{{in("mypy"), "wrong.py"}, {in("pyright"), "--pythonpath", in("python"), "wrong.py"}} {
		if out, err := do(check[0], check[1:]...); err == nil || !strings.Contains(out, "global_step") && !strings.Contains(out, "int") {
			t.Errorf("%s: %v, want an error of type\n%s", filepath.Base(check[0]), err, out)
		}
	}
}

// manifests returns the manifests of the agent and of docs/guide/clusters.md,
// except for kinds that are not built into Kubernetes.
func manifests(t *testing.T) (all [][]byte) {
	t.Helper()
	agent, err := os.ReadFile("../../deploy/agent/daemonset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../docs/guide/clusters.md")
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, agent)
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1) {
		all = append(all, block[1])
	}
	if len(all) < 2 {
		t.Error("docs/guide/clusters.md has no manifest")
	}
	return all
}
