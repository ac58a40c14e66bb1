package fromjob_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler/fromjob"
	"github.com/trainspan/trainspan/internal/job"
)

// TestRecordedGroups has ranks whose groups share a name: 0 and 2, and 1 and 3. Rank 0 is slow, so rank 2 waits, and
// at the barrier the others. The members are recorded, in the last file after the collectives. Without them rank 1, the
// neighbor, seems to wait.
func TestRecordedGroups(t *testing.T) {
	const ranks, steps = 4, 60
	write := func(dir string, members bool) {
		for r := range ranks {
			var lines []string
			id := 0
			add := func(cat, name string, from, took int, args string) {
				id++
				lines = append(lines, fmt.Sprintf(`{"id":%d,"name":%q,"cat":%q,"pid":%d,"tid":1,"ts":%d,"dur":%d,"ph":"X","args":{"hhash":"h","level":1,"p_idx":-1%s}}`, id, name, cat, 100+r, 1_700_000_000_000_000+from, took, args))
			}
			note := fmt.Sprintf(`{"id":0,"name":"CM","cat":"dftracer","pid":%d,"tid":1,"ph":"M","args":{"hhash":"h","name":"group.dp","value":"[%d, %d]"}}`, 100+r, r%2, r%2+2)
			add("dftracer", "start", 0, 0, fmt.Sprintf(`,"rank":%d,"world_size":%d`, r, ranks))
			if members && r < ranks-1 {
				lines = append(lines, note)
			}
			slow := [ranks]int{80_000, 50_000, 50_000, 50_000}
			for s := range steps {
				at := 1000 + s*100_000
				work := slow[r] + (r*31+s*17)%400
				met := 88_000 - r%2*8000 // the transfers of the other pair take almost as long
				number := fmt.Sprintf(`,"step":%d`, s)
				add("pipeline", "train.iteration", at, 100_000, number)
				add("compute", "forward", at+10, work, number)
				add("comm", "all_reduce", at+20+work, met-work, number+`,"pg":"dp","group_size":2`)
				add("comm", "barrier", at+met+10, 88_500-met, number)
				add("compute", "step", at+88_600, 11_000, number)
			}
			if members && r == ranks-1 {
				lines = append(lines, note)
			}
			add("dftracer", "end", 2000+steps*100_000, 0, "")
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("rank%d.pfw", r)), []byte("[\n"+strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, members := range []bool{true, false} {
		dir := t.TempDir()
		write(dir, members)
		set, err := job.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		c := fromjob.New(nil)
		accounts, err := account.Collect(set, c.Reader)
		if err != nil || len(accounts) != 1 {
			t.Fatalf("read %d jobs, want 1: %v", len(accounts), err)
		}
		var waits []int64
		for _, r := range accounts[0].Ledger.Report(account.Query{}).Ranks {
			waits = append(waits, (r.Categories[account.Wait]+steps*5e5)/steps/1e6)
		}
		v := c.Attempts(accounts[0].Job)[0].State.Verdict()
		if got, want := slices.Equal(waits, []int64{0, 8, 30, 8}), members; got != want {
			t.Errorf("members recorded: %v: the ranks waited %v ms per step", members, waits)
		}
		if members && (v.Kind != finding.SlowRanks || !slices.Equal(v.Ranks, []int{0})) {
			t.Errorf("%s %v: %s; want slow ranks [0]", v.Kind, v.Ranks, v.Sentence)
		}
	}
}
