package fsread_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/fsread"
)

func TestWalk(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, err := range []error{
		os.MkdirAll("job/rank-1", 0o755), os.WriteFile("job/b", []byte("1"), 0o600), os.WriteFile("job/rank-1/a", []byte("2"), 0o600),
		os.WriteFile("x[1]", []byte("3"), 0o600), os.Link("job/b", "job/again"), os.Symlink("job", "latest"), os.Symlink("rank-1/a", "job/to"), os.Symlink("gone", "job/broken"),
	} {
		if err != nil {
			t.Skip(err) // this system has no links
		}
	}
	for _, c := range []struct {
		paths string
		want  string // a star marks files that were named, files in folders have none
		err   error
	}{
		{"job", "job/again job/rank-1/a", nil},
		{"latest", "latest/again latest/rank-1/a", nil},
		{"job/b job", "job/b* job/rank-1/a", nil},
		{"job/rank-1/a job/to latest job", "job/rank-1/a* latest/again", nil},
		{"x[1]", "x[1]*", nil},
		{"job/[ab]*", "job/again?", nil},
		{"jo*", "job/again job/rank-1/a", nil},
		{"none", "", os.ErrNotExist},
		{"n*", "", fsread.ErrNoMatch},
		{"[", "", filepath.ErrBadPattern},
	} {
		t.Run(c.paths, func(t *testing.T) {
			found, err := fsread.Walk(strings.Fields(c.paths)...)
			var got []string
			for _, f := range found {
				switch {
				case f.Err != nil:
					t.Error(f.Err)
				case f.Named:
					f.Path += "*"
				case !f.Below:
					f.Path += "?"
				}
				got = append(got, f.Path)
			}
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || !slices.Equal(got, strings.Fields(c.want)) {
				t.Errorf("%q, %v, want %q, %v", got, err, c.want, c.err)
			}
		})
	}
}

func TestNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, err := range []error{
		os.MkdirAll("job/rank-1", 0o755), os.WriteFile("job/b", []byte("1"), 0o600), os.WriteFile("job/rank-1/a", []byte("2"), 0o600), os.WriteFile("job/c", nil, 0o600),
		os.Symlink("job", "latest"), os.Symlink("rank-1/a", "job/d"), os.Symlink("gone", "broken"), os.Symlink("job/b", "e"),
	} {
		if err != nil {
			t.Skip(err) // this system has no links
		}
	}
	for paths, want := range map[string]string{
		"job":                  "job/b job/rank-1/a",
		"latest":               "latest/b latest/rank-1/a",
		"latest job job/b":     "latest/b latest/rank-1/a",
		"job/rank-1 job job/c": "job/rank-1/a job/b",
		"none broken e job/b":  "job/b",
	} {
		got := fsread.Named(func(name string) bool { return name != "c" }, strings.Fields(paths)...)
		if !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("Named(%s) = %q, want %q", paths, got, want)
		}
	}
}
