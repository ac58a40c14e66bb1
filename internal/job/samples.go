package job

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/columns"
)

// Measure is one quantity that trainspan run samples of a process, a system or
// a GPU.
type Measure uint8

// The measures. Shares are of the time since the previous sample.
const (
	RunDelay       Measure = iota // share of time in which a thread was runnable without a CPU, for the thread that waited longest
	IODelay                       // share of time waiting for block I/O
	MajorFaults                   // per second
	UserCores                     // CPU cores in use
	SystemCores                   // CPU cores the system used for the process
	AllowedCores                  // CPU cores that the process may run on
	CoreLimit                     // of the control group
	Throttled                     // share of the periods in which that limit applied
	Runnable                      // threads of the whole system that run or are runnable
	OnlineCores                   // of the system
	Steal                         // share of CPU time that the host of a virtual machine took
	IOPressure                    // share of time in which a thread waited for I/O
	MemoryPressure                // share of time in which a thread waited for memory
	Clock                         // of a GPU, MHz
	ClockMax                      // MHz
	Slowed                        // 1 if heat or power lower the clock of a GPU
	Busy                          // percent of the time in which a GPU ran a kernel
	Memory                        // of a GPU, bytes in use; the largest of samples that were merged
	Measures                      // the number of measures
)

// measures are the arguments of counter events that are kept, by the names of
// event and argument; gpu stands for each GPU.
var measures = map[string]map[string]Measure{
	"sched":       {"run_delay_share": RunDelay, "io_delay_share": IODelay, "allowed_cores": AllowedCores, "cpu_limit_cores": CoreLimit, "throttled_share": Throttled},
	"page_faults": {"major_per_s": MajorFaults},
	"cpu":         {"user_cores": UserCores, "system_cores": SystemCores},
	"system":      {"runnable": Runnable, "cores": OnlineCores, "steal_share": Steal, "io_pressure_share": IOPressure, "memory_pressure_share": MemoryPressure},
	"gpu":         {"clock_mhz": Clock, "clock_max_mhz": ClockMax, "slowed": Slowed, "utilization_percent": Busy, "memory_bytes": Memory},
}

// catResources is the category of these counter events.
const catResources = "resources"

// Sample holds the measures since the previous sample; NaN means unknown.
type Sample struct {
	At     int64 // nanoseconds since the epoch
	Values [Measures]float32
}

// Samples are the samples of a process, by time, and of its GPUs; those of a
// system belong to the process that took them. They do not change once a set
// has been read.
type Samples struct {
	Rows []Sample
	GPUs map[string][]Sample // by index
	// Device is the index of the GPU that the process computes on, empty if
	// unknown, and [SeveralDevices] if there are several.
	Device string
}

// SeveralDevices is the device of a process that computes on more than one GPU.
const SeveralDevices = "several"

// device notes the device of the process.
func (s *Samples) device(index string) {
	if s.Device = cmp.Or(s.Device, index); index != "" && s.Device != index {
		s.Device = SeveralDevices
	}
}

// maxSamples bounds the samples of a series. Above it neighbours are merged.
const maxSamples = 256

// sample handles a counter event.
func (t *traceReader) sample(p *traceProcess, ev *dftracer.Event) {
	name, gpu := ev.Name, ""
	if index, ok := strings.CutPrefix(name, "gpu"); ok && index != "" {
		name, gpu = "gpu", index
	}
	of := measures[name]
	if of == nil && name != "compute_gpu" {
		return
	}
	if p.Samples == nil {
		p.Samples = &Samples{}
	}
	if name == "compute_gpu" {
		for i := range ev.Args {
			if n := ev.Args[i].Int64(); ev.Args[i].Key == "gpu" && n >= 0 {
				p.Samples.device(strconv.FormatInt(n, 10))
			} else if ev.Args[i].Key == "gpu" {
				p.Samples.device(SeveralDevices)
			}
		}
		return
	}
	at := ev.TS * micro
	rows := p.Samples.Rows
	if gpu != "" {
		rows = p.Samples.GPUs[gpu]
	}
	for i := range ev.Args {
		if m, ok := of[ev.Args[i].Key]; ok {
			rows = setSample(rows, at, m, ev.Args[i].Float64())
		}
	}
	if gpu == "" {
		p.Samples.Rows = rows
	} else if len(rows) > 0 && (p.Samples.GPUs[gpu] != nil || len(p.Samples.GPUs) < maxGPUs) {
		if p.Samples.GPUs == nil {
			p.Samples.GPUs = make(map[string][]Sample)
		}
		p.Samples.GPUs[gpu] = rows
	}
}

// maxGPUs bounds the GPUs of a system.
const maxGPUs = 256

// setSample sets a measure of the last row, or of a new one.
func setSample(rows []Sample, at int64, m Measure, v float64) []Sample {
	if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return rows
	}
	if n := len(rows); n == 0 || rows[n-1].At != at {
		if n >= maxSamples {
			rows = thin(rows)
		}
		rows = append(rows, noSample(at))
	}
	rows[len(rows)-1].Values[m] = float32(v)
	return rows
}

