package job_test

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/job"
)

// No process has such numbers.
func TestDamagedProcess(t *testing.T) {
	for _, p := range []job.Process{{Rank: -1}, {Attempt: -1}} {
		packed, err := p.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := new(job.Process).UnmarshalBinary(packed); err == nil {
			t.Errorf("UnmarshalBinary of a damaged process (rank %d, attempt %d): no error, want one", p.Rank, p.Attempt)
		}
	}
}

func sameSamples(a, b *job.Samples) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.Equal(a.Rows, b.Rows) && maps.EqualFunc(a.GPUs, b.GPUs, slices.Equal)
}

func TestProcessGoesThroughBytes(t *testing.T) {
	for _, want := range []job.Process{
		{Rank: 3, RankKnown: true, Attempt: 2, AttemptKnown: true, Host: "node-b", PID: 71, ParentPID: 7, JobID: "4711", SessionTag: "tag", WorldSize: 8,
			Start: 5, End: job.NoEnd, LastSeen: 9, Heartbeats: true, Spans: 12, Training: true, Sources: []string{"a", "b"},
			Damage:  job.Damage{Torn: true, Cut: true, Bad: 2, Dropped: 1, Aside: 4, BadNumbers: 1, RelativeClock: true},
			Files:   []job.FileUse{{Path: "data/x", Failed: 1, Read: job.Transfer{Calls: 3, Bytes: 4096, Time: 17, Least: 1, Most: 4000, Longest: 9}, Other: job.Transfer{Calls: 1}}, {}},
			Samples: &job.Samples{Rows: []job.Sample{{At: 7}, {At: 8}}, GPUs: map[string][]job.Sample{"0": {{At: 7}}, "1": nil}}},
		{Start: 1, LastSeen: 1},
	} {
		packed, err := want.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		var got job.Process
		if err := got.UnmarshalBinary(packed); err != nil {
			t.Fatal(err)
		}
		// Unexported fields other than the hash are not needed once a set was read.
		again, err := got.AppendBinary(nil)
		if err != nil || !reflect.DeepEqual(again, packed) || !reflect.DeepEqual(got.Files, want.Files) || !sameSamples(got.Samples, want.Samples) || got.Host != want.Host || got.End != want.End {
			t.Errorf("%+v, %v\nwant %+v", got, err, want)
		}
		for n := range packed {
			if got.UnmarshalBinary(packed[:n]) == nil {
				t.Fatalf("UnmarshalBinary of %d of %d bytes: no error, want one", n, len(packed))
			}
		}
	}
}
