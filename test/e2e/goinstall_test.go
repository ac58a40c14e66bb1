package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// TestGoInstall publishes the root and the command in a module proxy of files, as
// docs/maintain/releasing.md says, and installs the command from it. The module cache of this
// machine is used, so that nothing else has to be compiled again, and is left as it was.
func TestGoInstall(t *testing.T) {
	const root = "github.com/trainspan/trainspan"
	// The build cache has an index of each module by version, so that each run needs another one.
	version := fmt.Sprintf("v0.0.1-test%d", time.Now().UnixNano())
	n := &shellUser{t: t, dir: t.TempDir()}
	n.environment()
	n.paste("the command requires the version", fmt.Sprintf(`cd trainspan/cmd/trainspan
GOWORK=off go mod edit -require %s@%s
git -c user.name=test -c user.email=test@localhost commit -q -a -m release`, root, version))
	clone, proxy := filepath.Join(n.dir, "trainspan"), filepath.Join(n.dir, "proxy")
	for _, path := range []string{root, root + "/cmd/trainspan"} {
		sub := strings.TrimPrefix(strings.TrimPrefix(path, root), "/")
		goMod, err := os.ReadFile(filepath.Join(clone, sub, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join("proxy", filepath.FromSlash(path), "@v")
		n.put(filepath.Join(at, "list"), version+"\n")
		n.put(filepath.Join(at, version+".info"), fmt.Sprintf(`{"Version":%q,"Time":%q}`, version, time.Now().UTC().Format(time.RFC3339)))
		n.put(filepath.Join(at, version+".mod"), string(goMod))
		f, err := os.Create(filepath.Join(n.dir, at, version+".zip"))
		if err != nil {
			t.Fatal(err)
		}
		if err := zip.CreateFromVCS(f, module.Version{Path: path, Version: version}, clone, "HEAD", sub); err != nil {
			t.Fatalf("the archive of %s: %v", path, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		n.paste("the module cache is as before", fmt.Sprintf(`cd "$(go env GOMODCACHE)"
rm -rf %[1]s@%[2]s %[1]s/cmd/trainspan@%[2]s cache/download/%[1]s/@v/%[2]s.* cache/download/%[1]s/cmd/trainspan/@v/%[2]s.*`, root, version))
	})
	out := n.paste("go install", fmt.Sprintf(`export GOBIN="$PWD/bin" GOFLAGS=-modcacherw CGO_ENABLED=0 GOPROXY="file://%s,$GOPROXY"
go install %s/cmd/trainspan@%s
bin/trainspan --version`, proxy, root, version))
	if !strings.Contains(out, version) {
		t.Errorf("trainspan --version prints %q, want %s in it", out, version)
	}
}
