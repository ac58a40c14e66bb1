package telemetry_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/spans"
)

// deviation is one difference between a replay and the recording: a step's
// result (outcome and result are set), a record that only one side has (golden
// or actual is set, field is "record"), or a field of a record.
type deviation struct {
	step    int
	outcome *outcome
	result  *result
	golden  *record
	actual  *record
	field   string
	want    string
	got     string
}

func (d deviation) String() string {
	switch {
	case d.outcome != nil:
		return fmt.Sprintf("step %d %s: %s is %s, want %s", d.step, d.outcome.Call, d.field, d.got, d.want)
	case d.golden == nil && d.actual != nil:
		return "a record that the reference does not write: " + d.got
	case d.actual == nil && d.golden != nil:
		return "a record is missing: " + d.want
	case d.golden != nil:
		return fmt.Sprintf("%s is %s, want %s in\n%s\nwant\n%s", d.field, d.got, d.want, d.actual.text, d.golden.text)
	}
	return fmt.Sprintf("%s is %s, want %s", d.field, d.got, d.want)
}

// facts are properties of a scenario that the rules need: whether it meets the
// fault of one-logger that a difference repairs.
type facts struct {
	saveStarts    map[string]string // explicit start of a save -> now, both in ms
	failed        int               // iterations that raised
	loops         int               // training loops started
	orphans       int               // successes of saves that are unknown or were already reported
	lateSuccess   bool              // a success for an older step than an earlier one
	clockBack     bool              // an end before its start
	quiet         bool              // telemetry switched itself off
	forced        bool              // telemetry was disabled by ForceDisable
	exportAll     bool              // every span should be exported
	metricsOff    bool              // saving with checkpoint metrics disabled
	plainNames    map[string]bool   // span names that were given as plain text and refused
	emptyMessage  bool              // an exception without a message
	listRefused   bool              // an attribute value was refused
	closedAt      int               // the step that ended recording, or -1
	iterationOpen bool              // an iteration's end that failed and left it open
	unconfigured  bool
	untargeted    bool // a loop was refused because it had no targets
}

func factsOf(s *scenario, r *recording) facts {
	f := facts{saveStarts: map[string]string{}, plainNames: map[string]bool{}, closedAt: -1, unconfigured: s.Provider == nil}
	offset := len(r.Steps) - len(s.Steps)
	started := map[int]int{}
	last := -1
	for i := range s.Steps {
		st, out := &s.Steps[i], &r.Steps[offset+i]
		raised := out.Outcome == "raised"
		switch st.Call {
		case "on_save_checkpoint_start":
			if t := st.time("start_time_msec"); !t.IsZero() {
				f.saveStarts[fmt.Sprint(t.UnixMilli())] = fmt.Sprint(st.Now.UnixMilli())
			}
			started[st.int("global_step")]++
		case "on_save_checkpoint_success":
			step := st.int("global_step")
			if started[step] == 0 {
				f.orphans++
			}
			started[step] = 0
			f.lateSuccess = f.lateSuccess || step < last
			last = max(last, step)
		case "on_train_start":
			if !raised {
				f.loops++
			}
		case "ctx.enter":
			if st.text("context") == "training_loop" && !raised {
				f.loops++
			}
		case "ctx.exit":
			if st.has("exception") && s.contextOf(i) == "training_iteration" {
				f.failed++
			}
		case "on_app_end", "recorder.close":
			if !raised && f.closedAt < 0 {
				f.closedAt = offset + i
			}
		case "provider.force_disable_logging":
			f.forced = true
		}
		if e := st.object("exception"); e != nil {
			if m, _ := e.Get("message"); m == nil || m == "" {
				f.emptyMessage = true
			}
		}
		f.untargeted = f.untargeted || raised && strings.Contains(out.ErrorMessage, "_target is required")
		f.clockBack = f.clockBack || strings.Contains(out.ErrorMessage, "before the start time")
		f.listRefused = f.listRefused || raised && strings.Contains(out.ErrorMessage, "list attribute")
		f.iterationOpen = f.iterationOpen || raised && st.Call == "on_training_single_iteration_end"
		if raised && out.ErrorType == "TypeError" && st.has("name") {
			f.plainNames[st.text("name")] = true
		}
		if kw := st.object("kwargs"); raised && out.ErrorType == "TypeError" && kw != nil {
			f.plainNames[(&step{Args: kw}).text("name")] = true
		}
	}
	if s.Provider != nil {
		base := shown(s.Provider.Base) + shown(s.Provider.Overrides)
		f.quiet = strings.Contains(base, "disable_quietly")
		f.metricsOff = strings.Contains(base, "is_save_checkpoint_enabled_or_fn:false")
		f.exportAll = strings.Contains(fmt.Sprint(s.Provider.Customization), "EXPORT_ALL_SPANS")
	}
	for i := range s.Steps {
		f.exportAll = f.exportAll || s.Steps[i].text("mode") == "EXPORT_ALL_SPANS"
	}
	return f
}

