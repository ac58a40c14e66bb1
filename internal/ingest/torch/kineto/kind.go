package kineto

// Kind is what an event describes, independent of the name of its category in
// this version.
type Kind uint8

// The kinds. KindOther is for unknown categories; such events are still
// returned.
const (
	KindOther Kind = iota
	KindCPUOp
	KindUserAnnotation
	KindGPUAnnotation
	KindKernel
	KindMemcpy
	KindMemset
	KindRuntime
	KindDriver
	KindSync
	KindCUDAEvent
	KindInstant
	KindPython
	KindOverhead
	KindWindow
	KindFlow
	KindMetadata
	KindCounter
	// KindDevice is work on a device in a maker's own category, such as
	// mtia_ccp_events; KindDeviceRange is an interval around such work, such as
	// cuda_profiler_range.
	KindDevice
	KindDeviceRange
)

var kindNames = [...]string{
	"other", "cpu_op", "user_annotation", "gpu_user_annotation", "kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime",
	"cuda_driver", "cuda_sync", "cuda_event", "instant", "python_function", "overhead", "trace", "flow", "metadata", "counter", "device", "device_range",
}

// String returns the current category name of the kind.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "other"
}

// Device reports whether events of this kind describe work on a device.
func (k Kind) Device() bool {
	return k == KindKernel || k == KindMemcpy || k == KindMemset || k == KindGPUAnnotation || k == KindDevice || k == KindDeviceRange
}

// Kind classifies the event by phase and category. Up to torch 1.9 operators
// and annotations have one category and are distinguished by name.
func (ev *Event) Kind() Kind {
	switch ev.Phase {
	case 'M':
		return KindMetadata
	case 's', 'f', 't':
		return KindFlow
	case 'i', 'I', 'n':
		return KindInstant
	case 'C':
		return KindCounter
	}
	switch string(ev.Cat) {
	case "cpu_op":
		return KindCPUOp
	case "Operator":
		if legacyAnnotation(ev.rawName) {
			return KindUserAnnotation
		}
		return KindCPUOp
	case "user_annotation":
		return KindUserAnnotation
	case "gpu_user_annotation":
		return KindGPUAnnotation
	case "kernel", "Kernel":
		return KindKernel
	case "gpu_memcpy", "Memcpy":
		return KindMemcpy
	case "gpu_memset", "Memset":
		return KindMemset
	case "cuda_runtime", "Runtime", "xpu_runtime", "mtia_runtime", "glow_runtime", "privateuse1_runtime":
		return KindRuntime
	case "cuda_driver", "xpu_driver", "privateuse1_driver":
		return KindDriver
	case "cuda_sync", "xpu_sync":
		return KindSync
	case "cuda_event":
		return KindCUDAEvent
	case "python_function":
		return KindPython
	case "overhead":
		return KindOverhead
	case "Trace":
		return KindWindow
	case "cuda_profiler_range":
		return KindDeviceRange
	case "mtia_ccp_events", "hpu_op":
		return KindDevice
	case "":
		if string(ev.PID.Text) == "CPU functions" {
			if legacyAnnotation(ev.rawName) {
				return KindUserAnnotation
			}
			return KindCPUOp
		}
		if string(ev.PID.Text) == "CUDA functions" {
			return KindKernel
		}
	}
	return KindOther
}

func legacyAnnotation(name []byte) bool {
	return hasPrefix(name, "ProfilerStep#") || hasPrefix(name, "Optimizer.") || hasPrefix(name, "enumerate(DataLoader)#") ||
		hasPrefix(name, "nccl:") || hasPrefix(name, "gloo:") || hasPrefix(name, "## ") || hasPrefix(name, "DistributedDataParallel.")
}

func hasPrefix(b []byte, p string) bool { return len(b) >= len(p) && string(b[:len(p)]) == p }
