// Package report gives the answers about a training job: how much of its time
// trained the model, what took the rest, which rank holds the others up, and
// what to do next.
//
//	set, err := run.Open("out/demo")
//	...
//	jobs, err := report.Read(set)
//	...
//	r := report.Build(jobs[0])
//	err = report.Text(os.Stdout, r) // or JSON, or HTML
//
// docs/report.md says how to read it.
package report
