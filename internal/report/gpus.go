package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// GPU is how busy a GPU was during the steps of the last attempt, without the first one.
type GPU struct {
	Host   string  `json:"host"`
	Index  string  `json:"index"`
	Busy   float64 `json:"busy_percent"`           // mean
	Memory int64   `json:"memory_bytes,omitempty"` // the maximum in use, by any process
	// Growth is how much the memory in use grew from the third quarter of the steps to the last, as a
	// fraction. It is nil if there are too few samples.
	Growth  *float64 `json:"memory_growth,omitempty"`
	Samples int      `json:"samples"`

	total int64 // its memory, 0 if unknown
}

const (
	leastGPUSamples    = 3    // for the mean
	leastGrowthSamples = 8    // for the growth of memory
	growing            = 0.02 // the growth that is reported
)

// gpus sets GPUs: from the samples that were taken during the steps of the last attempt.
func (r *Report) gpus(j *Job) {
	last := 0
	for _, p := range j.Job.Processes {
		last = max(last, p.Attempt)
	}
	its := j.Ledger.Iterations(last)
	type key struct{ host, index string }
	rows, used := make(map[key][]job.Sample), make(map[key]bool)
	for _, p := range slices.Concat(j.Job.Helpers, j.Job.Processes) {
		if p.Samples == nil {
			continue
		}
		if d := p.Samples.Device; d != "" && d != job.SeveralDevices {
			used[key{p.Host, d}] = true
		}
		for index, of := range p.Samples.GPUs {
			rows[key{p.Host, index}] = append(rows[key{p.Host, index}], of...)
		}
	}
	r.sampledGPUs = len(rows) > 0
	if len(its) < 2 {
		return
	}
	from, to := its[0].End, its[len(its)-1].End
	for k, of := range rows {
		if len(used) > 0 && !used[k] {
			continue
		}
		slices.SortFunc(of, func(a, b job.Sample) int { return cmp.Compare(a.At, b.At) })
		if g := gpuBetween(of, from, to); g != nil {
			g.Host, g.Index = k.host, k.index
			for i := range r.Resources {
				for _, of := range r.Resources[i].GPUs {
					if r.Resources[i].Host == k.host && of.Index == k.index {
						g.total = max(g.total, of.MemoryTotal)
					}
				}
			}
			r.GPUs = append(r.GPUs, *g)
		}
	}
	slices.SortFunc(r.GPUs, func(a, b GPU) int { return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Index, b.Index)) })
}

// gpuBetween sums up the samples whose whole interval is between two times, nil if there are too few.
func gpuBetween(rows []job.Sample, from, to int64) *GPU {
	g := &GPU{}
	var busy, took float64
	type inUse struct {
		at    int64
		bytes float64
	}
	var memory []inUse
	for i := 1; i < len(rows); i++ {
		b, m := float64(rows[i].Values[job.Busy]), float64(rows[i].Values[job.Memory])
		if rows[i-1].At < from || rows[i].At > to || b != b {
			continue
		}
		d := float64(rows[i].At - rows[i-1].At)
		busy, took = busy+d*b, took+d
		if g.Samples++; m == m {
			memory = append(memory, inUse{rows[i].At, m})
			g.Memory = max(g.Memory, int64(m))
		}
	}
	if g.Samples < leastGPUSamples || took == 0 {
		return nil
	}
	g.Busy = busy / took
	if n := len(memory); n >= leastGrowthSamples {
		// The third quarter of the time and the last one.
		first, end := memory[0].at, memory[n-1].at
		var most [2]float64
		for _, m := range memory {
			if q := 4 * float64(m.at-first) / float64(end-first); q >= 2 {
				k := min(int(q)-2, 1)
				most[k] = max(most[k], m.bytes)
			}
		}
		if most[0] > 0 {
			growth := most[1]/most[0] - 1
			g.Growth = &growth
		}
	}
	return g
}

// gpusInSteps describes the GPUs during the steps, or returns "" if they were not sampled often enough.
func (r *Report) gpusInSteps() string {
	if len(r.GPUs) == 0 || r.Profile != nil {
		return ""
	}
	full, most := &r.GPUs[0], &r.GPUs[0]
	least := full
	for i := range r.GPUs {
		g := &r.GPUs[i]
		if g.Memory > full.Memory {
			full = g
		}
		if g.Busy < least.Busy {
			least = g
		}
		if g.Busy > most.Busy {
			most = g
		}
	}
	text := busyWords(len(r.GPUs), least.Busy, most.Busy) + " in steps"
	if full.Memory == 0 {
		return text
	}
	text += " · " + display.Bytes(float64(full.Memory))
	if full.total > 0 {
		text += " of " + display.Bytes(float64(full.total))
	}
	switch g := full.Growth; {
	case g == nil:
	case *g > growing:
		text += fmt.Sprintf(", growing (%s in the last quarter)", display.Percent(*g))
	default:
		text += ", not growing"
	}
	return text
}

// busyWords returns the number of several GPUs, and how busy the least and the most busy one are, in percent.
func busyWords(n int, least, most float64) string {
	number := ""
	if n > 1 {
		number = fmt.Sprintf("%d, ", n)
	}
	from, to := fmt.Sprintf("%.0f", least), fmt.Sprintf("%.0f", most)
	if from == to {
		return number + to + " % busy"
	}
	return number + from + " to " + to + " % busy"
}
