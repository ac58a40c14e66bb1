// Package account keeps the ledger of a training job: how much of the wall
// time trained the model, and what took the rest.
//
// Each nanosecond of each rank is in exactly one [Category]. The sum is the
// wall time, always; nothing is estimated, clamped or scaled to make it so.
// What no span explains is shown as [Other].
//
// A [Ledger] is made from the spans of a job's processes and answers questions
// about any window and any moment:
//
//	b := account.NewBuilder(account.Process{Rank: 0, Attempt: 1, Start: start, End: end, LastSeen: end})
//	b.Span(&span) // for each, in any order
//	var ledger account.Ledger
//	ledger.Add(b)
//	report := ledger.Report(account.Query{})
//	fmt.Println(report.Ratio(), report.Categories[account.DataWait])
//
// The rules are in docs/explain/goodput.md.
package account
