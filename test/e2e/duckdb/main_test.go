package duckdb

import (
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/duckdb/duckdb-go/v2" // the driver
	"github.com/trainspan/trainspan/internal/testkit/built"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// trainspan runs the command and returns its output.
func trainspan(t *testing.T, args ...string) []byte {
	t.Helper()
	out, err := exec.Command(built.Command(t), args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("trainspan %s: %v: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// answer returns the JSON output of the command.
func answer[T any](t *testing.T, args ...string) (v T) {
	t.Helper()
	if err := json.Unmarshal(trainspan(t, args...), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// writeJob writes the traces of two attempts: the first is killed, and one rank
// is slow. A step takes about 60 ms times scale.
func writeJob(t *testing.T, dir, tag string, scale float64) {
	t.Helper()
	a := simjob.Attempt{Ranks: 8, Steps: 60, Save: 20, Killed: true, Slow: 3, Extra: [4]float64{0, 4, 8, 0}, Scale: scale, Seed: 7, Tag: tag}
	end, err := a.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	b := a
	b.Number, b.First, b.Steps, b.Killed, b.Start = 1, 40, 70, false, end.Add(10*time.Minute)
	if _, err := b.Write(dir); err != nil {
		t.Fatal(err)
	}
}

// open returns a database with the tables of the data set in dir/lake.
func open(t *testing.T, dir string) *sql.DB {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // in memory
	text := strings.ReplaceAll(query(t, "tables"), "'lake/", "'"+filepath.Join(dir, "lake")+"/")
	if _, err := db.Exec(text); err != nil {
		t.Fatal(err)
	}
	return db
}

// query returns the text of a query of the documentation.
func query(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "queries", name+".sql"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// row is a row of a result by column.
type row map[string]any

// whole returns the value of an integer column.
func (r row) whole(t *testing.T, column string) int64 {
	t.Helper()
	switch n := r[column].(type) {
	case int64:
		return n
	case int32:
		return int64(n)
	}
	t.Fatalf("%s is %v (%T), want a whole number", column, r[column], r[column])
	return 0
}

// ask runs a query of the documentation.
func ask(t *testing.T, db *sql.DB, name string) []row { return rowsOf(t, db, query(t, name)) }

func rowsOf(t *testing.T, db *sql.DB, text string) (all []row) {
	t.Helper()
	rows, err := db.Query(text)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }() // Err returns it
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values, at := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			at[i] = &values[i]
		}
		if err := rows.Scan(at...); err != nil {
			t.Fatal(err)
		}
		r := make(row)
		for i, c := range columns {
			r[c] = values[i]
		}
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
