package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// micros writes a duration of microseconds with three digits and a unit.
func micros(us float64) string {
	switch {
	case us < 0:
		return "-" + micros(-us)
	case us < 1000:
		if us == float64(int64(us)) || us >= 100 {
			return fmt.Sprintf("%.0f µs", us)
		}
		return fmt.Sprintf("%.1f µs", us)
	case us < 999.5e3:
		return digits3(us/1e3) + " ms"
	case us < 600e6:
		return digits3(us/1e6) + " s"
	}
	if s := int64(us / 1e6); s < 3600 {
		return fmt.Sprintf("%d min %02d s", s/60, s%60)
	} else if s < 100*3600 {
		return fmt.Sprintf("%d h %02d min", s/3600, s/60%60)
	} else {
		return fmt.Sprintf("%s d %02d h", count(s/86400), s/3600%24)
	}
}

func digits3(v float64) string {
	switch {
	case v < 9.995:
		return fmt.Sprintf("%.2f", v)
	case v < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// count writes a number with its thousands apart.
func count[T int | int64 | uint64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	var out []string
	for len(s) > 3 {
		out = append([]string{s[len(s)-3:]}, out...)
		s = s[:len(s)-3]
	}
	return sign + strings.Join(append([]string{s}, out...), ",")
}

// plural writes a number and the word for that many.
func plural[T int | int64](n T, word string) string {
	if n == 1 {
		return "1 " + word
	}
	switch {
	case strings.HasSuffix(word, "ss"):
		return count(n) + " " + word + "es"
	case strings.HasSuffix(word, "y"):
		return count(n) + " " + strings.TrimSuffix(word, "y") + "ies"
	}
	return count(n) + " " + word + "s"
}

// size writes a number of bytes.
func size(n int64) string {
	const k = 1024
	switch {
	case n < k:
		return fmt.Sprintf("%d B", n)
	case n < k*k:
		return digits3(float64(n)/k) + " KiB"
	case n < k*k*k:
		return digits3(float64(n)/k/k) + " MiB"
	}
	return digits3(float64(n)/k/k/k) + " GiB"
}

// percent writes a part of a whole.
func percent(part, whole int64) string {
	if whole <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(whole))
}

// moment writes a time of microseconds since the Unix epoch.
func moment(us int64) string {
	return time.UnixMicro(us).UTC().Format("2006-01-02 15:04:05.000 UTC")
}
