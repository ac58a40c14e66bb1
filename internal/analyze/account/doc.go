// Package account does the goodput accounting of a training job: it reports how
// much of the wall time trained the model, and what took the rest.
//
// Each nanosecond of each rank is in exactly one [Category]. The categories
// always add up to the wall time; nothing is estimated, clamped or scaled to
// achieve this. Time that no span explains is [Other].
//
// A [Ledger] is built from the spans of a job's processes. It reports on any
// window of time, as known at any moment:
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
