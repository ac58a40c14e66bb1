package until_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/trainspan/trainspan/internal/testkit/until"
)

type fatal struct {
	testing.TB
	message any
}

func (*fatal) Helper()          {}
func (f *fatal) Fatal(a ...any) { f.message = a[0]; panic(f) }

func TestTrueWaits(t *testing.T) {
	n := 0
	until.True(t, "three calls", func() bool { n++; return n == 3 })
	if n != 3 {
		t.Errorf("%d calls, want 3", n)
	}
}

func TestNilEndsWithTheLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f fatal
		func() {
			defer func() { _ = recover() }()
			until.Nil(&f, func() error { return errors.New("nobody came") })
		}()
		if err, _ := f.message.(error); err == nil || err.Error() != "nobody came" {
			t.Errorf(`message %v, want "nobody came"`, f.message)
		}
	})
}
