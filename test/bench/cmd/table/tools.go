package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/trainspan/trainspan/internal/testkit/simjob"
	"github.com/trainspan/trainspan/test/bench"
)

// tool is a program from PyPI that answers a question which the command answers too.
type tool struct{ name, pins string }

var (
	dftracerUtils = tool{"dftracer-utils 0.0.14, `dftracer_stats`", "dftracer-utils==0.0.14"}
	dfanalyzer    = tool{"DFAnalyzer 0.0.9", "dftracer-analyzer==0.0.9 dftracer-utils==0.0.12"}
	hta           = tool{"HTA 0.5.0, temporal breakdown", "HolisticTraceAnalysis==0.5.0"}
)

// otherTools lists the rows beside other tools.
func otherTools() []group {
	return []group{
		{[]row{{"`trace summary` of 1.2 million events", dftracerUtils.name, "0.125"}}, summaryBesideUtils},
		{[]row{{"`report`, 4 ranks of 1,000 steps", dfanalyzer.name, ""}}, reportBesideDFAnalyzer},
		{[]row{{"`report` of a profile of 54 MB", hta.name, ""}}, reportBesideHTA},
	}
}

// bin returns the folder of the tool's programs. It installs the tool once, into an
// environment of its own below the user's cache.
func (o *tool) bin() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "trainspan", "tools", strings.Fields(o.pins)[0])
	made := filepath.Join(dir, "installed")
	if _, err := os.Stat(made); err == nil {
		return filepath.Join(dir, "bin"), nil
	}
	fmt.Fprintf(os.Stderr, "table: installing %s, once\n", o.pins)
	script := `python3 -m venv "$1" && "$1/bin/pip" install --quiet --disable-pip-version-check $2 >&2 && touch "$3"`
	out, err := exec.Command("sh", "-c", script, "sh", dir, o.pins, made).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("cannot be installed: %w: %s", err, out)
	}
	return filepath.Join(dir, "bin"), nil
}

// besideTool fills a row with the cost of the command and its ratio to that of a tool. rival
// returns the tool's command; bin is the folder of its programs. If the tool cannot be
// installed, the row is left out with a message.
func (t *tables) besideTool(r row, o *tool, args []string, rival func(bin string) []string) error {
	binary, err := t.command()
	if err != nil {
		return err
	}
	bin, err := o.bin()
	if err != nil {
		fmt.Fprintf(os.Stderr, "table: %s: %v\n", o.name, err)
		return nil
	}
	m, _, ratio, err := t.beside(append([]string{binary}, args...), rival(bin))
	if err == nil {
		r.line(fmt.Sprintf("%.2f s, %.0f MB", m.User.Seconds(), float64(m.Memory)/1e6), fmt.Sprintf("%.3f", ratio))
	}
	return err
}

func summaryBesideUtils(t *tables, rows []row) error {
	_, _, path, err := bench.BytesPerEvent(t.dir, summarySteps, 0, 6)
	if err != nil {
		return err
	}
	return t.besideTool(rows[0], &dftracerUtils, []string{"trace", "summary", path}, func(bin string) []string {
		// The command keeps no index, so each run makes one.
		script := `rm -rf "$2" && exec "$0/dftracer_stats" --files "$1" --index-dir "$2" --report detailed`
		return []string{"sh", "-c", script, bin, path, filepath.Join(t.dir, "index")}
	})
}

func reportBesideDFAnalyzer(t *tables, rows []row) error {
	dir, err := t.job(4, 1000)
	if err != nil {
		return err
	}
	return t.besideTool(rows[0], &dfanalyzer, []string{"report", dir, "--json"}, func(bin string) []string {
		script := `rm -rf "$1/.dftindex" && exec "$0/python3" ../e2e/testdata/dfanalyzer.py "$1" "$2"`
		return []string{"sh", "-c", script, bin, dir, filepath.Join(t.dir, "dfanalyzer")}
	})
}

func reportBesideHTA(t *tables, rows []row) error {
	dir := filepath.Join(t.dir, "profiles")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "rank0.json"))
	if err != nil {
		return err
	}
	simjob.WriteProfile(f, profileEvents, 0)
	if err := f.Close(); err != nil {
		return err
	}
	return t.besideTool(rows[0], &hta, []string{"report", dir, "--json"}, func(bin string) []string {
		return []string{filepath.Join(bin, "python3"), "python/hta_breakdown.py", dir}
	})
}
