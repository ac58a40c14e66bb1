package torch

import (
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
)

// dynamoRows writes the events of category dynamo.
type dynamoRows struct{ *out }

// pop writes the event of category dynamo for a row: a compiled region, a graph
// call, one of its operators or fused kernels, or compilation.
func (e dynamoRows) pop(s *sweep, f, up *frame) {
	switch {
	case f.name == "TorchDynamo Cache Lookup":
		if c := e.p.report.Compile; c != nil {
			c.CacheLookup += time.Duration(f.r.end - f.r.start)
		}
		return
	case f.compiling:
		e.compilePhase(f, up)
		return
	case f.isMarker() && f.own != inGraph:
		return
	case f.own != notContainer:
		e.containerEvent(f)
		return
	case f.parent == notContainer:
		return
	}
	rr := e.p.regions.entryFor(f.region, f.backward)
	switch {
	case f.isTriton():
		rr.Kernels++
		e.fusedKernel(f)
	case f.isGraphLaunch():
		rr.Launches++
		e.dynamo(f, e.graphName(f))
		e.add(`,"cuda_graph":1`)
		e.dynamoArgs(f)
	default:
		if op := f.opName(); op != "" && e.isNode(f, rr, op) {
			rr.Ops++
			e.function(s, f, rr, op)
		}
	}
}

// isNode distinguishes graph nodes from what the compiler's wrapper does around
// them: if the region has graph calls, only rows inside those count; buffers
// are not operators of the graph, and around a CUDA graph there are only copies
// of its inputs.
func (e dynamoRows) isNode(f *frame, rr *RegionReport, op string) bool {
	if rr.graphCalls && f.parent != inGraph || rr.Kind == "cuda graph" {
		return false
	}
	if f.parent == inGraph || rr.Kind == "inductor" {
		switch op {
		case "empty", "empty_strided", "as_strided", "detach", "alias":
			return false
		}
	}
	return true
}

func (e dynamoRows) dynamo(f *frame, name string) {
	e.nested("dynamo", name, f)
}

// dynamoArgs adds the arguments that identify the compiled code, and writes the
// event.
func (e dynamoRows) dynamoArgs(f *frame) {
	e.text(`,"compile_id":`, e.p.names.text[f.compiledBy()])
	e.text(`,"cache_key":`, e.p.names.text[f.graph])
	if f.backward {
		e.add(`,"phase":"backward"`)
	} else {
		e.add(`,"phase":"forward"`)
	}
	if f.devTotal > 0 {
		e.us(`,"device_us":`, f.devTotal)
	}
	e.exact(f.r.start, f.r.end-f.r.start)
	e.common(f.step, true)
}

// containerEvent writes a region, a compiled function or a graph call.
func (e dynamoRows) containerEvent(f *frame) {
	rr := e.p.regions.entryFor(f.region, f.backward)
	name := f.name
	switch f.own {
	case inRegion:
		name = "region." + e.p.names.text[f.region]
		rr.Calls++
	case inGraph:
		name = e.graphName(f)
	default:
		if f.region == 0 {
			rr.Calls++
		}
	}
	e.dynamo(f, name)
	e.text(`,"backend":`, rr.Kind)
	if f.own == inForward {
		e.add(`,"grad_enabled":1,"inferred":1`)
	}
	e.dynamoArgs(f)
}

func (e dynamoRows) graphName(f *frame) string {
	if key := e.p.names.text[f.graph]; key != "" {
		return "graph." + key
	}
	return "graph"
}

// compilePhase writes a compilation while the profiler ran.
func (e dynamoRows) compilePhase(f, up *frame) {
	phase, ok := strings.CutSuffix(f.name, " (dynamo_timed)")
	if !ok || f.r.kind != kineto.KindUserAnnotation {
		return
	}
	if up == nil || !up.compiling {
		e.p.regions.report().Compiling += time.Duration(f.r.end - f.r.start)
	}
	e.dynamo(f, "compile."+phase)
	e.dynamoArgs(f)
}

