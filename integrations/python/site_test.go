package python_test

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/ingest/pyring/pyclient"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
)

// TestSite checks that the program's own sitecustomize runs and fails as
// without the client, and that a program that never imports torch has no ring
// buffer.
func TestSite(t *testing.T) {
	interpreter := pyrun.Interpreter(t)
	const finds = "try:\n  import sitecustomize\nexcept ImportError as e: print(e)\nimport sys; print('sitecustomize' in sys.modules)"
	without, err := exec.Command(interpreter, "-c", finds).Output() // Debian's interpreters have one
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		own, program string
		as           string // the name of the program's file, instead of sitecustomize.py
		flags        []string
		want, err    string
	}{
		"none": {program: "import sys; print([m for m in sys.modules if 'trainspan' in m or 'torch' in m])", want: "[]"},
		"nothing else": {
			program: "import sys, subprocess, os; del os.environ['PYTHONPATH']\n" +
				"show = 'import sys; print(*sorted(sys.modules))'\n" +
				"before = set(subprocess.check_output([sys.executable, '-c', show], text=True).split())\n" +
				"os.environ['PYTHONPATH'] = sys.path[1]\n" +
				"print(set(subprocess.check_output([sys.executable, '-c', show], text=True).split()) - before - {'sitecustomize'} - set(sys.builtin_module_names))",
			want: "set()",
		},
		"imported": {
			program: "import sys, os, shutil; shutil.rmtree(sys.path[1]); os.environ.clear()\n" +
				"from trainspan.dftracer import ai\nimport trainspan.onelogger.training_telemetry.api.context, trainspan_torch\n" +
				"print(trainspan.environ['TRAINSPAN_RING'] != '', trainspan.__path__[0] == os.path.dirname(trainspan.__file__))",
			want: "True True",
		},
		"imported, another version installed": { // later in sys.path than the client
			own: "mine = 1", as: "trainspan/__init__.py",
			program: "import sys, shutil; shutil.rmtree(sys.path[1])\n" +
				"import trainspan.dftracer\nprint(trainspan.__path__[0].startswith(sys.path[1]))",
			want: "True",
		},
		"its own":      {own: "import sys; sys.own = 7", program: "import sys, sitecustomize; print(sys.own, sitecustomize.__file__.split('/')[-2])", want: "7 own"},
		"a broken one": {own: "1/0", program: "print('on')", want: "on", err: "ZeroDivisionError"},
		"a package":    {own: "import sys; sys.own = 7", as: "sitecustomize/__init__.py", program: "import sys; print(sys.own)", want: "7"},
		"one that chains on": { // like tools whose module comes before another one
			own:     "import sys, os; sys.times = getattr(sys, 'times', 0) + 1\nsys.modules.pop('sitecustomize')\nsys.path.remove(os.path.dirname(__file__))\nimport sitecustomize",
			program: "import sys; print(sys.times)", want: "1",
		},
		"without one":          {program: finds, want: strings.TrimSpace(string(without))},
		"a module of our name": {own: "mine = 1", as: "../trainspan.py", program: "import trainspan; print(trainspan.mine)", want: "1"},
		"-S":                   {program: "import sys; print('trainspan' in sys.modules)", flags: []string{"-S"}, want: "False"},
		"-I":                   {program: "import sys; print('trainspan' in sys.modules)", flags: []string{"-I"}, want: "False"},
		"-E":                   {program: "import sys; print('trainspan' in sys.modules)", flags: []string{"-E"}, want: "False"},
		"imports": { // the client is not in its errors, nor in the state that it leaves
			program: "import sys, os, traceback; sys.path.insert(0, os.getcwd())\n" +
				"for name, text in (('one', 'import two'), ('two', 'import broken'), ('broken', '1/0')): open(name + '.py', 'w').write(text)\n" +
				"try:\n  import one\nexcept ZeroDivisionError as e: print(*[os.path.basename(f.filename) for f in traceback.extract_tb(e.__traceback__)])\n" +
				"import importlib.util, quopri, plistlib\n" +
				"kinds = {type(m.__spec__) for m in (quopri, plistlib)} | {type(importlib.util.find_spec('colorsys'))}\n" +
				"(client,) = [f for f in sys.meta_path if type(f).__name__ == '_Client']\n" +
				"names = {p for part in client.imports for p in part[2]} | set(client.packages)\n" +
				"print([k.__module__ for k in kinds], client.running, 'colorsys' in names, client.imports and 'plistlib' in names)",
			want: "<string> one.py two.py broken.py\n['_frozen_importlib'] [] False True",
		},
		"a broken torch": {
			program: "import sys, os; open(os.path.join(sys.path[2], 'torch.py'), 'w').write('raise ValueError(5)')\ntry:\n  import torch\nexcept ValueError as e: print(e)",
			want:    "5",
		},
	} {
		t.Run(name, func(t *testing.T) {
			client, own, rings := t.TempDir(), filepath.Join(t.TempDir(), "own"), t.TempDir()
			if err := pyclient.Unpack(client); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(own, 0o700); err != nil {
				t.Fatal(err)
			}
			if c.own != "" {
				path := filepath.Join(own, cmp.Or(c.as, "sitecustomize.py"))
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(c.own), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(interpreter, append(c.flags, "-c", c.program)...)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "PYTHONPATH=" + client + ":" + own, "TRAINSPAN_RING=" + rings, "PYTHONDONTWRITEBYTECODE=1"}
			cmd.Dir = filepath.Dir(own)
			var errs strings.Builder
			cmd.Stderr = &errs
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("Python: %v\n%s", err, &errs)
			}
			if got := strings.TrimSpace(string(out)); got != c.want {
				t.Errorf("%q, want %q\n%s", got, c.want, &errs)
			}
			if c.err == "" && errs.Len() > 0 || !strings.Contains(errs.String(), c.err) {
				t.Errorf("stderr %q, want %q", &errs, c.err)
			}
			if left, err := pyring.Rings(rings); err != nil || len(left) > 0 {
				t.Errorf("rings %v, %v; want none", left, err)
			}
		})
	}
}
