package report

import (
	"testing"

	"github.com/trainspan/trainspan/internal/job"
)

func TestAfterDeviceOOM(t *testing.T) {
	const gpu = " GPU 0 has a total capacity of 139.80 GiB of which 1.50 GiB is free. Including non-PyTorch memory, this process has 138.00 GiB memory in use."
	for text, want := range map[string]string{
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 400.00 GiB." + gpu:                                                     "allocate less than 400.00 GiB at once: the device has 139.80 GiB in all",
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB." + gpu + " and 113.42 MiB is reserve…":                       "allocate less than 2.00 GiB at once (1.50 GiB of 139.80 GiB were free): a smaller batch, or activation checkpointing",
		"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB." + gpu + " and 20.50 GiB is reserved by PyTorch but un": "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: 20.50 GiB are reserved and not in use, and 2.00 GiB did not fit; else a smaller batch, or activation checkpointing",
		"RuntimeError: CUDA out of memory.":      "allocate less on the device: a smaller batch, or activation checkpointing",
		"RuntimeError: CUDA error: device-side ": "read what the command printed last in the output of the job",
	} {
		if got := afterwards(&job.Outcome{How: job.Failed, Error: text}); got != want {
			t.Errorf("after %q: got %q, want %q", text, got, want)
		}
	}
}
