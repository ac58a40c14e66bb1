package job

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
)

// Arguments of records that this package reads.
const (
	argStep       = "step"
	argEpoch      = "epoch"
	argIteration  = "current_iteration"
	argFirst      = "train_iterations_start"
	argProductive = "productive_train_iterations"
	argIterations = "num_iterations"
	argTook       = "total_iteration_time_sec"
	argFinished   = "last_logged_train_iterations_finish_timestamp_sec"
	argBackground = "background"
	argAsync      = "async"
	argTruncated  = "truncated"
	argRank       = "rank"
	argSpan       = "span" // of an event: its span
	argTokens     = "tokens"
	argSamples    = "samples"
	argGroup      = "pg"
	argGroupSize  = "group_size"
	argPeer       = "peer"
	argRole       = "role"
	argStage      = "pipeline_stage"
	argPPRank     = "pp_rank"
	argExperts    = "expert_group"
	argDevice     = "device_us"
	argDeviceComm = "device_comm_us"
	argLag        = "lag_us"
	argOperator   = "op" // of a row of a device in a profile
	argSource     = "source"
	argWorkers    = "workers" // of a data loader
	argLoss       = "loss"
	argLatestLoss = "latest_loss"
	argReason     = "reason" // of a compilation
)

// keyHeartbeat is the metadata key of a heartbeat: its value is the time in
// microseconds.
const keyHeartbeat = "heartbeat"

// Trains reports whether only a training process has spans with a name.
func Trains(name string) bool {
	info, ok := spans.Lookup(name)
	return ok && info.Name != spans.DataLoading && info.Name != spans.Application
}

// Times of events are in microseconds; lastMicro is the largest one that fits in nanoseconds.
const (
	micro     = 1000
	lastMicro = math.MaxInt64 / micro
)

// number reads the number of a step or an epoch. Some producers write -1 for
// none.
func number(a *dftracer.Arg) int64 {
	if n, ok := tracefile.Whole(*a); ok {
		return max(n, Unknown)
	}
	return Unknown
}

// nanoseconds converts microseconds, which may have a fraction.
func nanoseconds(a *dftracer.Arg) int64 { return int64(math.Round(a.Float64() * 1000)) }

// SetStep sets the number from a step argument, after SetName. It is the number
// of a step or a collective, unless that has its own, and for other work the
// step around it.
func (s *Span) SetStep(n int64) {
	if s.Step == Unknown && (s.StepRule != vocab.StepNone || s.Class == vocab.ClassCollective) {
		s.Step = n
	}
	if inStep(s.Class) {
		s.Within = n + 1
	}
}

// isFinite reports whether a number is finite: NaN and infinities are strings
// in JSON.
func isFinite(a *dftracer.Arg) bool {
	v, err := strconv.ParseFloat(a.Text(), 64)
	return err != nil || !math.IsNaN(v) && !math.IsInf(v, 0)
}

// argument sets the fields for an argument of a span.
func (s *Span) argument(a *dftracer.Arg) {
	switch a.Key {
	case argStep:
		s.SetStep(number(a))
	case argIteration:
		s.Step = number(a)
	case argEpoch:
		s.Epoch = number(a)
	case argFirst:
		s.First = number(a)
	case place.ArgStatus:
		s.Failed = a.Text() == place.StatusError
	case argBackground:
		s.Background = a.Int64() != 0
	case argAsync:
		s.Async = s.Class == vocab.ClassCollective && a.Int64() != 0
	case argTokens:
		s.Tokens = max(a.Int64(), 0)
	case argSamples:
		if s.Tokens == 0 {
			s.Tokens = max(a.Int64(), 0)
		}
	case argWorkers:
		if s.Class == vocab.ClassInputWork || s.Class == vocab.ClassInputWait {
			s.Loader = LoaderDirect
			if a.Int64() > 0 {
				s.Loader = LoaderAhead
			}
		}
	case argReason:
		if s.Class == vocab.ClassCompile {
			s.Reason = a.Text()
		}
	case argGroup:
		s.Group = a.Text()
	case argGroupSize:
		s.GroupSize = int(max(a.Int64(), 0))
	case argPeer:
		if n, ok := tracefile.Whole(*a); ok && n >= 0 && n < MaxRanks {
			s.Peer = int(n) + 1
		}
	case argDevice:
		s.Device = nanoseconds(a)
	case argDeviceComm:
		s.DeviceComm = nanoseconds(a)
	case argLag:
		if s.Class == vocab.ClassDeviceWork {
			s.Launch = s.Start - nanoseconds(a)
		}
	case argSource:
		s.Profiled = s.Profiled || a.Text() == profile
	case argRole, argStage, argPPRank, argExperts:
		if hasRole(s.Name) {
			s.addRole(a.Key, a.Text())
		}
	}
}

// inStep reports whether spans of a class with a step argument are part of that
// step.
func inStep(c vocab.Class) bool {
	switch c {
	case vocab.ClassOther, vocab.ClassForward, vocab.ClassBackward, vocab.ClassOptimizer, vocab.ClassCompute, vocab.ClassCollective, vocab.ClassInputWait, vocab.ClassTransfer:
		return true
	}
	return false
}

// hasRole reports whether a span shows what its rank does; on other spans these
// arguments may mean anything.
func hasRole(name string) bool {
	return name == spans.TrainingIteration || name == spans.TrainingLoop || name == spans.Application
}

// addRole adds one part of the role. The parts are sorted, because the order of
// arguments has no meaning.
func (s *Span) addRole(key, value string) {
	if value == "" {
		return
	}
	part := value
	switch key {
	case argStage, argPPRank:
		part = "stage " + value
	case argExperts:
		part = "expert group " + value
	}
	if s.Role == "" {
		s.Role = part
		return
	}
	parts := append(strings.Split(s.Role, ", "), part)
	slices.Sort(parts)
	s.Role = strings.Join(slices.Compact(parts), ", ")
}

// arguments are the attributes of a record.
type arguments []dftracer.Arg

// UnmarshalJSON implements json.Unmarshaler.
func (a *arguments) UnmarshalJSON(text []byte) error {
	if all, ok := tracefile.AppendObject(nil, text); ok {
		*a = all
	} else if string(text) != "null" {
		return errAttributes
	}
	return nil
}

var errAttributes = errors.New("attributes are not an object")

// get returns the last attribute with that name, or an empty text.
func (a arguments) get(key string) dftracer.Arg {
	for i := len(a) - 1; i >= 0; i-- {
		if a[i].Key == key {
			return a[i]
		}
	}
	return dftracer.String(key, "")
}
