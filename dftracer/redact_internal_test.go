package dftracer

import (
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"train -epochs 3 -out x", "train -epochs 3 -out x"},
		{"train --api-key=abc -lr 1", "train --api-key=REDACTED -lr 1"},
		{"train --token abc -lr 1", "train --token REDACTED -lr 1"},
		{"train --token -lr 1", "train --token -lr 1"},
		{"train -password abc", "train -password REDACTED"},
		{"train HF_TOKEN=abc", "train HF_TOKEN=REDACTED"},
		{"train --data https://me:pw@host/a?b=c", "train --data https://REDACTED@host/a?b=c"},
		{"train --otlp-headers=authorization=abc", "train --otlp-headers=REDACTED"},
		{"token-server -x", "token-server -x"},
	} {
		if got := strings.Join(redact(strings.Fields(c.in)), " "); got != c.want {
			t.Errorf("%q becomes %q, want %q", c.in, got, c.want)
		}
	}
}
