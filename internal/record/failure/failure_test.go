package failure_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/record/failure"
)

type traced struct{ error }

func (t traced) ErrorTraceback() string { return "Traceback\nValueError: " + t.Error() }

// TestDescribeHidesSecrets checks that no text of an error in the records has a
// secret.
func TestDescribeHidesSecrets(t *testing.T) {
	err := errors.New("no answer of https://u:hunter2@host")
	for _, err := range []error{err, traced{err}, failure.Panic{Value: err}} {
		f := failure.Describe(err, 0)
		if !strings.HasPrefix(f.Text, "no answer of https://") || strings.Contains(f.Text, "hunter2") {
			t.Errorf("text is %q, want it without the password", f.Text)
		}
		for _, a := range f.Attributes(failure.RecordText(err)) {
			if text := a.Value.AsString(); strings.Contains(text, "hunter2") {
				t.Errorf("%s is %q, want it without the password", a.Key, text)
			}
		}
	}
}

// TestLongTexts checks that a long text is cut before it is searched for secrets, which
// takes long.
func TestLongTexts(t *testing.T) {
	const most = 2 * attrvalue.MaxValueBytes
	long := strings.Repeat("é", 4<<20)
	f := failure.Describe(traced{errors.New(long)}, 0)
	for _, text := range []string{f.Text, f.Attrs[len(f.Attrs)-1].Value.AsString(), failure.Clean("x" + long)} {
		if len(text) < most-1 || len(text) > most || !utf8.ValidString(text) {
			t.Errorf("%d bytes, valid UTF-8: %v; want %d", len(text), utf8.ValidString(text), most)
		}
	}
}