// shown returns a configuration as text, with its functions evaluated.
func shown(v any) string {
	switch v := v.(type) {
	case object:
		text := ""
		for _, e := range v {
			text += e.Key + ":" + shown(e.Value) + " "
		}
		return text
	case []any:
		text := ""
		for _, item := range v {
			text += shown(item) + " "
		}
		return text
	case func() any:
		return shown(v())
	}
	return fmt.Sprint(v)
}

// contextOf returns the kind of the context manager that a ctx.exit leaves.
func (s *scenario) contextOf(exit int) string {
	for i := exit - 1; i >= 0; i-- {
		if s.Steps[i].Call == "ctx.enter" && s.Steps[i].text("cm") == s.Steps[exit].text("cm") {
			return s.Steps[i].text("context")
		}
	}
	return ""
}

// rule is one difference from one-logger.
type rule struct {
	name    string
	applies func(f *facts, d *deviation) bool
}

// eventField returns the name of the event attribute that deviates.
func (d *deviation) eventField() string {
	name, ok := strings.CutPrefix(d.field, "event.attributes.")
	if !ok {
		return ""
	}
	return name
}

// numbers returns both values of a field, if they are numbers.
func (d *deviation) numbers() (want, got float64, ok bool) {
	want, err1 := strconv.ParseFloat(d.want, 64)
	got, err2 := strconv.ParseFloat(d.got, 64)
	return want, got, err1 == nil && err2 == nil
}

// less reports whether a counter is lower than recorded by at most n.
func (d *deviation) less(n float64) bool {
	want, got, ok := d.numbers()
	return ok && got < want && got >= want-n
}

func isSave(r *record) bool {
	return r != nil && (r.span == spans.CheckpointSaveSync || r.span == spans.CheckpointSaveAsync)
}

func isEvent(r *record, names ...string) bool { return r != nil && slices.Contains(names, r.event) }

// Attributes that are computed from the iterations of a loop.
var (
	iterationTimes = []string{
		"avg_iteration_time_sec", "min_iteration_time_sec", "max_iteration_time_sec", "total_iteration_time_sec",
		"train_throughput_per_gpu", "train_throughput_per_gpu_max", "train_throughput_per_gpu_min",
		"first_logged_train_iterations_finish_timestamp_sec", "last_logged_train_iterations_finish_timestamp_sec",
		"productive_train_iterations_sec", "timestamp_msec",
	}
	iterationCounts = []string{
		"current_iteration", "num_iterations", "num_train_samples", "train_tokens", "interval", "total_flops",
		"completed_floating_point_operations_overall", "productive_train_iterations", "productive_train_samples",
		"productive_train_tflops",
	}
)

// fewer reports whether an attribute computed from iterations shows fewer of
// them.
func (d *deviation) fewer() bool {
	name := d.eventField()
	if slices.Contains(iterationCounts, name) {
		want, got, ok := d.numbers()
		return ok && got < want
	}
	_, _, ok := d.numbers()
	return ok && slices.Contains(iterationTimes, name)
}

