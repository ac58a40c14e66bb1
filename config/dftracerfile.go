package config

import "strings"

// dftracerFileVariable names a configuration file of DFTracer itself.
const dftracerFileVariable = "DFTRACER_CONFIGURATION"

// dftracerKeys are the keys of such a file that mean something here. The block
// "profiler" became "tracer" in newer versions.
var dftracerKeys = []struct{ theirs, ours string }{
	{"enable", "outputs.trace.enabled"},
	{"tracer.log_file", "outputs.trace.path"},
	{"profiler.log_file", "outputs.trace.path"},
	{"tracer.data_dirs", "outputs.trace.data_dirs"},
	{"profiler.data_dirs", "outputs.trace.data_dirs"},
	{"tracer.compression", "outputs.trace.compression"},
	{"profiler.compression", "outputs.trace.compression"},
	{"features.metadata", "outputs.trace.metadata"},
	{"features.core_affinity", "outputs.trace.core_affinity"},
	{"features.tid", "outputs.trace.tids"},
	{"features.io.enable", "outputs.trace.io"},
	{"features.io.posix", "outputs.trace.posix"},
	{"features.io.stdio", "outputs.trace.stdio"},
	{"internal.write_buffer_size", "outputs.trace.buffer_size"},
}

// dftracerNode translates a DFTracer configuration. What else it says
// about interception is left out.
func dftracerNode(n *node) *node {
	root := &node{kind: mappingNode, where: n.where}
	for _, k := range dftracerKeys {
		from := n
		for key := range strings.SplitSeq(k.theirs, ".") {
			if from = from.child(key); from == nil {
				break
			}
		}
		if from == nil {
			continue
		}
		if k.ours == "outputs.trace.data_dirs" && from.kind == scalarNode {
			text, _ := from.value.(string)
			from = folders(text, from.where)
		}
		root.put(strings.Split(k.ours, "."), from)
	}
	return root
}
