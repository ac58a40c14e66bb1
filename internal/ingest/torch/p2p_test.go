package torch_test

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/ingest/torch"
)

// jitter returns small, reproducible pseudo-random numbers.
type jitter uint64

func (j *jitter) next(n int) int {
	*j = *j*6364136223846793005 + 1442695040888963407
	return int(uint64(*j)>>33) % n
}

// rankTrace returns a profile of one rank of a small job.
func rankTrace(rank, world int, rows ...string) torch.Source {
	text := fmt.Sprintf(`{"distributedInfo":{"backend":"nccl","rank":%d,"world_size":%d},"traceEvents":[{`, rank, world) + strings.Join(rows, "},\n{") + `}]}`
	return fromBytes(fmt.Sprintf("rank%d.json", rank), []byte(text))
}

func importAll(t *testing.T, srcs ...torch.Source) (*capture, *torch.Report) {
	t.Helper()
	c := &capture{}
	rep, err := torch.Import(t.Context(), c, srcs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c, rep
}

// commRow returns the kernel of a collective with its parameters.
func commRow(at, dur int, args string) string {
	return fmt.Sprintf(`"ph":"X","cat":"kernel","name":"ncclDevKernel_Generic(x)","pid":0,"tid":20,"ts":%d,"dur":%d,"args":{"device":0,"stream":20,%s}`, stepStart+int64(at), dur, args)
}

// Two stages of a pipeline share no collective, but send both ways.
func TestPipelineStagesAreConnectedByTransfers(t *testing.T) {
	build := func(both bool) []torch.Source {
		rows := [2][]string{}
		rng := jitter(1)
		at := 1000
		for range 12 {
			at += 2000 + rng.next(5000)
			end, delay := at+300, 20+rng.next(4)
			forward := func(op string, src int) string {
				return fmt.Sprintf(`"Collective name":%q,"Process Group Name":"pp","Process Group Ranks":"[0, 1]","Group size":2,"Src Rank":%d,"Dst Rank":%d`, op, src, 1-src)
			}
			src := 0
			if both && rng.next(2) == 0 {
				src = 1
			}
			// The clock of rank 1 is 4 ms ahead.
			skew := [2]int{0, 4000}
			rows[src] = append(rows[src], commRow(at+skew[src], end-at, forward("send", src)))
			rows[1-src] = append(rows[1-src], commRow(at+50+skew[1-src], end+delay-at-50, forward("recv", src)))
		}
		return []torch.Source{rankTrace(0, 2, rows[0]...), rankTrace(1, 2, rows[1]...)}
	}
	_, rep := importAll(t, build(true)...)
	if r := rep.Ranks[0]; !near(r.Offsets[1], -4*time.Millisecond, 5*time.Microsecond) || r.Confidence[1] == "none" {
		t.Errorf("transfers both ways: want an offset of -4 ms with confidence, got %s", rep)
	}
	_, rep = importAll(t, build(false)...)
	if r := rep.Ranks[0]; r.Offsets[1] != 0 || !strings.Contains(r.Reasons[1], "only") {
		t.Errorf("transfers one way: want no offset and a reason, got %s", rep)
	}
}

// Numbers pair collectives whatever else is missing.
func TestSequenceNumbersPairCollectives(t *testing.T) {
	var rows [2][]string
	rng := jitter(7)
	at := 1000
	for seq := range 20 {
		at += 700 + rng.next(3000)
		for rank := range 2 {
			if rank == 1 && seq%5 == 2 || rank == 0 && seq == 9 {
				continue // lost
			}
			late := rng.next(200)
			rows[rank] = append(rows[rank], commRow(at+late+rank*9000, 300-late+rng.next(3),
				fmt.Sprintf(`"Collective name":"allreduce","In msg nelems":64,"dtype":"Float","Process Group Name":"0","Process Group Ranks":"[0, 1]","Group size":2,"Seq":%d`, seq)))
		}
	}
	_, rep := importAll(t, rankTrace(0, 2, rows[0]...), rankTrace(1, 2, rows[1]...))
	if r := rep.Ranks[0]; r.Matched != 15 || !near(r.Offsets[1], -9*time.Millisecond, 3*time.Microsecond) || r.Confidence[1] != "high" {
		t.Errorf("want 15 matches, an offset of -9 ms, confidence high, got %s", rep)
	}
}

// Collectives at regular intervals do not show which belong together.
func TestRegularCollectivesAreAmbiguous(t *testing.T) {
	var rows [2][]string
	for i := range 30 {
		for rank := range 2 {
			// Rank 1 began to profile seven collectives later.
			rows[rank] = append(rows[rank], commRow(i*1000+rank*7000, 300, `"Collective name":"allreduce","Process Group Name":"0"`))
		}
	}
	_, rep := importAll(t, rankTrace(0, 2, rows[0]...), rankTrace(1, 2, rows[1]...))
	if r := rep.Ranks[0]; r.Offsets[1] != 0 || !strings.Contains(r.Reasons[1], "regular") {
		t.Errorf("report %s, want no offset, as the collectives are regular", rep)
	}
}

// Several groups of one job may have the same name.
func TestGroupsOfOneNameAreToldApartByTheirRanks(t *testing.T) {
	rows := make([][]string, 4)
	rng := jitter(3)
	for pair := range 2 {
		at := 1000
		for range 10 {
			at += 900 + rng.next(3000)
			for _, rank := range []int{2 * pair, 2*pair + 1} {
				rows[rank] = append(rows[rank], commRow(at+rank*3000, 200,
					fmt.Sprintf(`"Collective name":"allreduce","Process Group Name":"2","Process Group Ranks":"[%d, %d]","Group size":2`, 2*pair, 2*pair+1)))
			}
		}
	}
	var srcs []torch.Source
	for rank := range 4 {
		srcs = append(srcs, rankTrace(rank, 4, rows[rank]...))
	}
	_, rep := importAll(t, srcs...)
	r := rep.Ranks[0]
	if !near(r.Offsets[1], -3*time.Millisecond, 2*time.Microsecond) || !near(r.Offsets[3], -3*time.Millisecond, 2*time.Microsecond) || r.Offsets[2] != 0 {
		t.Errorf("want offsets of -3 ms for ranks 1 and 3, none for 2, got %s", rep)
	}
	// Without the ranks the pairs are ambiguous.
	srcs = srcs[:0]
	for rank := range 4 {
		for i, row := range rows[rank] {
			rows[rank][i] = strings.Replace(row, fmt.Sprintf(`"Process Group Ranks":"[%d, %d]",`, rank/2*2, rank/2*2+1), "", 1)
		}
		srcs = append(srcs, rankTrace(rank, 4, rows[rank]...))
	}
	_, rep = importAll(t, srcs...)
	if r := rep.Ranks[0]; r.Matched != 0 || !strings.Contains(r.Note, "process group") {
		t.Errorf("report %s, want no match and a note about the process group", rep)
	}
}

// A message has its source and destination, whichever end records it and in
// which form.
func TestSourceAndDestinationOfAMessage(t *testing.T) {
	for name, row := range map[string]string{
		"send":            hostRow("user_annotation", "gloo:send 2->5", 12, 100, 50, ""),
		"receive":         hostRow("user_annotation", "gloo:recv 5<-2", 12, 100, 50, ""),
		"send by args":    commRow(100, 50, `"Collective name":"send","Group size":8,"Src Rank":2,"Dst Rank":5`),
		"receive by args": commRow(100, 50, `"Collective name":"recv","Group size":8,"Dst Rank":5,"Src Rank":2`),
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := importAll(t, rankTrace(2, 8, row))
			op, _, _ := strings.Cut(name, " ")
			if e := c.one(t, "comm", op); num(t, e, "src") != 2 || num(t, e, "dst") != 5 {
				t.Errorf("event %+v, want source 2, destination 5", e)
			}
		})
	}
}

