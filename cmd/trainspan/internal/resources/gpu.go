package resources

import (
	"bufio"
	"context"
	"io"
	"maps"
	"math"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job/rundir"
)

// GPUs samples GPUs of NVIDIA with nvidia-smi, which runs continuously.
type GPUs struct {
	// Path is the program; Only is a number or an id, empty for all GPUs.
	Path, Only string
}

// FindGPUs looks for nvidia-smi. visible is CUDA_VISIBLE_DEVICES. local is the
// rank on this machine, or negative if unknown; with a rank this process uses
// one GPU.
func FindGPUs(visible string, local int) *GPUs {
	path, err := exec.LookPath("nvidia-smi")
	if err != nil {
		return nil
	}
	g := &GPUs{Path: path}
	list := strings.FieldsFunc(visible, func(r rune) bool { return r == ',' || r == ' ' })
	switch {
	case local >= 0 && local < len(list):
		g.Only = list[local]
	case local >= 0 && len(list) == 0:
		g.Only = strconv.Itoa(local)
	default:
		g.Only = strings.Join(list, ",")
	}
	if strings.HasPrefix(g.Only, "MIG-") {
		g.Only = "" // a part of a GPU is requested through the whole GPU
	}
	return g
}

// gpuUsage summarizes one GPU.
type gpuUsage struct {
	uuid         string
	samples, use float64
	memory       int64
	total        int64
}

const mebibyte = 1 << 20

// gpuSample is a line of nvidia-smi.
type gpuSample struct {
	index, uuid   string
	use           float64 // percent
	memory, total int64   // bytes
	power         float64 // watts, negative if unknown
	temperature   float64 // degrees Celsius, as above
	clock, most   float64 // of the processors, MHz, as above
	slowed        int64   // reasons for a lower clock: bits of NVML, negative as above
}

// Fields that are requested from nvidia-smi. A version that does not know one
// of them ends at once; then only the first fields are requested, which all
// versions know.
const (
	gpuFields     = "index,uuid,utilization.gpu,memory.used,memory.total,power.draw"
	gpuMoreFields = gpuFields + ",temperature.gpu,clocks.sm,clocks.max.sm,clocks_throttle_reasons.active"
)

// slowdowns are the bits of NVML's reasons for a lower clock that the user did
// not choose: power cap, hardware slowdown, heat by software and by hardware,
// power brake.
const slowdowns = 0x4 | 0x8 | 0x20 | 0x40 | 0x80

// read runs the program until stop is closed. If the program ends earlier, the
// samples end.
func (g *GPUs) read(stop <-chan struct{}, each func(gpuSample, time.Time)) {
	for _, fields := range [...]string{gpuMoreFields, gpuFields} {
		n := 0
		g.query(stop, "--query-gpu="+fields, time.Second, func(line string) {
			if s, ok := parseGPU(line); ok {
				each(s, time.Now())
				n++
			}
		})
		if n > 0 {
			return
		}
		select {
		case <-stop:
			return
		default:
		}
	}
}

// query runs the program until stop is closed, and calls each for every line
// that it prints.
func (g *GPUs) query(stop <-chan struct{}, what string, every time.Duration, each func(line string)) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	args := []string{what, "--format=csv,noheader,nounits", "-l", strconv.Itoa(int(every / time.Second))}
	if g.Only != "" {
		args = append(args, "-i", g.Only)
	}
	cmd := exec.CommandContext(ctx, g.Path, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			each(lines.Text())
		}
		_, _ = io.Copy(io.Discard, out) // the line is too long
	}()
	select {
	case <-stop:
	case <-done:
	}
	cancel()
	<-done
	_ = cmd.Wait() // it was killed
}

func parseGPU(line string) (s gpuSample, ok bool) {
	fields := strings.Split(line, ",")
	if len(fields) != 6 && len(fields) != 10 {
		return s, false
	}
	number := func(i int) float64 {
		if i >= len(fields) {
			return -1
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(fields[i]), 64)
		if err != nil {
			return -1 // such as [N/A]
		}
		return n
	}
	s = gpuSample{
		index: strings.TrimSpace(fields[0]), uuid: strings.TrimSpace(fields[1]), use: number(2), power: number(5), temperature: number(6), clock: number(7), most: number(8), slowed: -1,
		memory: int64(number(3)) * mebibyte, total: int64(number(4)) * mebibyte,
	}
	if len(fields) > 9 {
		if bits, err := strconv.ParseInt(strings.TrimSpace(fields[9]), 0, 64); err == nil { // 0x0000000000000004
			s.slowed = bits
		}
	}
	return s, s.index != "" && s.use >= 0
}

// GPUs returns a summary of the samples of each GPU, by index.
func (s *Sampler) GPUs() (out []rundir.GPU) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, index := range slices.Sorted(maps.Keys(s.gpus)) {
		u := s.gpus[index]
		out = append(out, rundir.GPU{Index: index, Busy: math.Round(10*u.use/u.samples) / 10, Memory: u.memory, MemoryTotal: u.total})
	}
	return out
}

// gpu handles a sample of a GPU.
func (s *Sampler) gpu(g gpuSample, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.gpus[g.index]
	if u == nil {
		u = &gpuUsage{}
		s.gpus[g.index] = u
	}
	u.uuid = g.uuid
	u.samples++
	u.use += g.use
	u.memory, u.total = max(u.memory, g.memory), max(u.total, g.total)
	args := []dftracer.Arg{dftracer.Float("utilization_percent", g.use)}
	if g.memory >= 0 {
		args = append(args, dftracer.Int("memory_bytes", g.memory))
	}
	if g.power >= 0 {
		args = append(args, dftracer.Float("power_watts", g.power))
	}
	if g.temperature >= 0 {
		args = append(args, dftracer.Float("temperature_celsius", g.temperature))
	}
	if g.clock >= 0 && g.most > 0 {
		args = append(args, dftracer.Float("clock_mhz", g.clock), dftracer.Float("clock_max_mhz", g.most))
	}
	if g.slowed >= 0 {
		slowed := int64(0)
		if g.slowed&slowdowns != 0 {
			slowed = 1
		}
		args = append(args, dftracer.Int("clock_reasons", g.slowed), dftracer.Int("slowed", slowed))
	}
	s.counter("gpu"+g.index, now, args...)
}
