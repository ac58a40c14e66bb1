package display_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/display"
)

func TestWidth(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "forward": 7, "µs · …": 6, "前向传播": 8, "データ読み込み": 14, "학습": 4, "🚀": 2, "train🚀": 7, "ｆｕｌｌ": 8, "ｶﾅ": 2,
		"e\u0301te\u0301": 3, "❤\ufe0f": 1, "█▓▒░": 4, "Привет": 6,
	} {
		if got := display.Width(text); got != want {
			t.Errorf("Width(%q) = %d, want %d", text, got, want)
		}
	}
}

// wideNames take more or fewer columns than they have characters.
var wideNames = []string{
	"前向传播与反向传播之间的数据加载过程非常非常慢而且名字很长", "データ読み込み/前処理", "🚀🔥 launch 🚀🔥", "학습 단계", "re\u0301gression line\u0301aire", "plain", "混ぜる mixed ｆｕｌｌ 🚀",
}

// TestWideNames checks that for any names no line of a table or a text is wider
// than the terminal, that columns are aligned, and that only whole characters
// are cut.
func TestWideNames(t *testing.T) {
	for width := 40; width <= 200; width++ {
		table := &display.Table{Heads: []string{"<name", "count", "<end"}}
		for i, name := range wideNames {
			table.Add(name, fmt.Sprint(1000+i), "end"+fmt.Sprint(i))
		}
		heads, rows := table.Lines(width)
		column := -1
		if at := strings.Index(heads, "count"); at >= 0 {
			column = display.Width(heads[:at]) + len("count")
		}
		for _, line := range rows {
			if got := display.Width(line); got > width {
				t.Errorf("a row takes %d columns, want at most %d: %q", got, width, line)
			}
			for i := range wideNames {
				if before, _, ok := strings.Cut(line, fmt.Sprint(1000+i)); ok && column > 0 && display.Width(before)+4 != column {
					t.Errorf("%d: the number ends in column %d, want %d: %q", width, display.Width(before)+4, column, line)
				}
			}
		}
		text := strings.Join(wideNames, " ")
		for what, lines := range map[string][]string{
			"Fold": display.Fold(text, width), "Elide": {display.Elide(text, width)}, "Cut": {display.Cut(text, width)}, "Join": display.Join(wideNames, ", ", width),
		} {
			for _, line := range lines {
				if got := display.Width(line); got > width || !strings.HasPrefix(strings.ToValidUTF8(line, "?"), line) {
					t.Errorf("%s gives %d columns, want at most %d: %q", what, got, width, line)
				}
			}
		}
	}
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"前向传播", 8, "前向传播"}, {"前向传播", 7, "前向传…"}, {"前向传播", 6, "前向…"}, {"前向", 2, "…"}, {"前向", 0, ""}, {"re\u0301sume\u0301s", 3, "re\u0301…"}, {"plain", 4, "pla…"},
	} {
		if got := display.Cut(c.text, c.width); got != c.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.text, c.width, got, c.want)
		}
	}
}
