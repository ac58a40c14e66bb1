package setup_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/setup"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
)

const (
	starterVariable = "EXPORTERS_TEST_STARTER"
	// roundsVariable requests more rounds than the default.
	roundsVariable = "EXPORTERS_TEST_ROUNDS"
	starters       = 8
	spansEach      = 50
)

// TestStarter is the body of a child process of TestManyStartAtOnce.
func TestStarter(t *testing.T) {
	if os.Getenv(starterVariable) == "" {
		t.Skip("started by TestManyStartAtOnce only")
	}
	cfg, err := config.Load(config.LoadOptions{LookupEnv: os.LookupEnv, Code: config.Config{Base: job().Base}})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("ready")
	_, _ = io.ReadAll(os.Stdin) // wait until all processes can start at once
	b, outputs, err := setup.NewBuilder(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	tel, err := b.ConfigureProvider(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range spansEach {
		_, s := tel.StartSpan(t.Context(), "work")
		s.End()
	}
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := outputs.Trace.Writer().Stats(); st.Lost+st.Late != 0 {
		t.Fatalf("stats %+v, want none lost or late", st)
	}
}

// TestManyStartAtOnce starts several processes at once with one path that does not
// distinguish them, like a launcher without ranks.
func TestManyStartAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	rounds := 4
	if s := os.Getenv(roundsVariable); s != "" {
		rounds, _ = strconv.Atoi(s)
	}
	for range rounds {
		dir := t.TempDir()
		var gates []io.Closer
		var all []*exec.Cmd
		for range starters {
			c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStarter$")
			c.Env = append(os.Environ(), starterVariable+"=1", "DFTRACER_ENABLE=1", "DFTRACER_LOG_FILE="+filepath.Join(dir, "x.pfw.gz"))
			c.Stderr = os.Stderr
			in, err := c.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			_, _ = out.Read(make([]byte, 5))
			gates, all = append(gates, in), append(all, c)
			go func() { _, _ = io.Copy(io.Discard, out) }()
		}
		for _, g := range gates {
			_ = g.Close()
		}
		for _, c := range all {
			if err := c.Wait(); err != nil {
				t.Error(err)
			}
		}
		files, _ := filepath.Glob(filepath.Join(dir, "*"))
		n := 0
		for _, f := range files {
			r := dftest.Check(t, f)
			for key, count := range r.Counts {
				if filepath.Base(filepath.Dir(key)) == "work" {
					n += count
				}
			}
		}
		if len(files) != starters || n != starters*spansEach {
			t.Errorf("%d spans in %d files, want %d in %d", n, len(files), starters*spansEach, starters)
		}
	}
}
