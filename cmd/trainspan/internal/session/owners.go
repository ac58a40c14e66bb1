//go:build unix

package session

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/trainspan/trainspan/internal/ingest/pyring/ring"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/proc"
)

// ownerPrefix is the prefix of empty files in a start's folder: each names a
// process that may still need the folder. Their extension is one that every
// version of trainspan trace import accepts as the folder's own.
const ownerPrefix = "owner-"

// lockFolder locks a folder while this process lives, and then names the
// processes that need it. A missing lock is not an error, because the names of
// its owners protect it.
func (p *pythonSide) lockFolder(dir string, pids ...int) {
	if f, err := os.Open(dir); err == nil {
		fswrite.Lock(f)
		p.locks = append(p.locks, f)
	}
	for _, pid := range pids {
		nameOwner(dir, pid)
	}
}

// nameOwner records that a process may need a folder.
func nameOwner(dir string, pid int) {
	f, err := fswrite.Create(filepath.Join(dir, ownerName(pid)), 0o600)
	if err == nil {
		_ = f.Close() // nothing was written
	}
}

// ownerName identifies a process: by its id, its start time, its PID namespace,
// and the boot.
func ownerName(pid int) string {
	started := uint64(0)
	if s, err := proc.Read("/proc", pid); err == nil {
		started = s.Started
	}
	return fmt.Sprintf("%s%d-%d-%s%s", ownerPrefix, pid, started, machine(), ring.SideExt)
}

// machine returns the PID namespace of this process and the boot id of its
// kernel, or "".
func machine() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	info, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d-%.8s", stat.Ino, boot)
}

// sweep deletes folders of this user's starts if all their processes were
// killed and they have no ring buffer. It keeps folders with a ring buffer for
// trainspan trace import.
func sweep(in ...string) {
	for _, up := range in {
		dirs, _ := filepath.Glob(filepath.Join(up, folderPrefix+"*")) // if up contains pattern characters, nothing is found
		for _, dir := range dirs {
			if abandoned(dir) {
				_ = RemoveFolder(dir) // it keeps foreign folders, and folders with a ring buffer
			}
		}
	}
}

// abandoned reports whether a folder is no longer needed: it has owners, all of
// them have ended as far as this process can see, and no process holds its
// lock. A folder that is being created has no owner yet, so its lock is not
// taken here.
func abandoned(dir string) bool {
	owners, err := filepath.Glob(filepath.Join(dir, ownerPrefix+"*"+ring.SideExt))
	here := machine()
	if err != nil || len(owners) == 0 || here == "" {
		return false
	}
	for _, path := range owners {
		var pid int
		var started uint64
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), ownerPrefix), ring.SideExt)
		if n, err := fmt.Sscanf(name, "%d-%d-", &pid, &started); err != nil || n != 2 {
			return false
		}
		if name != fmt.Sprintf("%d-%d-%s", pid, started, here) || proc.Alive(pid, started) {
			return false // this includes processes in other containers or on other machines, which cannot be checked
		}
	}
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // only read
	return fswrite.Lock(f)
}
