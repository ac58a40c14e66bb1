package report

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// The parts of PyTorch's message about a device without free memory.
var (
	oomTried    = regexp.MustCompile(`Tried to allocate ([0-9.]+) ([KMGT]?i?B|bytes)`)
	oomCapacity = regexp.MustCompile(`total capacity of ([0-9.]+) ([KMGT]?i?B|bytes) of which ([0-9.]+) ([KMGT]?i?B|bytes) is free`)
	oomReserved = regexp.MustCompile(`([0-9.]+) ([KMGT]?i?B|bytes) is reserve`)
)

// afterDeviceOOM returns the action for the error of a device without free memory: what was allocated, and what
// to try. It returns "" for other errors.
func afterDeviceOOM(text string) string {
	if !strings.Contains(text, "OutOfMemoryError") && !strings.Contains(text, "CUDA out of memory") && !strings.Contains(text, "HIP out of memory") {
		return ""
	}
	tried := oomTried.FindStringSubmatch(text)
	if tried == nil {
		return "allocate less on the device: a smaller batch, or activation checkpointing"
	}
	what, had := "allocate less than "+tried[1]+" "+tried[2]+" at once", ""
	asked := memory(tried[1], tried[2])
	of := oomCapacity.FindStringSubmatch(text)
	if of != nil {
		had = fmt.Sprintf(" (%s %s of %s %s were free)", of[3], of[4], of[1], of[2])
	}
	switch reserved := oomReserved.FindStringSubmatch(text); {
	case of != nil && asked > memory(of[1], of[2]):
		had = fmt.Sprintf(": the device has %s %s in all", of[1], of[2])
		return what + had
	case reserved != nil && memory(reserved[1], reserved[2]) >= asked: // it would fit if it were in one piece
		return fmt.Sprintf("set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: %s %s are reserved and not in use, and %s %s did not fit; else a smaller batch, or activation checkpointing",
			reserved[1], reserved[2], tried[1], tried[2])
	}
	return what + had + ": a smaller batch, or activation checkpointing"
}

// memory returns an amount of memory in bytes.
func memory(number, unit string) float64 {
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0
	}
	if i := strings.IndexByte("BKMGT", unit[0]); i > 0 {
		v *= float64(int64(1) << (10 * i))
	}
	return v
}
