package duckdb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTimes runs every query of the documentation on the data set in the folder
// lake of TRAINSPAN_DUCKDB_DIR and prints their wall time and the CPU time of
// all threads.
func TestTimes(t *testing.T) {
	dir := os.Getenv("TRAINSPAN_DUCKDB_DIR")
	if dir == "" {
		t.Skip("TRAINSPAN_DUCKDB_DIR names no folder with a data set")
	}
	db := open(t, dir)
	queries, err := filepath.Glob(filepath.Join("..", "..", "..", "docs", "reference", "queries", "*.sql"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range queries {
		name := strings.TrimSuffix(filepath.Base(path), ".sql")
		if name == "tables" {
			continue
		}
		began, used := time.Now(), cpuTime(t)
		rows := ask(t, db, name)
		t.Logf("%-22s %6d rows, %6.1f s of wall time, %6.1f s of CPU", name, len(rows), time.Since(began).Seconds(), (cpuTime(t) - used).Seconds())
	}
}
