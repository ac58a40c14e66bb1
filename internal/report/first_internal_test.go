package report

import "testing"

func TestCapital(t *testing.T) {
	for _, c := range []struct{ text, capital, sentence string }{
		{"", "", ""},
		{"rank 2", "Rank 2", "Rank 2."},
		{"“tokenize” takes 1 s.", "“tokenize” takes 1 s.", "“tokenize” takes 1 s."},
		{"été", "Été", "Été."},
	} {
		if got := capital(c.text); got != c.capital {
			t.Errorf("capital(%q) = %q, want %q", c.text, got, c.capital)
		}
		if got := sentence(c.text); got != c.sentence {
			t.Errorf("sentence(%q) = %q, want %q", c.text, got, c.sentence)
		}
	}
}
