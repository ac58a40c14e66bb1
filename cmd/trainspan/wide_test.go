package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// TestWideNames checks that tables and screens with names in Chinese, Japanese
// and Korean, with emoji and accents, fit in 40 to 200 columns, in a pipe and
// with LANG=C, which adds no characters beyond ASCII.
func TestWideNames(t *testing.T) {
	dir := t.TempDir()
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for rank := range 2 {
		w, err := dftracer.Create(filepath.Join(dir, fmt.Sprintf("r%d.pfw", rank)), &dftracer.Options{
			Start: at, Process: dftracer.Process{PID: 7 + rank, Rank: &rank, Host: "ノード🚀-" + fmt.Sprint(rank), SessionTag: "大規模言語モデルの学習", JobID: "j"},
		})
		if err != nil {
			t.Fatal(err)
		}
		step := dftracer.NewKey("pipeline", "train.iteration")
		for i := range 30 {
			began := at.Add(time.Duration(i) * time.Second).UnixMicro()
			w.WriteComplete(&step, dftracer.Span{TS: began, Dur: 900_000}, dftracer.Int("step", int64(i)))
			for k, name := range []string{"前向传播与反向传播之间的数据加载过程非常非常慢", "データ読み込み/前処理/シャッフル", "🚀🔥🚀🔥🚀🔥🚀🔥", "re\u0301gression"} {
				key := dftracer.NewKey("计算", name)
				w.WriteComplete(&key, dftracer.Span{TS: began + int64(k)*200_000, Dur: 199_000})
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{"trace summary", "trace steps", "report", "report --full", "runs", "trace events --sort duration"} {
		for _, lang := range []string{"C.UTF-8", "C"} {
			for _, columns := range []int{40, 41, 60, 79, 80, 100, 120, 200} {
				env := map[string]string{"COLUMNS": fmt.Sprint(columns), "LANG": lang}
				var out, errs bytes.Buffer
				status := run(t.Context(), append(strings.Fields(line), dir), ui.Streams{Out: &out, Err: &errs, Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok }})
				if status != 0 {
					t.Fatalf("%s: status %d, want 0: %s", line, status, &errs)
				}
				for text := range strings.Lines(out.String()) {
					text = strings.TrimSuffix(text, "\n")
					if got := display.Width(text); got > columns {
						t.Errorf("%s, LANG=%s: %d columns, want at most %d: %q", line, lang, got, columns, text)
					}
					if strings.ContainsAny(text, "█▓▒░·…µ") && lang == "C" {
						t.Errorf("%s, LANG=C: want ASCII only, got %q", line, text)
					}
				}
			}
		}
	}
}
