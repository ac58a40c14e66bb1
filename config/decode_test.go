package config_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/testkit/growth"
)

func TestDecodeGoValues(t *testing.T) {
	n := 0
	b, unknown, err := config.Decode[config.Base](map[string]any{
		"application_name":  "app",
		"session_tag_or_fn": func() any { return "s" },
		"world_size_or_fn":  func() any { n++; return n },
		"is_baseline_run":   func() any { return true },
		"custom_metadata":   config.Pairs("z", 1, "a", []string{"x"}, "l", []any{map[string]any{"k": true}}),
		"error_strategy":    "disable_quietly_and_report_metric_error",
		"telemetry_config": map[string]any{
			"perf_tag_or_fn":          func() any { return []any{"a", "b"} },
			"global_batch_size_or_fn": func() any { return json.Number("64") },
			"micro_batch_size":        2.0,
			"seq_length":              int64(9),
			"flops_per_sample":        uint32(7),
			"train_samples_target":    " +1_000 ",
			"is_log_throughput_enabled": func() any {
				return "yes"
			},
		},
	}, "config")
	if err != nil || len(unknown) > 0 {
		t.Fatalf("unknown keys %v, %v; want none", unknown, err)
	}
	if err := b.Validate(); err != nil {
		t.Fatal(err)
	}
	tr := b.Training
	before := n
	for name, ok := range map[string]bool{
		"name":            b.ApplicationName == "app",
		"session":         b.SessionTag.Get() == "s" && b.SessionTag.IsFunc(),
		"called per read": b.WorldSize.Get() == before+1 && b.WorldSize.Get() == before+2,
		"baseline":        b.IsBaselineRun.Get(),
		"metadata":        slices.Equal(b.CustomMetadata.Strings(), []string{"z:1", "a:['x']", "l:[{'k': True}]"}),
		"strategy":        b.ErrorStrategy == config.DisableQuietly,
		"tags":            tags(*tr) == "[a b] true",
		"batch":           tr.GlobalBatchSize.Get() == 64,
		"micro":           tr.MicroBatchSize.Get() == 2,
		"seq":             tr.SeqLength.Get() == 9,
		"flops":           tr.FlopsPerSample.Get() == 7,
		"samples":         tr.TrainSamplesTarget.Get() == 1000,
		"throughput":      tr.IsLogThroughputEnabled.Get(),
	} {
		if !ok {
			t.Errorf("field %s is not decoded as given", name)
		}
	}
}

func TestDecodeTags(t *testing.T) {
	for _, c := range []struct {
		name string
		src  any
		want string
	}{
		{"text", `perf_tag: x`, "[x] false"},
		{"list of one", `perf_tag: [x]`, "[x] true"},
		{"list", `perf_tags: [x, y]`, "[x y] true"},
		{"function of text", map[string]any{"perf_tag": func() any { return "f" }}, "[f] false"},
		{"function of list", map[string]any{"perf_tag": func() any { return []any{"f"} }}, "[f] true"},
		{"function of a Go list", map[string]any{"perf_tag": func() any { return []string{"f"} }}, "[f] true"},
		{"Go list", map[string]any{"perf_tags": []string{"g"}}, "[g] true"},
	} {
		tr, _, err := config.Decode[config.Training](bytesOf(c.src), "config")
		if err != nil || tags(tr) != c.want {
			t.Errorf("%s: %s, %v; want %s", c.name, tags(tr), err, c.want)
		}
	}
}

func TestDecodeIntegers(t *testing.T) {
	for _, c := range []struct {
		value any
		want  int
		fault string
	}{
		{"512", 512, ""},
		{4.0, 4, ""},
		{"4.0", 4, ""},
		{"-3", -3, ""},
		{int64(math.MaxInt64), math.MaxInt64, ""},
		{"9223372036854775807", math.MaxInt64, ""},
		{1e18, 1e18, ""},
		{"abc", 0, "must be an integer"},
		{"", 0, "must be an integer"},
		{"1__0", 0, "must be an integer"},
		{"0x10", 0, "must be an integer"},
		{4.5, 0, "without a fraction"},
		{math.NaN(), 0, "finite"},
		{math.Inf(1), 0, "finite"},
		{1e300, 0, "does not fit"},
		{uint64(math.MaxUint64), 0, "does not fit"},
		{true, 0, "must be an integer"},
		{[]int{1}, 0, "must be an integer"},
		{strings.Repeat("9", 5000), 0, "does not fit"},
		{func(int) int { return 1 }, 0, "(got a function)"},
	} {
		b, _, err := config.Decode[config.Base](map[string]any{"world_size": c.value}, "config")
		switch {
		case c.fault == "" && (err != nil || b.WorldSize.Get() != c.want):
			t.Errorf("%v: %d, %v; want %d", c.value, b.WorldSize.Get(), err, c.want)
		case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault) || b.WorldSize.IsSet()):
			t.Errorf("%.40v: %v, want %q", c.value, err, c.fault)
		case len(b.WorldSize.String()) > 300:
			t.Errorf("the message is too long")
		}
	}
}