func noSample(at int64) Sample {
	s := Sample{At: at}
	for i := range s.Values {
		s.Values[i] = float32(math.NaN())
	}
	return s
}

// thin merges samples to at most half of maxSamples intervals of about the same length, so that the
// samples cover the whole time evenly, however many follow. Lengths are powers of 2: those of a later
// call are made of whole ones.
func thin(rows []Sample) []Sample {
	rows = settled(rows)
	width := int64(1)
	for (rows[len(rows)-1].At-rows[0].At)/width >= maxSamples/2-1 {
		width *= 2
	}
	out := rows[:1] // the begin of the first interval
	var took [Measures]float64
	bucket := int64(math.MinInt64)
	for i, at := 1, rows[0].At; i < len(rows); i++ {
		s, d := rows[i], float64(rows[i].At-at)
		at = s.At
		if b := (s.At - 1) / width; b != bucket {
			bucket, out = b, append(out, s)
			for m, v := range s.Values {
				if took[m] = 0; v == v {
					took[m] = d
				}
			}
			continue
		}
		last := &out[len(out)-1]
		last.At = s.At
		for m, v := range s.Values {
			switch x := last.Values[m]; {
			case v != v:
			case x != x:
				last.Values[m], took[m] = v, d
			case Measure(m) == Memory:
				last.Values[m] = max(x, v)
			default:
				last.Values[m] = float32((float64(x)*took[m] + float64(v)*d) / (took[m] + d))
				took[m] += d
			}
		}
	}
	return out
}

// settle sorts samples by time, one for each time, because goroutines may have
// read them in another order.
func (s *Samples) settle() {
	if s == nil {
		return
	}
	s.Rows = settled(s.Rows)
	for name := range s.GPUs {
		s.GPUs[name] = settled(s.GPUs[name])
	}
}

func settled(rows []Sample) []Sample {
	slices.SortStableFunc(rows, func(a, b Sample) int { return cmp.Compare(a.At, b.At) })
	out := rows[:0]
	for i := range rows {
		if n := len(out); n == 0 || out[n-1].At != rows[i].At {
			out = append(out, rows[i])
			continue
		}
		for m, v := range rows[i].Values {
			if v == v {
				out[len(out)-1].Values[m] = v
			}
		}
	}
	return out
}

// With returns the samples of both. Neither is changed.
func (s *Samples) With(o *Samples) *Samples {
	if s == nil {
		return o
	}
	if o == nil {
		return s
	}
	join := func(a, b []Sample) []Sample {
		rows := settled(slices.Concat(a, b))
		if len(rows) > maxSamples {
			rows = thin(rows)
		}
		return rows
	}
	out := &Samples{Rows: join(s.Rows, o.Rows), Device: s.Device}
	out.device(o.Device)
	for _, of := range [...]map[string][]Sample{s.GPUs, o.GPUs} {
		for name := range of {
			if out.GPUs == nil {
				out.GPUs = make(map[string][]Sample)
			}
			if _, done := out.GPUs[name]; !done {
				out.GPUs[name] = join(s.GPUs[name], o.GPUs[name])
			}
		}
	}
	return out
}

// unit is the unit in which measures are stored: 1/10000.
const unit = 1e4

// append appends the samples to a digest.
func (s *Samples) append(dst []byte) []byte {
	if s == nil {
		s = &Samples{}
	}
	dst = appendSamples(dst, s.Rows)
	dst = binary.AppendUvarint(dst, uint64(len(s.GPUs)))
	names := make([]string, 0, len(s.GPUs))
	for name := range s.GPUs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		dst = appendSamples(columns.AppendBytes(dst, name), s.GPUs[name])
	}
	return columns.AppendBytes(dst, s.Device)
}

func appendSamples(dst []byte, rows []Sample) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(rows)))
	if len(rows) == 0 {
		return dst
	}
	column := make([]int64, len(rows))
	for i := range rows {
		column[i] = rows[i].At
	}
	dst = columns.Append(dst, column)
	for m := range Measures {
		for i := range rows {
			column[i] = -1
			if v := float64(rows[i].Values[m]); v >= 0 {
				column[i] = int64(math.Round(min(v, 1e12) * unit))
			}
		}
		dst = columns.Append(dst, column)
	}
	return dst
}

// readSamples reads the result of append, nil if there are none.
func readSamples(r *columns.Reader) *Samples {
	s := &Samples{Rows: readRows(r)}
	for range r.Small(maxGPUs) {
		name := r.String()
		if s.GPUs == nil {
			s.GPUs = make(map[string][]Sample)
		}
		s.GPUs[name] = readRows(r)
	}
	s.Device = r.String()
	if s.Rows == nil && s.GPUs == nil && s.Device == "" {
		return nil
	}
	return s
}

func readRows(r *columns.Reader) (rows []Sample) {
	n := r.Small(maxSamples)
	if n == 0 {
		return nil
	}
	column := make([]int64, n)
	r.Column(column)
	for _, at := range column {
		rows = append(rows, noSample(at))
	}
	for m := range Measures {
		r.Column(column)
		for i, v := range column {
			if v >= 0 {
				rows[i].Values[m] = float32(float64(v) / unit)
			}
		}
	}
	return rows
}
