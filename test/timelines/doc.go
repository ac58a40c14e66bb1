// Package timelines draws spans as lines of text and checks where each writer
// of trace files places them: one table of drawings for all writers, and one
// expected result for each drawing. docs/explain/goodput.md has the rules.
package timelines
