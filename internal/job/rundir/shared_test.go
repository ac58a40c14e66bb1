package rundir

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
)

// counted counts each call until the end of the test.
func counted(t *testing.T) func(what string) int {
	var mu sync.Mutex
	n := make(map[string]int)
	count := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		n[what]++
	}
	real := shared
	t.Cleanup(func() { shared = real })
	shared = calls{
		mkdirAll: func(dir string, mode fs.FileMode) error { count("mkdirAll"); return real.mkdirAll(dir, mode) },
		list:     func(dir string) ([]fs.DirEntry, error) { count("list"); return real.list(dir) },
		read:     func(path string) ([]byte, error) { count("read"); return real.read(path) },
		create: func(path string, mode fs.FileMode) (*os.File, error) {
			count("create")
			return real.create(path, mode)
		},
		tempDir: func(parent, prefix string) (string, error) { count("tempDir"); return real.tempDir(parent, prefix) },
		publish: func(from, to string) error { count("publish"); return real.publish(from, to) },
		replace: func(path string, text []byte, mode fs.FileMode, ours fswrite.Proof) (fswrite.Proof, error) {
			count("replace")
			return real.replace(path, text, mode, ours)
		},
		patch: func(path string, at int64, text []byte, ours fswrite.Proof) error {
			count("patch")
			return real.patch(path, at, text, ours)
		},
	}
	return func(what string) int {
		mu.Lock()
		defer mu.Unlock()
		return n[what]
	}
}

const manyRanks, rankBeats = 512, 4

// oneOfMany makes the calls of trainspan run for a rank in its directory, and
// returns how many files the rank has.
func oneOfMany(rank int) (int, error) {
	ranks := &config.Ranks{Rank: config.Value(rank), WorldSize: config.Value(manyRanks), Run: "77.0", Job: "77"}
	w := Wanted{Name: "job", Attempt: -1, Host: fmt.Sprintf("node%d", rank/8), PID: 100 + rank%8}
	w.Under(ranks, 1, func(string) (string, bool) { return "", false })
	place, err := w.Make()
	if err != nil {
		return 0, err
	}
	file, _, err := CreateFile(place.Dir)
	if err != nil {
		return 0, err
	}
	r := &Run{Name: "job", Started: time.Unix(1_700_000_000, 0), Seen: time.Unix(1_700_000_000, 0)}
	for range 2 { // when it opens, and when the command has started
		if err := file.Write(r); err != nil {
			return 0, err
		}
	}
	for i := range rankBeats {
		r.Seen = r.Seen.Add(time.Duration(i) * time.Second)
		if err := file.Beat(r.Seen); err != nil {
			return 0, err
		}
	}
	if back, err := Read(file.Path()); err != nil || !back.Seen.Equal(r.Seen) || back.Name != "job" {
		return 0, fmt.Errorf("%+v, %w", back, err)
	}
	return place.Attempt, nil
}

// A large job makes few calls on the shared file system: a trace and JSON lines
// are two files of a rank, and these are the others.
func TestManyRanks(t *testing.T) {
	for name, atOnce := range map[string]bool{"one after the other": false, "all at once, and nobody sees another": true} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.MkdirAll("trainspan-runs/job/attempt-1", 0o755); err != nil { // of an earlier start
				t.Fatal(err)
			}
			count := counted(t)
			var all, listed sync.WaitGroup
			if atOnce {
				list := shared.list
				listed.Add(manyRanks)
				shared.list = func(dir string) ([]fs.DirEntry, error) {
					found, err := list(dir)
					listed.Done()
					listed.Wait()
					return found, err
				}
			}
			for _, rank := range rand.Perm(manyRanks) {
				one := func() {
					if attempt, err := oneOfMany(rank); err != nil || attempt != 1 {
						t.Errorf("rank %d: attempt %d, %v; want 1", rank, attempt, err)
					}
				}
				if atOnce {
					all.Go(one)
				} else {
					one()
				}
			}
			all.Wait()
			files := 0
			err := filepath.WalkDir(".", func(_ string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					files++
				}
				return err
			})
			if err != nil || files != 2*manyRanks+1 { // its place and its run.json, and the start file
				t.Errorf("%d files, want %d: %v", files, 2*manyRanks+1, err)
			}
			first := 1 // makes the attempt
			if atOnce {
				first = manyRanks
			}
			for what, want := range map[string]int{
				"list": manyRanks, "mkdirAll": 2*manyRanks + first, "replace": 2*manyRanks + first, "tempDir": first, "publish": first, "patch": rankBeats * manyRanks,
			} {
				if got := count(what); got != want {
					t.Errorf("%d times %s, want %d", got, what, want)
				}
			}
			// Each rank that finds the attempt taken reads its start file once, and one of
			// them also that of the earlier attempt.
			if got := count("read"); got > 2*manyRanks {
				t.Errorf("%d reads, want at most %d", got, 2*manyRanks)
			}
			if got, most := count("create"), 2*manyRanks+first; got > most {
				t.Errorf("%d creates, want at most %d", got, most)
			}
		})
	}
}
