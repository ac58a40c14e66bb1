//go:build unix

package rundir_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trainspan/trainspan/internal/job/rundir"
)

// If the folder of jobs belongs to another user, each user has a separate one.
func TestTwoUsers(t *testing.T) {
	t.Chdir(t.TempDir())
	if p, err := wanted("").Make(); err != nil || p.Job != "trainspan-runs/a job" || len(rundir.Roots()) != 1 {
		t.Fatalf("Make() = %+v, %v; want trainspan-runs/a job, the only root", p, err)
	}
	other := os.Getuid()
	if other == 0 { // a user who may write everywhere
		other = 65534
		if err := os.Chmod(".", 0o777); err != nil {
			t.Fatal(err)
		}
	} else if err := os.Chmod("trainspan-runs/a job", 0o500); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(selfFor(t, other))
	child.Env = append(os.Environ(), claimIn+"=.")
	asUser(child, other)
	out, err := child.CombinedOutput()
	if want := "0\n1\n2\n"; err != nil || !strings.HasPrefix(string(out), want) {
		t.Fatalf("%v, output %s; want %q", err, out, want)
	}
	own := fmt.Sprintf("trainspan-runs-%d/a job/attempt-1/h-1", other)
	if _, err := os.Stat(own); err != nil {
		t.Error(err)
	}
	if other == os.Getuid() && len(rundir.Roots()) != 2 {
		t.Errorf("roots are %v, want two", rundir.Roots())
	}
	if list, err := filepath.Glob("trainspan-runs/a job/*"); err != nil || len(list) != 1 {
		t.Errorf("attempts %v, %v; want one", list, err)
	}
}

// asUser runs a command as another user; this one must be root.
func asUser(cmd *exec.Cmd, uid int) {
	if uid != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
}

// selfFor returns the path of this program where another user can run it.
func selfFor(t *testing.T, uid int) string {
	t.Helper()
	if uid == os.Getuid() {
		return os.Args[0]
	}
	dir := t.TempDir()
	for up := dir; up != "/" && up != os.TempDir(); up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for up := filepath.Dir(wd); up != "/" && up != os.TempDir(); up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	from, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(dir, "self"), os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return to.Name()
}
