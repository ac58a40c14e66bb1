package onelogger_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"go.opentelemetry.io/otel/attribute"
)

// field is an expected attribute: its key, its text, and whether it is an
// extension that one-logger never writes.
type field struct {
	key, text string
	extension bool
}

func fields(lines string) []field {
	var out []field
	for _, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		key, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		ours := strings.HasPrefix(key, "+")
		out = append(out, field{strings.TrimPrefix(key, "+"), text, ours})
	}
	return out
}

func TestSets(t *testing.T) {
	some := attributes.Some[int64]
	real := attributes.Some[float64]
	huge := attrvalue.Product(7046430720000000000, 1000)
	for _, c := range []struct {
		name string
		set  interface {
			Append([]attributes.Attr) []attributes.Attr
		}
		want string // one attribute per line; + marks an extension
	}{
		{"TrainingLoop, required", onelogger.TrainingLoop{}, `
			train_iterations_start 0`},
		{"TrainingLoop, all", onelogger.TrainingLoop{
			TrainIterationsStart: 1, TrainSamplesStart: some(2), TrainTokensTarget: some(3),
			CompletedFLOPsOverall: attributes.Some(huge), TrainIterationsTarget: some(5), TrainSamplesTarget: some(6),
		}, `
			train_iterations_start 1
			train_samples_start 2
			train_tokens_target 3
			completed_floating_point_operations_overall 7.04643072e+21
			train_iterations_target 5
			train_samples_target 6`},
		{"CheckpointSave", onelogger.CheckpointSave{Strategy: onelogger.CheckpointAsync, CurrentIteration: 7, AttemptCount: 2}, `
			checkpoint_strategy async
			current_iteration 7
			save_checkpoint_attempt_count 2`},
		{"Initialization, required", onelogger.Initialization{}, `
			world_size 0
			one_logger_training_telemetry_version 
			enable_for_current_rank false
			session_tag 
			is_baseline_run false
			summary_data_schema_version 
			node_name 
			rank 0`},
		{"Initialization, all", onelogger.Initialization{
			WorldSize: 8, TelemetryVersion: "2.3.1", EnableForCurrentRank: true, SessionTag: "tag", IsBaselineRun: true,
			SummaryDataSchemaVersion: "1.0.0", NodeName: "host", Rank: 3, CustomMetadata: []string{"team:fm", "lr:0.0003"},
		}, `
			world_size 8
			one_logger_training_telemetry_version 2.3.1
			enable_for_current_rank true
			session_tag tag
			is_baseline_run true
			summary_data_schema_version 1.0.0
			node_name host
			rank 3
			custom_metadata ["team:fm","lr:0.0003"]`},
		{"Initialization, empty metadata", onelogger.Initialization{CustomMetadata: []string{}}, `
			world_size 0
			one_logger_training_telemetry_version 
			enable_for_current_rank false
			session_tag 
			is_baseline_run false
			summary_data_schema_version 
			node_name 
			rank 0
			custom_metadata []`},
		{"TrainingTelemetry, required", onelogger.TrainingTelemetry{PerfTag: "p"}, `
			perf_tag p
			log_every_n_train_iterations 0
			checkpoint_strategy 
			is_train_iterations_enabled false
			is_validation_iterations_enabled false
			is_test_iterations_enabled false
			is_save_checkpoint_enabled false
			is_log_throughput_enabled false`},
		{"TrainingTelemetry, all", onelogger.TrainingTelemetry{
			PerfTag: "not written", PerfTags: []string{"a", "b"}, GlobalBatchSize: some(1), LogEveryNTrainIterations: 2,
			MicroBatchSize: some(3), SeqLength: some(4), FlopsPerSample: some(5), TrainIterationsTarget: some(6),
			TrainSamplesTarget: some(7), CheckpointStrategy: "sync", IsTrainIterationsEnabled: true,
			IsValidationIterationsEnabled: true, IsTestIterationsEnabled: true, IsSaveCheckpointEnabled: true,
			IsLogThroughputEnabled: true, CustomMetadata: []string{"k:v"},
		}, `
			perf_tag ["a","b"]
			global_batch_size 1
			log_every_n_train_iterations 2
			micro_batch_size 3
			seq_length 4
			flops_per_sample 5
			train_iterations_target 6
			train_samples_target 7
			checkpoint_strategy sync
			is_train_iterations_enabled true
			is_validation_iterations_enabled true
			is_test_iterations_enabled true
			is_save_checkpoint_enabled true
			is_log_throughput_enabled true
			custom_metadata ["k:v"]`},
		{"TrainingMetricsUpdate, required", onelogger.TrainingMetricsUpdate{}, `
			train_iterations_start 0
			current_iteration 0
			num_iterations 0
			interval 0
			avg_iteration_time_sec 0
			min_iteration_time_sec 0
			max_iteration_time_sec 0
			total_iteration_time_sec 0
			total_flops 0
			first_logged_train_iterations_finish_timestamp_sec 0
			last_logged_train_iterations_finish_timestamp_sec 0`},
		{"TrainingMetricsUpdate, all", fullMetrics(), `
			train_iterations_start 1
			current_iteration 2
			num_iterations 3
			train_samples_start 4
			num_train_samples 5
			interval 6
			avg_iteration_time_sec 7.5
			min_iteration_time_sec 8.5
			max_iteration_time_sec 9.5
			total_iteration_time_sec 10.5
			+avg_forward_time_sec 11.5
			+avg_backward_time_sec 12.5
			+avg_dataloader_time_sec 13.5
			+avg_tflops 14.5
			train_tokens 15
			+avg_tokens_per_second 16.5
			+latest_loss 17.5
			+avg_batch_size 18.5
			completed_floating_point_operations_overall 19
			total_flops 20
			train_throughput_per_gpu 21.5
			train_throughput_per_gpu_max 22.5
			train_throughput_per_gpu_min 23.5
			first_logged_train_iterations_finish_timestamp_sec 24.5
			last_logged_train_iterations_finish_timestamp_sec 25.5
			+train_iteration_throughput_per_gpu_last 26.5
			+train_iteration_throughput_per_gpu_min 27.5
			+train_iteration_throughput_per_gpu_max 28.5
			+is_partial_interval true
			+failed_iterations 29`},
		{"ValidationMetricsUpdate, required", onelogger.ValidationMetricsUpdate{CurrentIteration: 4, Interval: 5}, `
			current_iteration 4
			interval 5`},
		{"ValidationMetricsUpdate, all", onelogger.ValidationMetricsUpdate{
			AvgIterationTimeSec: real(1.5), MinIterationTimeSec: real(0.5), MaxIterationTimeSec: real(2.5), TotalIterationTimeSec: real(0),
		}, `
			current_iteration 0
			interval 0
			avg_iteration_time_sec 1.5
			min_iteration_time_sec 0.5
			max_iteration_time_sec 2.5
			total_iteration_time_sec 0`},
		{"TestingMetricsUpdate", onelogger.TestingMetricsUpdate{CurrentIteration: 4, Interval: 5}, `
			current_iteration 4
			interval 5`},
		{"SaveCheckpointSuccess, required", onelogger.SaveCheckpointSuccess{Strategy: "sync"}, `
			checkpoint_strategy sync
			current_iteration 0
			first_successful_save_checkpoint_timestamp_sec 0
			latest_successful_save_checkpoint_timestamp_sec 0
			save_checkpoint_success_count 0
			productive_train_iterations 0
			productive_train_iterations_sec 0
			productive_validation_iterations_sec 0`},
		{"SaveCheckpointSuccess, all", onelogger.SaveCheckpointSuccess{
			Strategy: "async", CurrentIteration: 1, FirstSuccessSec: 2.5, LatestSuccessSec: 3.5, SuccessCount: 4,
			ProductiveTrainIterations: 5, ProductiveTrainSamples: some(6), ProductiveTrainIterationsSec: 7.5,
			ProductiveValidationIterationsSec: 8.5, ProductiveTrainTFLOPs: real(9.5), Size: some(10), Directory: "/ckpt",
			TrainingStartSec: real(11.5),
		}, `
			checkpoint_strategy async
			current_iteration 1
			first_successful_save_checkpoint_timestamp_sec 2.5
			latest_successful_save_checkpoint_timestamp_sec 3.5
			save_checkpoint_success_count 4
			productive_train_iterations 5
			productive_train_samples 6
			productive_train_iterations_sec 7.5
			productive_validation_iterations_sec 8.5
			productive_train_tflops 9.5
			+checkpoint_size 10
			+checkpoint_directory /ckpt
			training_start_timestamp_sec 11.5`},
		{"SyncCheckpointMetricsUpdate", onelogger.SyncCheckpointMetricsUpdate{TotalSec: 3, MinSec: 1, MaxSec: 2}, `
			save_checkpoint_sync_time_total_sec 3
			save_checkpoint_sync_time_min_sec 1
			save_checkpoint_sync_time_max_sec 2`},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := []attributes.Attr{attrvalue.String("before", "kept")}
			got := c.set.Append(before)
			if got[0] != before[0] {
				t.Errorf("what was there is gone: %v, want %v", got[0], before[0])
			}
			want := fields(c.want)
			var have []field
			for _, a := range got[1:] {
				have = append(have, field{string(a.Key), a.Value.String(), a.Extension})
			}
			if !slices.Equal(have, want) {
				t.Errorf("\n got %v\nwant %v", have, want)
			}
		})
	}
}