var rules = []rule{
	{"a checkpoint span uses its explicit start time", func(f *facts, d *deviation) bool {
		if !isSave(d.golden) || !isSave(d.actual) {
			return false
		}
		switch d.field {
		case "start_event.attributes.timestamp_msec":
			return f.saveStarts[d.got] == d.want
		case "attributes.duration_msec":
			want, got, ok := d.numbers()
			for start, now := range f.saveStarts {
				s, _ := strconv.ParseFloat(start, 64)
				n, _ := strconv.ParseFloat(now, 64)
				if more := got - want - (n - s); ok && (more == 0 || more == 1) {
					return true
				}
			}
		}
		return false
	}},
	{"times are integer nanoseconds: no lost millisecond", func(f *facts, d *deviation) bool {
		want, got, ok := d.numbers()
		if !ok || d.golden == nil {
			return false
		}
		if d.field == "attributes.duration_msec" {
			return got == want+1
		}
		// one-logger's seconds have the rounding errors of doubles near 1.8e9.
		name := d.eventField()
		return (strings.HasSuffix(name, "_sec") || strings.Contains(name, "throughput")) &&
			math.Abs(want-got) <= 1e-6*max(1, math.Abs(want))
	}},
	{"a failed iteration is not counted", func(f *facts, d *deviation) bool {
		if f.failed == 0 {
			return false
		}
		if d.field == "event.attributes.num_iterations" || d.eventField() == "current_iteration" {
			return d.less(float64(f.failed))
		}
		if d.field == "record" && (isEvent(d.golden, spans.EventTrainingMetricsUpdate) || isEvent(d.actual, spans.EventTrainingMetricsUpdate)) {
			return true
		}
		if d.outcome != nil && d.field == "lines in the file" {
			return strings.HasPrefix(d.outcome.Call, "ctx.") || strings.Contains(d.outcome.Call, "iteration")
		}
		return d.golden != nil && d.actual != nil && d.fewer()
	}},
	{"a late success never lowers the productive numbers", func(f *facts, d *deviation) bool {
		want, got, ok := d.numbers()
		return f.lateSuccess && isEvent(d.golden, spans.EventSaveCheckpointSuccess) &&
			strings.HasPrefix(d.eventField(), "productive_") && ok && got > want
	}},
	{"the success of an unknown or repeated step is a telemetry data error", func(f *facts, d *deviation) bool {
		if f.orphans == 0 {
			return false
		}
		switch {
		case d.field == "record" && d.golden != nil:
			return isEvent(d.golden, spans.EventSaveCheckpointSuccess) && d.golden.get("event.attributes.productive_train_iterations") == "0"
		case d.field == "record":
			return d.actual.kind == "telemetry_data_error"
		case d.field == "lines in the file":
			return d.outcome.Call == "on_save_checkpoint_success"
		case isEvent(d.golden, spans.EventSaveCheckpointSuccess):
			switch d.eventField() {
			case "save_checkpoint_success_count":
				return d.less(float64(f.orphans))
			case "first_successful_save_checkpoint_timestamp_sec":
				return true
			}
		}
		return strings.HasPrefix(d.field, "exporter state telemetry_data_error")
	}},
	{"a second training loop starts its windows afresh", func(f *facts, d *deviation) bool {
		return f.loops > 1 && d.golden != nil && d.actual != nil && d.fewer()
	}},
	{"a clock that steps back wedges nothing", func(f *facts, d *deviation) bool {
		// one-logger allows negative durations for spans without a timer.
		if d.golden != nil && d.actual != nil && strings.HasPrefix(d.golden.get("attributes.duration_msec"), "-") {
			start := d.actual.get("start_event.attributes.timestamp_msec")
			return d.field == "attributes.duration_msec" && d.got == "0" ||
				d.field == "stop_event.attributes.timestamp_msec" && (start == "" || d.got == start)
		}
		if !f.clockBack {
			return false
		}
		switch {
		case d.outcome != nil:
			return d.outcome.Outcome == "raised" || d.field == "lines in the file" || d.field == "returned span"
		case d.field == "record" && d.golden != nil:
			return d.golden.kind == "telemetry_data_error" || d.golden.kind == "application_error"
		case d.field == "record":
			return d.actual.kind != "telemetry_data_error"
		case d.golden != nil:
			return slices.Contains(iterationTimes, d.eventField()) || slices.Contains(iterationCounts, d.eventField()) ||
				d.field == "error.attributes.timestamp_msec" || d.field == "attributes.duration_msec" ||
				strings.HasSuffix(d.field, "timestamp_msec")
		}
		return strings.HasPrefix(d.field, "exporter state")
	}},
	{"callbacks after the end are silent", func(f *facts, d *deviation) bool {
		return d.outcome != nil && f.closedAt >= 0 && d.step > f.closedAt && d.outcome.Outcome == "raised" && d.result.err == nil
	}},
	{"telemetry that switches itself off writes what is open", func(f *facts, d *deviation) bool {
		if !f.quiet && !f.forced {
			return false
		}
		if d.field == "record" && d.golden == nil {
			return d.actual.kind == "start" || d.actual.kind == "stop" || d.actual.kind == "complete" ||
				d.actual.kind == "application_error"
		}
		return d.field == "lines in the file"
	}},
	{"exporting all spans works", func(f *facts, d *deviation) bool {
		return f.exportAll && (d.outcome != nil || d.field == "record" || d.golden == nil)
	}},
	{"saving with checkpoint metrics disabled works", func(f *facts, d *deviation) bool {
		if !f.metricsOff {
			return false
		}
		switch {
		case d.outcome != nil:
			return strings.Contains(d.outcome.Call, "checkpoint") || d.field == "lines in the file"
		case d.field == "record" && d.golden != nil:
			return d.golden.kind == "telemetry_data_error" || isSave(d.golden)
		case d.field == "record":
			return isSave(d.actual)
		case d.golden != nil:
			return isSave(d.golden)
		}
		return strings.HasPrefix(d.field, "exporter state telemetry_data_error")
	}},
	{"any string is a span name", func(f *facts, d *deviation) bool {
		if len(f.plainNames) == 0 {
			return false
		}
		if d.outcome != nil {
			return d.outcome.Outcome == "raised" || d.field == "lines in the file" || d.field == "returned span"
		}
		return d.field == "record" && (d.actual != nil && f.plainNames[d.actual.span] || d.golden != nil && d.golden.kind == "start") ||
			d.field == "record" && d.golden == nil && d.actual.kind == "start"
	}},
	{"an exception without a message is recorded", func(f *facts, d *deviation) bool {
		if !f.emptyMessage {
			return false
		}
		if d.outcome != nil {
			return d.outcome.Outcome == "raised" || d.field == "lines in the file"
		}
		if d.field == "record" {
			r := d.golden
			if r == nil {
				r = d.actual
			}
			return r.kind == "application_error" || r.kind == "telemetry_data_error" || r.kind == "start" ||
				r.kind == "complete" || r.kind == "stop"
		}
		return strings.HasPrefix(d.field, "exporter state telemetry_data_error") || strings.HasSuffix(d.field, "exception_message")
	}},
	{"no attribute value is refused", func(f *facts, d *deviation) bool {
		return f.listRefused && (d.outcome != nil || d.field == "record" || strings.HasPrefix(d.field, "attributes.") || strings.HasPrefix(d.field, "event.attributes."))
	}},
	{"an output that works again counts as working", func(f *facts, d *deviation) bool {
		switch d.field {
		case "exporter state force_disabled":
			return d.want == "true" && d.got == "false"
		case "exporter state num_errors":
			want, got, ok := d.numbers()
			return ok && want == 5 && got > 5
		}
		return false
	}},
	{"a loop without targets runs", func(f *facts, d *deviation) bool {
		if !f.untargeted {
			return false
		}
		if d.outcome != nil {
			return d.outcome.Outcome == "raised" || d.field == "lines in the file" || d.field == "returned span"
		}
		if d.field == "record" && d.golden != nil {
			return d.golden.kind == "telemetry_data_error" || d.golden.kind == "start"
		}
		return d.field == "record" || strings.HasPrefix(d.field, "exporter state telemetry_data_error")
	}},
	{"an iteration that cannot be counted is still ended", func(f *facts, d *deviation) bool {
		if !f.iterationOpen {
			return false
		}
		switch {
		case d.outcome != nil:
			return strings.Contains(d.outcome.Call, "iteration") || d.field == "lines in the file"
		case d.field == "record":
			r := d.golden
			if r == nil {
				r = d.actual
			}
			return r.span == spans.TrainingIteration
		case d.golden != nil: // there a later call ends the span that was left open
			return d.golden.span == spans.TrainingIteration &&
				(d.field == "attributes.duration_msec" || strings.HasSuffix(d.field, "timestamp_msec") || d.field == "id")
		}
		return false
	}},
	{"without a provider everything is a no-op", func(f *facts, d *deviation) bool {
		return f.unconfigured && d.outcome != nil && d.field == "outcome" && d.outcome.Outcome == "raised" && d.outcome.Call == "ctx.exit"
	}},
	{"the wording of our messages", func(f *facts, d *deviation) bool {
		return d.golden != nil && d.actual != nil && d.golden.kind == "telemetry_data_error" && d.field == "error.attributes.error_message"
	}},
}
