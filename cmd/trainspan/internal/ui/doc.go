// Package ui is what all commands share: the streams of a run of the program, tables and
// colours, progress, errors with their exit statuses, files that are written in one step,
// and flags.
package ui
