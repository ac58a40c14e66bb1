package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// tree returns the files below a folder with their contents, by path.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "*.parquet"))
	deep, deepErr := filepath.Glob(filepath.Join(dir, "*", "*", "*", "*", "*.parquet"))
	if err != nil || deepErr != nil {
		t.Fatal(err, deepErr)
	}
	for _, path := range append(files, deep...) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimPrefix(path, dir)] = string(text)
	}
	return out
}

// TestParquetParts checks that nodes write their ranks into one data set, in
// any order and more than once, and that the accounts come from their digests.
// What would add a rank twice is refused, and changes nothing.
func TestParquetParts(t *testing.T) {
	records, err := filepath.Abs(filepath.Join("..", "..", "telemetry", "testdata", "golden", "01_sync_full", "golden.norm.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Chdir(dir)
	const nodes = 3
	for node := range nodes { // of four ranks
		l := simjob.Large{Ranks: 4 * nodes, Steps: 20, Slow: 5, Extra: 12, Save: 10, First: 4 * node, Last: 4 * (node + 1)}
		if err := l.Write(fmt.Sprint("node", node)); err != nil {
			t.Fatal(err)
		}
	}
	do := func(status int, says, args string) {
		t.Helper()
		got, stdout, stderr := cli(t, strings.Fields(args)...)
		if got != status || !strings.Contains(stdout+stderr, says) {
			t.Fatalf("%s: status %d, want %d and %q: %s%s", args, got, status, says, stdout, stderr)
		}
	}
	var first map[string]string
	for seed := range uint64(2) {
		rng := rand.New(rand.NewPCG(seed, 1))
		lake := fmt.Sprint("lake", seed)
		order := append(rng.Perm(nodes), rng.Perm(nodes)...)
		for _, node := range order {
			do(ui.StatusOK, "0 rows of the ledger", fmt.Sprintf("trace convert node%d --to parquet --part --run r -o %s", node, lake))
			do(ui.StatusOK, "", fmt.Sprintf("trace digest node%d -o digests%d-%d.digest --force", node, seed, node))
		}
		do(ui.StatusOK, "run=r, 0 events", fmt.Sprintf("trace convert digests%d-0.digest digests%d-1.digest digests%d-2.digest --to parquet --part --run r -o %s", seed, seed, seed, lake))
		got := tree(t, lake)
		if first == nil {
			first = got
		}
		names := func(m map[string]string) (out []string) {
			for name := range m {
				out = append(out, name)
			}
			slices.Sort(out)
			return out
		}
		if !slices.Equal(names(got), names(first)) || len(got) != 3*nodes+1 {
			t.Fatalf("%v, want %v", names(got), names(first))
		}
		for name, text := range got {
			if text != first[name] {
				t.Errorf("%s differs by the order", name)
			}
		}
	}
	const index = "/runs/run=r/attempt-1.ranks-4-7.parquet"
	if first[index] == "" {
		t.Errorf("%s is missing", index)
	}
	before := bytesBelow(t, dir)
	do(ui.StatusUse, "rank 0 of attempt 1 already exists, by lake0", "trace convert node0 node1 --to parquet --part --run r -o lake0")
	do(ui.StatusData, "no events", "trace convert "+records+" --to parquet --part --run r -o lake0")
	do(ui.StatusUse, "remove the filters", "trace convert node0 --to parquet --part --run r -o lake0 --rank 1")
	do(ui.StatusUse, "remove the filters", "trace convert digests0-0.digest --to parquet --part --run r -o lake0 --rank x")
	do(ui.StatusUse, "--nesting: use it for traces only", "trace convert digests0-0.digest --to parquet --part --run r -o lake0 --nesting")
	do(ui.StatusUse, "no output is given", "trace convert digests0-0.digest --to parquet --part --run r")
	if _, err := os.Stat("ledger"); err == nil {
		t.Error("without -o a data set was written to the working directory")
	}
	do(ui.StatusUse, "digests and traces separately", "trace convert digests0-0.digest node0 --to parquet --part --run r -o lake0")
	do(ui.StatusUse, "add --part", "trace convert node0 --to parquet --run r -o lake0")
	do(ui.StatusUse, "use it with --to parquet only", "trace convert node0 --to v2 --part -o x")
	if bytesBelow(t, dir) != before {
		t.Error("a rejected part changed the data set, want no change")
	}
	do(ui.StatusOK, "run=r", "trace convert node0 node1 node2 --to parquet --run r -o lake0 --force")
	whole := tree(t, "lake0")
	for name, text := range tree(t, "lake1") {
		if strings.HasPrefix(name, "/ledger/") && whole[name] != text {
			t.Errorf("%s of the digests differs from the one of the traces", name)
		}
	}
}
