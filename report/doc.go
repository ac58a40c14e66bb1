// Package report gives the answers about a training job: how much of its time
// trained the model, what took the rest, which rank holds the others up, and
// what to do next.
//
//	state, err := report.Load(nil, "out/demo")
//	...
//	for _, job := range state.Jobs() {
//		r := report.Build(job)
//		err = report.Text(os.Stdout, r) // or JSON, or HTML
//	}
//
// docs/report.md says how to read it.
package report
