package display_test

import (
	"testing"

	"github.com/trainspan/trainspan/internal/platform/display"
)

func TestDuration(t *testing.T) {
	const second, minute, hour = int64(1e9), 60 * int64(1e9), 3600 * int64(1e9)
	for ns, want := range map[int64]string{
		0: "0 s", 999: "1.0 µs", 7000: "7 µs", 7250: "7.2 µs", 123_456: "123 µs", 999_600: "1.00 ms", 1_000_000: "1.00 ms", 12_345_000: "12.3 ms",
		999_400_000: "999 ms", 999_600_000: "1.0 s", 59_900 * second / 1000: "59.9 s",
		59_960 * second / 1000: "1m 00s", 61 * second: "1m 01s", 59*minute + 59*second: "59m 59s", hour - second/4: "1h 00m",
		hour: "1h 00m", hour + 45*minute: "1h 45m", 23*hour + 59*minute + 29*second: "23h 59m", 25*hour + 31*minute: "25h 31m",
		47*hour + 59*minute: "47h 59m", 48 * hour: "2d 00h", 73*hour + 29*minute: "3d 01h", -90 * second: "-1m 30s", 8760 * 4 * hour: "1,460d 00h",
	} {
		if got := display.Duration(ns); got != want {
			t.Errorf("%d ns is %q, want %q", ns, got, want)
		}
	}
	for us, want := range map[float64]string{0: "0 s", 7.25: "7.2 µs", 0.04: "0.0 µs", 999.6: "1.00 ms", 9.2e18: "106,481,481d 12h", -5: "-5 µs"} {
		if got := display.Micros(us); got != want {
			t.Errorf("%v µs is %q, want %q", us, got, want)
		}
	}
	for ms, want := range map[float64]string{0: "0 ms", 0.004: "0 ms", 9.994: "9.99 ms", 9.996: "10.0 ms", 99.96: "100 ms", 9_999: "9999 ms", 10_000: "10.0 s", -12.34: "-12.3 ms"} {
		if got := display.Milliseconds(ms); got != want {
			t.Errorf("%v ms is %q, want %q", ms, got, want)
		}
	}
}

func TestLess(t *testing.T) {
	const ms, minute = int64(1e6), 60 * int64(1e9)
	for _, c := range []struct {
		from, to int64
		want     string
	}{
		{13_700 * ms, 9_900 * ms, "3.8 s"},
		{1_840 * ms, 1_300 * ms, "500 ms"},                 // 1.8 s and 1.3 s
		{1_806 * ms, 1_755 * ms, "51.0 ms"},                // 1.8 s and 1.8 s
		{67*minute + 25*1e9, 66*minute + 35*1e9, "50.0 s"}, // 1h 07m and 1h 07m
	} {
		if got := display.Less(c.from, c.to); got != c.want {
			t.Errorf("Less(%d, %d) = %q, want %q", c.from, c.to, got, c.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		if got := display.Count(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 58_123: "58 kB", 1 << 20: "1.0 MB", 999_600_000: "1.0 GB", 80 << 30: "86 GB", 3e15: "3000.0 TB"} {
		if got := display.Bytes(n); got != want {
			t.Errorf("%d bytes are %q, want %q", n, got, want)
		}
	}
	for x, want := range map[float64]string{0: "0.0 %", 0.0004: "< 0.1 %", -0.0004: "< 0.1 %", 0.0005: "0.1 %", 0.25: "25.0 %", 1: "100.0 %"} {
		if got := display.Percent(x); got != want {
			t.Errorf("%v is %q, want %q", x, got, want)
		}
	}
	if got := display.Share(1, 8) + display.Share(1, 0) + display.Change(0.031) + display.Change(-0.5); got != "12.5 %-+3.1 %-50.0 %" {
		t.Errorf(`Share and Change give %q, want "12.5 %%-+3.1 %%-50.0 %%"`, got)
	}
	if got := display.Plural(2, "process") + display.Plural(1, "event") + display.Plural(3000, "entry"); got != "2 processes1 event3,000 entries" {
		t.Errorf(`Plural gives %q, want "2 processes1 event3,000 entries"`, got)
	}
}

func TestShellWord(t *testing.T) {
	for word, want := range map[string]string{
		"": "''", "train.3": "train.3", "runs/a-b/trace.pfw.gz": "runs/a-b/trace.pfw.gz", "学習.1": "学習.1", "my job.2": "'my job.2'",
		"it's": `'it'\''s'`, "a*b": "'a*b'", "$HOME": "'$HOME'", "~x": "'~x'", "🚀": "'🚀'",
	} {
		if got := display.ShellWord(word); got != want {
			t.Errorf("ShellWord(%q) = %s, want %s", word, got, want)
		}
	}
}