func fullMetrics() onelogger.TrainingMetricsUpdate {
	real := attributes.Some[float64]
	return onelogger.TrainingMetricsUpdate{
		TrainIterationsStart: 1, CurrentIteration: 2, NumIterations: 3, TrainSamplesStart: attributes.Some[int64](4), NumTrainSamples: attributes.Some[int64](5), Interval: 6,
		AvgIterationTimeSec: 7.5, MinIterationTimeSec: 8.5, MaxIterationTimeSec: 9.5, TotalIterationTimeSec: 10.5,
		AvgForwardTimeSec: real(11.5), AvgBackwardTimeSec: real(12.5), AvgDataloaderTimeSec: real(13.5), AvgTFLOPS: real(14.5),
		TrainTokens: attributes.Some[int64](15), AvgTokensPerSecond: real(16.5), LatestLoss: real(17.5), AvgBatchSize: real(18.5),
		CompletedFLOPsOverall: attributes.Some(attrvalue.CountOfUint(19)), TotalFLOPs: attrvalue.CountOfUint(20),
		ThroughputPerGPU: real(21.5), ThroughputPerGPUMax: real(22.5), ThroughputPerGPUMin: real(23.5),
		FirstLoggedFinishSec: 24.5, LastLoggedFinishSec: 25.5,
		IterationThroughputLast: real(26.5), IterationThroughputMin: real(27.5), IterationThroughputMax: real(28.5),
		Partial: true, FailedIterations: 29,
	}
}

