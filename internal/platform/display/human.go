// Package display formats numbers and text for people, in one style on all
// screens.
package display

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Duration formats nanoseconds, with at most two units.
func Duration(ns int64) string { return seconds(float64(ns) / 1e9) }

// Micros is [Duration] for microseconds, which may be a mean.
func Micros(us float64) string { return seconds(us / 1e6) }

func seconds(s float64) string {
	switch {
	case s < 0:
		return "-" + seconds(-s)
	case s == 0:
		return "0 s"
	case s < 0.9995e-3:
		us := s * 1e6
		if us < 99.95 && math.Abs(us-math.Round(us)) > 1e-6 {
			return fmt.Sprintf("%.1f µs", us)
		}
		return fmt.Sprintf("%.0f µs", us)
	case s < 0.9995:
		return Milliseconds(s * 1e3)
	case s < 59.95:
		return fmt.Sprintf("%.1f s", s)
	case s < 3599.5:
		n := int64(math.Round(s))
		return fmt.Sprintf("%dm %02ds", n/60, n%60)
	case s < 48*3600:
		n := int64(math.Round(s / 60))
		return fmt.Sprintf("%dh %02dm", n/60, n%60)
	}
	n := int64(math.Round(s / 3600))
	return fmt.Sprintf("%sd %02dh", Count(n/24), n%24)
}

// Less formats the difference of two durations as the difference of their texts
// by [Duration]. If that is wrong by more than a fifth, it formats the exact difference.
func Less(from, to int64) string {
	unit := int64(1)
	switch largest := max(from, -from); {
	case largest >= 48*3600*1e9:
		unit = 3600 * 1e9
	case largest >= 3599.5*1e9:
		unit = 60 * 1e9
	case largest >= 59.95*1e9:
		unit = 1e9
	case largest >= 0.9995*1e9:
		unit = 1e8
	}
	round := func(ns int64) int64 { return (ns + unit/2) / unit * unit }
	less, exact := round(from)-round(to), from-to
	if off := less - exact; 5*max(off, -off) > max(exact, -exact) {
		less = exact
	}
	return Duration(less)
}

// Milliseconds formats milliseconds for comparison with others: in milliseconds
// up to ten seconds.
func Milliseconds(ms float64) string {
	switch a := math.Abs(ms); {
	case a < 0.005:
		return "0 ms"
	case a >= 10_000:
		return fmt.Sprintf("%.1f s", ms/1000)
	case a >= 99.95:
		return fmt.Sprintf("%.0f ms", ms)
	case a >= 9.995:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.2f ms", ms)
}

// Percent formats a fraction as a percentage. A value other than 0 is never
// shown as 0.
func Percent(x float64) string {
	if x != 0 && math.Abs(x) < 0.0005 {
		return "< 0.1 %"
	}
	return fmt.Sprintf("%.1f %%", 100*x)
}

// Share formats part/whole as a percentage, or a dash if whole is 0.
func Share(part, whole int64) string {
	if whole <= 0 {
		return "-"
	}
	return Percent(float64(part) / float64(whole))
}

// Change formats a relative change, such as +3.1 %.
func Change(x float64) string { return fmt.Sprintf("%+.1f %%", 100*x) }

// Count formats a number with thousands separators.
func Count[T int | int64 | uint64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Plural formats a number with the singular or plural of a word.
func Plural[T int | int64](n T, word string) string {
	switch {
	case n == 1:
		return "1 " + word
	case strings.HasSuffix(word, "ss"):
		return Count(n) + " " + word + "es"
	case strings.HasSuffix(word, "y"):
		return Count(n) + " " + strings.TrimSuffix(word, "y") + "ies"
	}
	return Count(n) + " " + word + "s"
}

// Bytes formats a size in decimal units, as storage vendors do.
func Bytes[T int64 | float64](n T) string {
	x := float64(n)
	for _, unit := range [...]string{"B", "kB", "MB", "GB"} {
		if x < 999.5 {
			if x < 9.95 && unit != "B" {
				return fmt.Sprintf("%.1f %s", x, unit)
			}
			return fmt.Sprintf("%.0f %s", x, unit)
		}
		x /= 1000
	}
	return fmt.Sprintf("%.1f TB", x)
}

// ShellWord quotes a word for a POSIX shell, if it needs that.
func ShellWord(word string) string {
	plain := func(r rune) bool {
		return r >= utf8.RuneSelf && unicode.IsLetter(r) || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_./:,+@%=-", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
