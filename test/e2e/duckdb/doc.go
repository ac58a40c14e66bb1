// Package duckdb holds the SQL of docs/reference/queries, run by DuckDB on a data set that
// the command wrote, to what the command itself says of the same traces.
package duckdb