func TestUnknownKeys(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"world_sise: 1", `job:1:1: world_sise: unknown key "world_sise"; did you mean "world_size"?`},
		{"session_tag_or_fm: 1", `did you mean "session_tag"?`},
		{"training: {batch_size: 1}", `job:1:12: training.batch_size: unknown key "batch_size"; did you mean "training.global_batch_size" or "training.micro_batch_size"?`},
		{"training: {batchsize: 1}", `job:1:12: training.batchsize: unknown key "batchsize"; did you mean "training.global_batch_size" or "training.micro_batch_size"?`},
		{"global_batch_size: 1", `"global_batch_size" is not valid here; use "training.global_batch_size"`},
		{"perf_tag_or_fn: x", `use "training.perf_tag"`},
		{"training: {world_size_or_fn: 8}", `job:1:12: training.world_size_or_fn: "world_size_or_fn" is not valid here; use "world_size"`},
		{"logger: {span_names: [x]}", `use "export.span_names"`},
		{`{"logger_config": {"log_levl": 1}}`, `job:1:20: logger.log_levl: unknown key "log_levl"; did you mean "logger.level"?`},
		{"outputs: {trase: {}}", `did you mean "outputs.trace"?`},
		{"enabled: true", `use "outputs.file.enabled" or "outputs.trace.enabled" or "outputs.otlp.enabled"`},
		{"sessionTag: x", `did you mean "session_tag"?`},
		{"api_key: x", `unknown key "api_key"; trainspan help configuration lists all keys`},
		{"rank: 1", `unknown key "rank"`},
	} {
		cfg, unknown, err := config.Decode[config.Config](bytesOf(c.src), "job")
		if err != nil || len(unknown) != 1 || !strings.Contains(unknown[0].String(), c.want) {
			t.Errorf("%s: %v, %v; want %s", c.src, unknown, err, c.want)
		}
		if before := fmt.Sprint(flatten(&config.Config{})); cfg.Training == nil && fmt.Sprint(flatten(&cfg)) != before {
			t.Errorf("%s: an unknown key changed the configuration to %v", c.src, flatten(&cfg))
		}
	}
}

func TestUnreadableDocuments(t *testing.T) {
	deep := strings.Repeat("[", 5000)
	for name, c := range map[string]struct{ src, want string }{
		"two documents":   {"world_size: 1\n---\nworld_size: 2", "more than one document"},
		"two JSON values": {`{"world_size": 1} {}`, ""},
		"broken JSON":     {"{\n\"world_size\": 1,\n}}", ""},
		"duplicate":       {"world_size: 1\nworld_size: 2", "f:2:1"},
		"unknown alias":   {"world_size: *nobody", "unknown alias"},
		"not a mapping":   {"[1]", "must be a mapping"},
		"deep JSON":       {`{"custom_metadata": ` + deep, "too deep or too large"},
		"very deep":       {strings.Repeat("[", 1<<20), "too deep or too large"},
		"aliases":         {bomb(), "too deep or too large"},
	} {
		_, _, err := config.Decode[config.Base](bytesOf(c.src), "f")
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "config: ") {
			t.Errorf("%s: %v, want an error of config with %q", name, err, c.want)
		}
	}
	for _, src := range []any{"", "# only a comment", []byte(nil), nil, map[string]any(nil), "null", "\ufeffworld_size: 1"} {
		if _, _, err := config.Decode[config.Base](bytesOf(src), "config"); err != nil {
			t.Errorf("%q: %v", src, err)
		}
	}
}

