package python_test

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
)

// TestWheelVersions checks the version from git describe by the rules of PEP
// 440; without a tag it is the version of the library, which is also the
// client's.
func TestWheelVersions(t *testing.T) {
	version := func(described string) (string, error) {
		out, err := exec.Command(pyrun.Interpreter(t), "-c", "import sys, wheels; print(wheels.version_of(sys.argv[1]))", described).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	for described, want := range map[string]string{
		"v1.2.3":                  "1.2.3",
		"v1.2.3-rc.1":             "1.2.3rc1",
		"v1.2.3-alpha2":           "1.2.3a2",
		"v1.2.3-5-gabcdef1":       "1.2.3.post5+gabcdef1",
		"v1.2.3-5-gabcdef1-dirty": "1.2.3.post5+gabcdef1.dirty",
		"v1.2.3-dirty":            "1.2.3+dirty",
		"abcdef1":                 identity.Version + ".dev0+gabcdef1",
		"abcdef1-dirty":           identity.Version + ".dev0+gabcdef1.dirty",
	} {
		if got, err := version(described); err != nil || got != want {
			t.Errorf("%s is %s, want %s: %v", described, got, want, err)
		}
	}
	for _, described := range []string{"", "devel", "1.2.3", "v1.2", "v1.2.3-final"} {
		if got, err := version(described); err == nil || !strings.Contains(got, "is not a version of git describe") {
			t.Errorf("version of %q = %s, %v; want that it is not a version of git describe", described, got, err)
		}
	}
}

// TestWheelVersionOfACopy checks that the version is that of the sources' own repository, not of one that has a
// copy of them.
func TestWheelVersionOfACopy(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	root := t.TempDir()
	copied := filepath.Join(root, "copy", "integrations", "python")
	if err := os.MkdirAll(copied, 0o700); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("wheels.py")
	if err == nil {
		err = os.WriteFile(filepath.Join(copied, "wheels.py"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	git := func(dir string, args ...string) {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=n", "-c", "user.email=e"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
	}
	for _, c := range [][2]string{{root, "None"}, {filepath.Join(root, "copy"), "v1.2.3"}} {
		dir, want := c[0], c[1]
		git(dir, "init", "-q")
		git(dir, "commit", "-q", "--allow-empty", "-m", "m")
		git(dir, "tag", "v1.2.3")
		cmd := exec.Command(pyrun.Interpreter(t), "-c", "import wheels; print(wheels.describe())")
		cmd.Dir = copied
		if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("in a repository at %s: %q, %v; want %s", dir, out, err, want)
		}
	}
}

// TestWheelPackages checks that a wheel has all packages, and the command.
func TestWheelPackages(t *testing.T) {
	dir := t.TempDir()
	command := filepath.Join(dir, "trainspan")
	if err := os.WriteFile(command, []byte("command"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(pyrun.Interpreter(t), "-c", "import sys, wheels; print(wheels.write(sys.argv[1], 'v1.2.3', None, sys.argv[2], 'x86_64'))", dir, command).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	z, err := zip.OpenReader(filepath.Join(dir, strings.TrimSpace(string(out))))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	has := make(map[string]bool)
	for _, f := range z.File {
		has[f.Name] = true
	}
	for _, name := range []string{
		"trainspan/__init__.py", "trainspan/py.typed", "trainspan_torch/__init__.py", "trainspan_dask/__init__.py", "trainspan-1.2.3.data/scripts/trainspan",
	} {
		if !has[name] {
			t.Errorf("the wheel lacks %s", name)
		}
	}
}
