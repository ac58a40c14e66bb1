package pytext_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/trainspan/trainspan/internal/tracefile/pytext"
)

func TestExceptionLine(t *testing.T) {
	for text, want := range map[string]string{
		"ValueError: a": "ValueError: a",
		"RuntimeError: CUDA error: an illegal memory access was encountered\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n": "RuntimeError: CUDA error: an illegal memory access was encountered",
		"ProcessRaisedException: \n\n-- Process 1 terminated with the following error:\nTraceback (most recent call last):\n  File \"a.py\", line 1, in f\n    g()\n" +
			"RuntimeError: boom\n\nThe above exception was the direct cause of the following exception:\n\nTraceback (most recent call last):\n  File \"a.py\", line 2\n\nKeyError: 'x'\nsecond line\n": "KeyError: 'x'",
		"Traceback (most recent call last):\n  File \"a.py\", line 1\n": "",
		"RuntimeError: \n        An attempt has been made\n   to start": "RuntimeError: An attempt has been made",
		"E:\n\n a:\n b\nc": "E: a: b", "E:": "E:",
		"": "", "\n \n": "", "Traceback (most recent call last)": "",
	} {
		if got := pytext.ExceptionLine(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := pytext.ExceptionLine(strings.Repeat("ü", 1000)); len(got) > 303 || !utf8.ValidString(got) {
		t.Errorf("ExceptionLine of a long text has %d bytes, want at most 303 of valid UTF-8", len(got))
	}
}