// bomb returns a small document that aliases expand enormously.
func bomb() string {
	var b strings.Builder
	b.WriteString("custom_metadata:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	names := "abcdefgh"
	for i := 1; i < len(names); i++ {
		prev := "*a" + string(rune('0'+i-1))
		b.WriteString("  a" + string(rune('0'+i)) + ": &a" + string(rune('0'+i)) + " [" + strings.Repeat(prev+", ", 9) + prev + "]\n")
	}
	return b.String()
}

func TestDetectRanks(t *testing.T) {
	for _, c := range []struct {
		name        string
		env         []string
		rank, local int // -1 if unknown
		world       int
		fault       string
	}{
		{"nothing", nil, -1, -1, -1, ""},
		{"torchrun", []string{"RANK=3", "LOCAL_RANK=1", "WORLD_SIZE=8"}, 3, 1, 8, ""},
		{"torchrun under Slurm", []string{"RANK=3", "LOCAL_RANK=1", "WORLD_SIZE=8", "SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_NTASKS=2"}, 3, 1, 8, ""},
		{"Slurm", []string{"SLURM_PROCID=5", "SLURM_LOCALID=1", "SLURM_NTASKS=16"}, 5, 1, 16, ""},
		{"Open MPI", []string{"OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_SIZE=4"}, 2, 0, 4, ""},
		{"PMI", []string{"PMI_RANK=2", "PMI_SIZE=4"}, 2, -1, 4, ""},
		{"by node", []string{"NODE_RANK=2", "LOCAL_RANK=3", "LOCAL_WORLD_SIZE=4"}, 11, 3, -1, ""},
		{"by group", []string{"GROUP_RANK=1", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=4"}, 4, 0, -1, ""},
		{"local rank alone", []string{"LOCAL_RANK=3"}, -1, 3, -1, ""},
		{"empty counts as unset", []string{"RANK=", "SLURM_PROCID=1"}, 1, -1, -1, ""},
		{"Flux", []string{"FLUX_TASK_RANK=2", "FLUX_TASK_LOCAL_ID=0", "FLUX_JOB_SIZE=4"}, 2, 0, 4, ""},
		{"Kubernetes", []string{"JOB_COMPLETION_INDEX=2"}, 2, -1, -1, ""},
		{"torchrun under Kubernetes", []string{"RANK=9", "JOB_COMPLETION_INDEX=2"}, 9, -1, -1, ""},
		{"torchrun below Slurm, one task a node", []string{"TORCHELASTIC_RUN_ID=x", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4", "GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_NTASKS=2"}, 5, 1, 8, ""},
		{"torchrun below Slurm, no rank of the group", []string{"LOCAL_RANK=2", "LOCAL_WORLD_SIZE=4", "SLURM_NODEID=1", "SLURM_PROCID=1", "SLURM_LOCALID=0", "SLURM_NTASKS=2"}, 6, 2, -1, ""},
		{"torchrun below a Kubernetes indexed job", []string{"LOCAL_RANK=3", "LOCAL_WORLD_SIZE=4", "JOB_COMPLETION_INDEX=2"}, 11, 3, -1, ""},
		{"torchrun below MPI", []string{"TORCHELASTIC_RUN_ID=x", "LOCAL_RANK=0", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"}, -1, 0, -1, ""},
		{"a launcher of its own below Slurm", []string{"LOCAL_RANK=1", "SLURM_PROCID=1", "SLURM_LOCALID=0", "SLURM_NTASKS=2"}, -1, 1, -1, ""},
		{"a launcher of its own in a pod", []string{"LOCAL_RANK=0", "JOB_COMPLETION_INDEX=1"}, -1, 0, -1, ""},
		{"Slurm's local rank under its other name", []string{"LOCAL_RANK=1", "SLURM_PROCID=5", "SLURM_LOCALID=1", "SLURM_NTASKS=8"}, 5, 1, 8, ""},
		{"mpirun in an allocation", []string{"OMPI_COMM_WORLD_RANK=9", "OMPI_COMM_WORLD_SIZE=16", "SLURM_PROCID=1", "SLURM_NTASKS=2"}, 9, -1, 16, ""},
		{"our own world size", []string{"TRAINSPAN_WORLD_SIZE=32", "WORLD_SIZE=8"}, -1, -1, 32, ""},
		{"a bad number of a node", []string{"LOCAL_RANK=3", "LOCAL_WORLD_SIZE=0", "GROUP_RANK=1"}, -1, 3, -1, "local_world_size: must be set to a positive value"},
		{"no overflow", []string{"NODE_RANK=9223372036854775807", "LOCAL_RANK=3", "LOCAL_WORLD_SIZE=4"}, -1, 3, -1, ""},
		{"word", []string{"RANK=first"}, -1, -1, -1, `RANK: rank: must be an integer (got "first")`},
		{"negative", []string{"LOCAL_RANK=-1"}, -1, -1, -1, "local_rank: must not be negative"},
		{"no world", []string{"WORLD_SIZE=0"}, -1, -1, -1, "world_size: must be set to a positive value"},
	} {
		r, err := config.DetectRanks(config.Environ(c.env))
		if r.Rank.Or(-1) != c.rank || r.LocalRank.Or(-1) != c.local || r.WorldSize.Or(-1) != c.world {
			t.Errorf("%s: ranks %+v, want %d, local %d of %d (-1: unset)", c.name, r, c.rank, c.local, c.world)
		}
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v, want an error with %q (empty: none)", c.name, err, c.fault)
		}
	}
	if r, err := config.DetectRanks(nil); r.Rank.IsSet() || err != nil {
		t.Errorf("DetectRanks(nil) = %+v, %v; want no rank", r, err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{"a: 1", `{"a": [1, {"b": null}]}`, "x: &a [1]\ny: *a\n<<: *a", "a: !!str 1\nb: |\n  x", "training: {perf_tag: [a, 1]}", "? [a]\n: 1", "{", "a: *a", "- - -"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var cfg config.Config
		var err error
		// The parser keeps a token of a few hundred bytes per word.
		growth.Work(t, len(data), 8<<10, func() { cfg, _, err = config.Decode[config.Config](data, "f") })
		if err != nil {
			if !strings.HasPrefix(err.Error(), "config: ") {
				t.Errorf(`error %v, want one that starts with "config: "`, err)
			}
			return
		}
		c := config.Clone(&cfg)
		if a, b := flatten(&cfg), flatten(&c); len(a) != len(b) {
			t.Errorf("%d fields, %d in the clone; want the same", len(a), len(b))
		}
		_ = cfg.Validate()
		cfg.CustomMetadata.Strings()
	})
}

// bytesOf converts a text to a document.
func bytesOf(src any) any {
	if s, ok := src.(string); ok {
		return []byte(s)
	}
	return src
}
