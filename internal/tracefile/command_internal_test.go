package tracefile

import (
	"flag"
	"slices"
	"strings"
	"testing"
)

var _ = flag.Int("known-to-flag", 0, "")

func TestOutlineHasNoValues(t *testing.T) {
	for _, c := range []struct {
		in   []string
		want string
	}{
		{[]string{"train"}, "train"},
		{[]string{"/bin/train", "--lr", "0.1", "--epochs=3", "data.bin"}, "/bin/train;--lr;--epochs"},
		{[]string{"train", "--wandb-key=S3CRET", "--pwd", "S3CRET", "--db-pass=S3CRET"}, "train;--wandb-key;--pwd;--db-pass"},
		{[]string{"train", "-H", "Authorization: Bearer S3CRET", "--dsn=S3CRET", "--hf-pat", "S3CRET"}, "train;-H;--dsn;--hf-pat"},
		{[]string{"train", "HF_TOKEN=S3CRET", "S3CRET"}, "train"},
		{[]string{"mysql", "-pS3CRET", "-ulse", "-S3CRET=1"}, "mysql;-p;-u;-S"},
		{[]string{"train", "-known-to-flag", "7", "-known-to-flag=S3CRET"}, "train;-known-to-flag;-known-to-flag"},
		{[]string{"train", "--", "--S3CRET"}, "train"},
		{[]string{"train", "-", "--=S3CRET", "-=S3CRET", "--https://me:S3CRET@host", "--" + strings.Repeat("S3CRET", 20)}, "train"},
	} {
		if got := strings.Join(outline(slices.Clone(c.in)), ";"); got != c.want {
			t.Errorf("%q becomes %q, want %q", c.in, got, c.want)
		}
	}
	long := append([]string{"train"}, slices.Repeat([]string{"--flag"}, 2000)...)
	if got := len(strings.Join(outline(long), ";")); got > 4096+len("train") {
		t.Errorf("outline of a long command has %d bytes, want at most 4096 after the name", got)
	}
}

func TestTheCommandLineIsOptIn(t *testing.T) {
	if len(Arguments()) < 2 { // go test passes some
		t.Fatalf("Arguments() = %q, want 2 or more", Arguments())
	}
	if got := CommandLine(); !strings.HasPrefix(got, Arguments()[0]+";-") || strings.Contains(got, "=") {
		t.Errorf("CommandLine() = %q, want the program and its flags without values", got)
	}
}