func TestGlooRanksAreAligned(t *testing.T) {
	var rows [2][]string
	rng := jitter(11)
	at := 1000
	for range 12 {
		at += 20_000 + rng.next(90_000)
		for rank := range 2 {
			late := rng.next(3000)
			rows[rank] = append(rows[rank], hostRow("user_annotation", "gloo:all_reduce", 12, at+late+rank*80_000, 9000-late+rng.next(60), `"Input Dims":[[1000]],"Input type":["float"]`))
		}
	}
	c, rep := importAll(t, rankTrace(0, 2, rows[0]...), rankTrace(1, 2, rows[1]...))
	if r := rep.Ranks[0]; r.Matched != 12 || !near(r.Offsets[1], -80*time.Millisecond, 60*time.Microsecond) {
		t.Errorf("want 12 matches, an offset of -80 ms, got %s", rep)
	}
	for _, e := range c.pick("comm", "all_reduce") {
		if arg(e, "wait_us") == "" {
			t.Fatalf("no rank has a wait: %+v", e)
		}
	}
}

// TestGroupMembers checks that the trace has the ranks of the groups that the profile describes. A name of several groups
// is left out.
func TestGroupMembers(t *testing.T) {
	c, _ := importAll(t, fromBytes("rank2.json", []byte(`{"distributedInfo":{"rank":2,"world_size":4,"pg_config":[
		{"pg_name":"0","pg_desc":"default_pg","ranks":"[0, 1, 2, 3]"},{"pg_name":"5","ranks":[0, 2]},{"pg_name":"6","ranks":[0, 1]},{"pg_name":"6","ranks":[2, 3]}
		]},"traceEvents":[{`+commRow(1000, 50, `"Process Group Name":"5"`)+`}]}`)))
	got := make(map[string]string)
	for i := range c.events {
		if key, value := c.events[i].Meta(); strings.HasPrefix(key, "group.") {
			got[key] = value
		}
	}
	if want := map[string]string{"group.0": "[0,1,2,3]", "group.5": "[0,2]"}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	many := make([]string, 600)
	for i := range many {
		many[i] = strconv.Itoa(2*i + 1)
	}
	c, _ = importAll(t, fromBytes("rank1.json", []byte(`{"distributedInfo":{"rank":1,"world_size":1200,"pg_config":[
		{"pg_name":"5","ranks":[`+strings.Join(many, ", ")+`]}]},"traceEvents":[{`+commRow(1000, 50, `"Process Group Name":"5"`)+`}]}`)))
	first := ""
	for i := range c.events {
		if key, value := c.events[i].Meta(); key == "group.5" {
			first = value
		}
	}
	if !strings.HasPrefix(first, "[1,3,5,") {
		t.Errorf("a group of 600 ranks has the members %q, want the first of them", first)
	}
}
