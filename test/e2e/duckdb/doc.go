// Package duckdb checks the SQL of docs/reference/queries: the results of
// DuckDB on a data set that the command wrote must equal the command's own
// results for the same traces.
package duckdb