// fusedKernel writes an Inductor kernel under its own name. The operators in
// that name are kept as one text, because it does not show where one ends.
func (e dynamoRows) fusedKernel(f *frame) {
	e.dynamo(f, "kernel."+f.name)
	e.text(`,"fused":`, fusedPart(f.name))
	e.kernelNodes(f.region, f.graph, f.name)
	args := kineto.Args(f.r.extra)
	e.text(`,"kernel_hash":`, cleanText(args, "kernel_hash"))
	e.text(`,"kernel_file":`, cleanText(args, "kernel_file"))
	e.dynamoArgs(f)
}

// cleanText returns a string of a row's arguments, "" if there is none.
func cleanText(args kineto.Args, key string) string {
	v, _ := args.Text(key)
	v, _ = kineto.Clean([]byte(v))
	return v
}

// maxNodes is how many nodes of a graph an event has.
const maxNodes = 256

// kernelNodes adds the graph nodes of a kernel if a compile log has them.
func (e dynamoRows) kernelNodes(region, graph uint32, kernel string) {
	if nodes := e.p.graphs.kernelNodes(e.p.names.text[region], e.p.names.text[graph], kernel); len(nodes) > 0 {
		text := strings.Join(nodes[:min(len(nodes), maxNodes)], ",")
		if len(nodes) > maxNodes {
			text += ",..."
		}
		e.str(`,"nodes":`, text)
	}
}

// bareKernel writes a Triton kernel that compiled code launched without a host
// row, as in torch 2.0 and 2.1.
func (e dynamoRows) bareKernel(r *row, tid int64, name string) {
	backward := r.flags&flagBackward != 0
	rr := e.p.regions.entryFor(r.region, backward)
	rr.Kernels++
	e.onDevice("dynamo", "kernel."+name, tid, r)
	e.text(`,"fused":`, fusedPart(name))
	e.kernelNodes(r.region, r.graph, name)
	e.text(`,"compile_id":`, e.p.names.text[r.region])
	e.text(`,"cache_key":`, e.p.names.text[r.graph])
	if backward {
		e.add(`,"phase":"backward"`)
	} else {
		e.add(`,"phase":"forward"`)
	}
	e.add(`,"clock":"device"`)
	e.common(r.step, true)
}

// fusedPart returns an Inductor kernel's name without the kind and the number:
// triton_poi_fused_add_mul_3 is add_mul.
func fusedPart(name string) string {
	_, rest, ok := strings.Cut(name, "_fused_")
	if !ok {
		return ""
	}
	if i := strings.LastIndexByte(rest, '_'); i > 0 {
		if _, num := kineto.ParseInt([]byte(rest[i+1:])); num {
			rest = rest[:i]
		}
	}
	return strings.Trim(rest, "_")
}

// function writes an operator of a compiled graph.
func (e dynamoRows) function(s *sweep, f *frame, rr *RegionReport, op string) {
	base, overload, _ := strings.Cut(op, ".")
	source := "trace"
	if overload == "" {
		overload = e.p.graphs.overload(e.container(s), e.p.names.text[f.compiledBy()], e.p.names.text[f.graph], f.backward, base, rr.Kind == "per-op")
		source = "compile log"
	}
	name := "function." + base
	if overload != "" {
		name += "." + overload
	}
	e.dynamo(f, name)
	if overload == "" {
		e.p.report.Compile.UnknownOverloads++
		e.add(`,"overload":"unknown"`)
	} else {
		e.str(`,"overload":`, overload)
		e.str(`,"overload_from":`, source)
	}
	if f.parent == inGraph || rr.Kind == "inductor" {
		e.add(`,"extern":1`)
	}
	if !f.backward && (f.parent == inForward || f.r.c > 0) {
		e.add(`,"grad_enabled":1,"inferred":1`)
	}
	e.addIfKnown(`,"node":`, f.node)
	e.text(`,"node_name":`, cleanText(kineto.Args(f.r.extra), "node_name"))
	e.dynamoArgs(f)
}

// container returns the innermost compiled code around the top of the stack.
func (e dynamoRows) container(s *sweep) *frame {
	for i := len(s.stack) - 2; i >= 0; i-- {
		if f := &s.stack[i]; f.own != notContainer && (!f.isMarker() || f.own == inGraph) {
			return f
		}
	}
	return nil
}
