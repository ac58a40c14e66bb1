package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/testkit/until"
	"github.com/trainspan/trainspan/test/e2e/servers"
	"go.uber.org/goleak"
)

// roleVariable makes the test program run as a rank of a job, or as a backend.
const roleVariable = "TRAINSPAN_E2E_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		goleak.VerifyTestMain(m)
	case "rank":
		exit(runRank())
	case "backend":
		exit(runBackend())
	default:
		exit(fmt.Errorf("%s=%q means nothing", roleVariable, role))
	}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// building builds Jaeger once.
var building = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute) // limits a test that hangs
	defer cancel()
	return servers.Jaeger(ctx, "jaeger")
})

// startJaeger returns a Jaeger for the test alone. It skips the test if Jaeger
// cannot be built.
func startJaeger(t *testing.T, o servers.JaegerOptions) *servers.JaegerServer {
	t.Helper()
	program, err := building()
	if err != nil {
		t.Skipf("Jaeger cannot be built here, so this is not tested: %v", err)
	}
	j, err := servers.StartJaeger(untilDeadline(t), program, t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.Stop)
	return j
}

// untilDeadline returns a context that ends before the time limit of the test
// program, so that servers do not outlive it.
func untilDeadline(t *testing.T) context.Context {
	t.Helper()
	end, ok := t.Deadline()
	if !ok {
		return context.Background()
	}
	ctx, cancel := context.WithDeadline(context.Background(), end.Add(-5*time.Second))
	t.Cleanup(cancel)
	return ctx
}

// service returns a name that no other test uses.
func service(t *testing.T) string {
	return filepath.Base(t.Name()) + fmt.Sprintf("-%x", time.Now().UnixNano())
}

// spansOf waits until Jaeger has n spans of a service, and returns them.
func spansOf(t *testing.T, q *servers.Query, service string, n int) (found []servers.Span) {
	t.Helper()
	until.Nil(t, func() (err error) {
		if found, err = q.Spans(t.Context(), service); err != nil {
			return err
		}
		if len(found) != n {
			return fmt.Errorf("Jaeger has %d spans of %s, want %d", len(found), service, n)
		}
		return nil
	})
	return found
}

func named(all []servers.Span, name string) (found []servers.Span) {
	for _, s := range all {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

func byID(all []servers.Span) map[string]servers.Span {
	m := make(map[string]servers.Span, len(all))
	for _, s := range all {
		m[s.SpanID] = s
	}
	return m
}