// TestKinds checks that floats stay floats and booleans stay booleans, which
// readers rely on.
func TestKinds(t *testing.T) {
	kinds := map[string]attribute.Type{}
	for _, a := range fullMetrics().Append(nil) {
		kinds[string(a.Key)] = a.Value.Type()
	}
	for key, want := range map[string]attribute.Type{
		onelogger.Interval: attribute.INT64, onelogger.AvgIterationTimeSec: attribute.FLOAT64,
		onelogger.TotalFlops: attribute.INT64, onelogger.LatestLoss: attribute.FLOAT64, onelogger.PartialInterval: attribute.BOOL,
		onelogger.LastLoggedTrainIterationsFinishTime: attribute.FLOAT64,
	} {
		if kinds[key] != want {
			t.Errorf("%s is a %v, want %v", key, kinds[key], want)
		}
	}
}

func TestOpt(t *testing.T) {
	var unset attributes.Opt[int]
	if unset.IsSet() || unset.Get() != 0 {
		t.Errorf("zero value is set to %d, want it unset", unset.Get())
	}
	if got := unset.Or(7); got != 7 {
		t.Errorf("Or of an unset value: %d, want 7", got)
	}
	zero := attributes.Some(0)
	if !zero.IsSet() || zero.Get() != 0 {
		t.Errorf("Some(0) = %v, want it set to 0", zero)
	}
	if got := zero.Or(7); got != 0 {
		t.Errorf("Or of a set value: %d, want 0", got)
	}
}

func TestFromAndExtend(t *testing.T) {
	if got := attributes.From(); got != nil {
		t.Errorf("From() = %v, want nil", got)
	}
	got := attrvalue.Extend(attributes.From(attribute.Int("a", 1), attribute.String("b", "x"))...)
	if len(got) != 2 || !got[0].Extension || !got[1].Extension || got[1].Value.AsString() != "x" {
		t.Errorf("attributes %+v, want two extensions, the second x", got)
	}
	if got := attrvalue.AppendOTel(nil, nil); got != nil {
		t.Errorf("AppendOTel(nil, nil) = %v, want nil", got)
	}
}

func TestAllocations(t *testing.T) {
	m := fullMetrics()
	room := make([]attributes.Attr, 0, 32)
	if n := testing.AllocsPerRun(100, func() { room = m.Append(room[:0]) }); n != 0 {
		t.Errorf("Append into a slice with room: %v allocations, want 0", n)
	}
	clean := append(m.Append(nil), attrvalue.String("s", "text – with a dash"), attrvalue.Bool("b", true))
	if n := testing.AllocsPerRun(100, func() { attrvalue.Clean(clean) }); n != 0 {
		t.Errorf("Clean of clean attributes: %v allocations, want 0", n)
	}
	var digits [64]byte
	c := attrvalue.Product(1<<62, 1<<62)
	if n := testing.AllocsPerRun(100, func() { c.Append(digits[:0]) }); n != 0 {
		t.Errorf("Count.Append: %v allocations, want 0", n)
	}
}
