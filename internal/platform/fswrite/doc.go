// Package fswrite writes files: one rule for their names, and one way to write
// them that neither destroys existing files nor waits for a disk that has
// stopped.
//
// [Name.Resolve] fills in a path and [Open] creates the file: exclusively,
// under the next free name if the one asked for is taken. A [Sink] writes
// blocks of lines to it, in order, on its own goroutine.
//
// All other files are made, replaced and deleted here too, so that no foreign
// file is ever replaced, truncated, deleted or followed through a link, and a
// program that is killed leaves the old file or the new one. A file that
// appears when it is complete begins as a draft:
//
//	d, err := fswrite.Begin("report.html", 0o644)
//	// write to d
//	err = d.Publish(isReport) // nil only takes a free name
//
// [Write] does so with a text, [Create] makes a file at once, [OpenAppend]
// appends to one, [Remove] deletes one that is proved to be ours. [TempDir],
// [PublishDir], [ExchangeDir] and [RemoveDir] do the same for folders.
package fswrite
