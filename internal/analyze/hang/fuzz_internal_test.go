package hang

import (
	"strings"
	"testing"
)

// FuzzStacks checks that for any text each stack has a position and a limited
// number of frames.
func FuzzStacks(f *testing.F) {
	f.Add("Process 7: python3 a.py\nPython v3.11.2 (/usr/bin/python3)\n\nThread 7 (idle): \"MainThread\"\n    wait (threading.py:320)\n    main (train.py:41)\n")
	f.Add("Thread 0x7 (most recent call first):\n  File \"/a/w.py\", line 3 in work\n\nCurrent thread 0x1 (most recent call first):\n  File \"/usr/lib/python3.11/threading.py\", line 5 in wait\n  File \"a.py\", line 9 in main\n")
	f.Add("Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n  File \"\\\", line 1 in \n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range readStacks(strings.NewReader(text)) {
			if s.Place == "" || s.Function == "" || len(s.Frames) == 0 || len(s.Frames) > maxFrames {
				t.Errorf("readStacks(%q) has %+v, want a place, a function and 1 to %d frames", text, s, maxFrames)
			}
		}
	})
}
