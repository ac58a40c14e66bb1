// Package dataset writes the events of training jobs, and the ledger of each
// job, as Parquet files that database engines read: docs/parquet.md.
//
// Events may come in any order. They are kept on disk where memory does not
// hold them, and written by rank and time once all are known. A data set
// appears under its name when it is complete.
package dataset
