package report

import (
	"strings"
	"testing"
)

// The tables of the full screen have the plural of each number, and no times of checkpoints that
// were not saved.
func TestWordsOfTables(t *testing.T) {
	r := &Report{Checkpoints: []Checkpoint{{Load: true, Blocking: 2e9}}, Quality: Quality{BadLines: 1}}
	s := &screen{columns: 100}
	s.checkpoints(r)
	s.quality(r)
	text := strings.Join(s.lines, "\n")
	for _, want := range []string{"CHECKPOINTS  1 loaded in 2.0 s\n", ", 1 line unreadable, "} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	r.Checkpoints = append(r.Checkpoints, Checkpoint{Blocking: 3e9, Background: 4e9})
	s.lines = nil
	if s.checkpoints(r); strings.TrimSpace(strings.Join(s.lines, "\n")) != "CHECKPOINTS  1 saved: blocked training for 3.0 s (longest 3.0 s), 4.0 s in the background\n  1 loaded in 2.0 s" {
		t.Errorf("got %q, want a saved and a loaded checkpoint", s.lines)
	}
	r.Checkpoints, r.MoreSaves, s.lines = []Checkpoint{{}}, 8, nil
	if s.checkpoints(r); !strings.HasSuffix(strings.Join(s.lines, "\n"), "in the background\n  8 more saved") {
		t.Errorf("got %q, want 8 more saved", s.lines)
	}
	r.MoreSaves = 0
	r.Checkpoints = []Checkpoint{{Failed: true, Blocking: 3e9}, {Failed: true}, {Failed: true, Load: true}}
	s.lines = nil
	if s.checkpoints(r); strings.TrimSpace(strings.Join(s.lines, "\n")) != "CHECKPOINTS  2 saves failed\n  1 load failed" {
		t.Errorf("got %q, want no saved checkpoint", s.lines)
	}
}
