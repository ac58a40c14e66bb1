// Package straggler says which rank holds a training job up, why, since when
// and at what cost; or which evidence is missing to say so.
//
//	st := straggler.New(&straggler.Options{WorldSize: 8})
//	st.SetRank(3, straggler.Rank{Host: "node-b"})
//	st.Add(&straggler.Step{Rank: 3, Number: 17, Spans: spans}) // of every rank and step, in any order
//	v := st.Verdict()
//	fmt.Println(v.Sentence)
//
// A collective equalises: whoever is slow, everybody's step takes the same
// time. What is compared is therefore what each rank did between two releases
// of the barrier, on its own clock; times of two ranks are never subtracted.
// docs/stragglers.md has the method, its words, its limits and measured rates.
package straggler
