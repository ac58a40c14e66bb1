package resources

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/platform/display"
)

// Thresholds for evidence.
const (
	leastSeconds = 30.0     // seconds of samples
	leastGrowth  = 1 << 20  // bytes per minute
	leastFit     = 0.7      // share of the variance that a line must explain
	leastRate    = 10 << 20 // bytes per second
	nearLimit    = 0.9      // share of the limit of memory or processors
	leastCPU     = 5.0      // seconds of samples of the processors
	idleGPU      = 50.0     // percent
)

// Evidence describes unusual samples in words, the most important ones first.
// It may be empty.
func (s *Sampler) Evidence() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aside {
		return nil
	}
	var out []string
	if s.limit > 0 && float64(s.groupAt) > nearLimit*float64(s.limit) {
		out = append(out, fmt.Sprintf("memory reached %.0f %% of the limit of the control group (%s)", 100*float64(s.groupAt)/float64(s.limit), display.Bytes(float64(s.limit))))
	}
	if held := s.held[1] - s.held[0]; s.held[0] >= 0 && held > 1e6 {
		out = append(out, fmt.Sprintf("the CPU limit of the control group throttled it for %.0f s", float64(held)/1e6))
	}
	out = append(out, s.growth()...)
	out = append(out, s.transfers()...)
	return append(out, s.gpuEvidence()...)
}

// growth finds growing memory.
func (s *Sampler) growth() []string {
	if s.group.seconds() < leastSeconds {
		return nil
	}
	slope, fit, span := s.group.memory.line()
	if slope*60 < leastGrowth || fit < leastFit || slope*span < 0.025*float64(s.group.peak) {
		return nil
	}
	text := fmt.Sprintf("memory grows by %s per minute in the second half, to %s at the end", display.Bytes(slope*60), display.Bytes(s.group.memory.last()))
	var worst *Process
	most := 0.0
	for _, p := range s.tree.all() {
		if own, fit, _ := p.usage.memory.line(); p.usage.seconds() > leastSeconds && fit > leastFit && own > most {
			worst, most = p, own
		}
	}
	if worst != nil && most < 0.9*slope {
		text += fmt.Sprintf(", %s of it in %s (%d)", display.Bytes(most*60), worst.Program, worst.PID)
	}
	return []string{text}
}

// transfers finds processes that read and write much: the workers of a loader
// together, other processes individually.
func (s *Sampler) transfers() []string {
	if s.group.seconds() < leastSeconds {
		return nil // the command still starts and reads programs and libraries
	}
	type group struct {
		name        string
		n           int
		read, wrote float64 // bytes per second
		fetched     float64
	}
	groups := make(map[string]*group)
	for _, p := range s.tree.all() {
		u := &p.usage
		seconds := max(u.seconds(), 1)
		name := p.Program
		if u.workers {
			name = "worker processes (" + p.Program + ")"
		}
		g := groups[name]
		if g == nil {
			g = &group{name: name}
			groups[name] = g
		}
		g.n++
		if span := s.group.seconds(); u.workers && span > seconds {
			seconds = span // such processes start and end
		}
		g.read += float64(u.read) / seconds
		g.wrote += float64(u.wrote) / seconds
		g.fetched += float64(u.fetched) / seconds
	}
	list := make([]*group, 0, len(groups))
	for _, g := range groups {
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.read+b.wrote, a.read+a.wrote), strings.Compare(a.name, b.name))
	})
	var out []string
	for _, g := range list[:min(len(list), 3)] {
		if g.read >= leastRate {
			out = append(out, fmt.Sprintf("%s read %s/s, of which %s/s came from storage", g.name, display.Bytes(g.read), display.Bytes(g.fetched)))
		}
		if g.wrote >= leastRate {
			out = append(out, fmt.Sprintf("%s wrote %s/s", g.name, display.Bytes(g.wrote)))
		}
	}
	return out
}

// gpuEvidence finds idle GPUs.
func (s *Sampler) gpuEvidence() (out []string) {
	names := make([]string, 0, len(s.gpus))
	for name := range s.gpus {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		u := s.gpus[name]
		if u.samples < leastSeconds || u.use/u.samples >= idleGPU {
			continue
		}
		text := fmt.Sprintf("GPU %s was busy for %.0f %% of the time", name, u.use/u.samples)
		if u.total > 0 {
			text += fmt.Sprintf(", with up to %s of its %s of memory", display.Bytes(float64(u.memory)), display.Bytes(float64(u.total)))
		}
		out = append(out, text)
	}
	return out
}
