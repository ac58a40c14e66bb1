package mlgoodput_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/analysis/goodput/mlgoodput"
)

type scenario struct {
	EpochMS    int64  `json:"epoch_ms"`
	Calculator string `json:"calculator"`
	Records    []struct {
		T         int64   `json:"t_ms"`
		Log       *int64  `json:"log_ms"`
		Kind      string  `json:"kind"`
		Step      int64   `json:"step"`
		Type      string  `json:"type"`
		Blocking  float64 `json:"blocking_s"`
		Duration  float64 `json:"duration_s"`
		Directory string  `json:"directory"`
	} `json:"records"`
	Queries []struct {
		Call  string  `json:"call"`
		At    int64   `json:"at_ms"`
		From  int64   `json:"from_ms"`
		To    int64   `json:"to_ms"`
		Ideal float64 `json:"ideal_step_time_s"`
		Same  bool    `json:"same_calculator"`
	} `json:"queries"`
	Answers []struct {
		OK      bool                       `json:"ok"`
		Error   string                     `json:"error_type"`
		Message string                     `json:"message"`
		Goodput float64                    `json:"goodput_pct"`
		Badput  map[string]json.RawMessage `json:"badput_pct"`
		Last    int64                      `json:"last_productive_step"`
		Seconds struct {
			Total      float64  `json:"total"`
			Productive *float64 `json:"productive"`
		} `json:"seconds"`
		Disruptions int               `json:"disruptions"`
		Ideal       *float64          `json:"ideal_step_time_s"`
		Deviation   map[int64]float64 `json:"step_deviation_s"`
		Sum         float64           `json:"sum_pct"`
	} `json:"ml_goodput"`
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(b)) }

// TestGolden compares with what the package itself answered.
func TestGolden(t *testing.T) {
	dirs := []string{"../testdata/scenarios"}
	if v := os.Getenv("TRAINSPAN_GOODPUT"); v != "" {
		dirs = filepath.SplitList(v)
	} else if shared := "../../../../shared/golden/goodput"; exists(shared) {
		dirs = append(dirs, shared)
	}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && filepath.Ext(path) == ".json" {
				t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) { replay(t, path) })
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func replay(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var s scenario
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	if s.Answers == nil {
		t.Skip("the package was not asked")
	}
	sec := func(ms int64) float64 { return float64(s.EpochMS+ms) / 1000 }
	var records []mlgoodput.Record
	for _, r := range s.Records {
		rec := mlgoodput.Record{Kind: mlgoodput.Kind(r.Kind), Time: sec(r.T), Logged: sec(r.T), Step: r.Step, Type: r.Type, Duration: r.Blocking + r.Duration, Directory: r.Directory}
		if r.Log != nil {
			rec.Logged = sec(*r.Log)
		}
		records = append(records, rec)
	}
	for i, q := range s.Queries {
		o := mlgoodput.Options{Ideal: q.Ideal, Elastic: s.Calculator == "elastic", Warm: q.Same}
		var have *mlgoodput.Answer
		var err error
		switch q.Call {
		case "cumulative":
			have, err = mlgoodput.Cumulative(records, sec(q.At), o)
		case "interval":
			have, err = mlgoodput.Window(records, sec(q.From), sec(q.To), o)
		default:
			continue // questions with exclusions are another code path there, and not computed
		}
		bad := func(format string, args ...any) { t.Errorf("question %d: %s", i+1, fmt.Sprintf(format, args...)) }
		want := s.Answers[i]
		if !want.OK {
			for words, is := range map[string]error{
				"Total job time is zero": mlgoodput.ErrNoTime, "Productive training time is invalid": mlgoodput.ErrProductive,
				"No log entries found": mlgoodput.ErrNoEntries,
			} {
				if strings.Contains(want.Message, words) != errors.Is(err, is) {
					bad("error %v, want %s", err, want.Message)
				}
			}
			continue
		}
		if err != nil {
			bad("%v", err)
			continue
		}
		if !near(have.Goodput, want.Goodput) || !near(have.Total, want.Seconds.Total) || want.Seconds.Productive != nil && !near(have.Productive, *want.Seconds.Productive) {
			bad("goodput %v of %v, want %v of %v", have.Goodput, have.Total, want.Goodput, want.Seconds.Total)
		}
		for name, raw := range want.Badput {
			var p float64
			if json.Unmarshal(raw, &p) == nil {
				if h := have.Percent(have.Badput[name]); !near(h, p) {
					bad("%s %v, want %v", name, h, p)
				}
				continue
			}
			var custom map[string]float64
			if err := json.Unmarshal(raw, &custom); err != nil {
				t.Fatal(err)
			}
			for kind, p := range custom {
				if h := have.Percent(have.Custom[kind]); !near(h, p) {
					bad("custom %s %v, want %v", kind, h, p)
				}
			}
			if len(custom) != len(have.Custom) {
				bad("custom %v, want %v", have.Custom, custom)
			}
		}
		if have.LastStep != want.Last || have.Disruptions != want.Disruptions || !near(have.SumPercent(), want.Sum) {
			bad("step %d, %d disruptions, sum %v; want %d, %d, %v", have.LastStep, have.Disruptions, have.SumPercent(), want.Last, want.Disruptions, want.Sum)
		}
		if want.Ideal != nil && !near(have.Ideal, *want.Ideal) {
			bad("ideal %v, want %v", have.Ideal, *want.Ideal)
		}
		if q.Call == "cumulative" {
			for step, d := range want.Deviation {
				if h, ok := have.Deviations[step]; !ok || !near(h, d) {
					bad("deviation of step %d is %v, want %v", step, h, d)
					break
				}
			}
		}
	}
}

func TestErrors(t *testing.T) {
	if _, err := mlgoodput.Cumulative(nil, 1, mlgoodput.Options{}); !errors.Is(err, mlgoodput.ErrNoTime) {
		t.Error(err)
	}
	if _, err := mlgoodput.Window(nil, 0, 1, mlgoodput.Options{}); !errors.Is(err, mlgoodput.ErrNoEntries) {
		t.Error(err)
	}
}
