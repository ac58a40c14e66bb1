package spans_test

import (
	"slices"
	"testing"

	"github.com/trainspan/trainspan/spans"
)

func TestTableRowsFindThemselves(t *testing.T) {
	all := spans.All()
	if len(all) != spans.Count {
		t.Fatalf("All gives %d rows, want %d as Count", len(all), spans.Count)
	}
	for i, info := range all {
		if got := spans.Index(info.Name); got != i {
			t.Errorf("Index(%q) = %d, want %d", info.Name, got, i)
		}
		if got, ok := spans.Lookup(info.Name); !ok || got != info {
			t.Errorf("Lookup(%q) = %+v, %v; want %+v", info.Name, got, ok, info)
		}
		if info.Parent != "" && spans.Index(info.Parent) < 0 {
			t.Errorf("%s has the unknown parent %q", info.Name, info.Parent)
		}
		if info.Category == "" || info.Event == "" {
			t.Errorf("%s has no DFTracer name", info.Name)
		}
	}
	if _, ok := spans.Lookup("tokenize"); ok {
		t.Error("the custom name tokenize is in the table, want it absent")
	}
}

func TestReferenceHasTwentySpans(t *testing.T) {
	reference := slices.DeleteFunc(spans.All(), func(i spans.Info) bool { return i.Extension })
	if len(reference) != 20 {
		t.Errorf("%d spans of one-logger, want 20", len(reference))
	}
}

// The pairs of category and event by which DFAnalyzer's "ai" preset and the AI
// logging tree find a layer.
func TestDFTracerNames(t *testing.T) {
	for name, want := range map[string][2]string{
		"application":                     {"ai_root", "ai_root"},
		"distributed_code_initialization": {"comm", "comm.init"},
		"checkpoint_load":                 {"checkpoint", "restart"},
		"training_loop":                   {"pipeline", "train"},
		"epoch":                           {"pipeline", "epoch.block"},
		"data_loading":                    {"dataloader", "fetch.iter"},
		"model_forward":                   {"compute", "forward"},
		"model_backward":                  {"compute", "backward"},
		"optimizer_update":                {"compute", "step"},
		"checkpoint_save_sync":            {"checkpoint", "capture"},
		"validation_loop":                 {"pipeline", "evaluate"},
		"TESTING_SINGLE_ITERATION":        {"pipeline", "test.iteration"},
	} {
		info, ok := spans.Lookup(name)
		if got := [2]string{info.Category, info.Event}; !ok || got != want {
			t.Errorf("%s maps to %v, want %v", name, got, want)
		}
	}
}

func TestIndexDoesNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { _ = spans.Index("optimizer_update") }); n != 0 {
		t.Errorf("Index allocates %v times, want 0", n)
	}
}
