// Package secret hides what may be a secret before a text is written, logged or
// shown. No rule finds all of them: what need not be told is best not told.
package secret

import (
	"regexp"
	"strings"
)

// Hidden stands in the place of a secret.
const Hidden = "REDACTED"

// words are parts of the names of what is secret.
const words = `(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|account[_-]?key|credentials?|authorization|cookie|session[_-]?id|signature)`

// The rules of Text, in this order: a later one sees what an earlier one left.
var rules = []struct {
	find *regexp.Regexp
	by   string
}{
	// The user of a URL.
	{regexp.MustCompile(`(://)[^\s/@'"]*@`), "${1}" + Hidden + "@"},
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`), Hidden},
	{regexp.MustCompile(`(?i)\b(bearer|basic|negotiate)\s+[A-Za-z0-9._~+/=-]{8,}`), "${1} " + Hidden},
	// A flag and its argument, also in a list of arguments, then a setting, a header or an entry of a dictionary or of a query.
	{regexp.MustCompile(`(?i)(--?[\w-]*` + words + `[\w-]*)(["'],\s*["']|\s+|=)(?:"[^"]*"|'[^']*'|[^\s"']+)`), "${1}${2}" + Hidden},
	{regexp.MustCompile(`(?i)([\w.-]*` + words + `[\w.-]*["']?\s*(?:=>|[:=])\s*)(?:"[^"]*"|'[^']*'|[^\s"',;&)}\]]+)`), "${1}" + Hidden},
	// Forms that issuers of keys use.
	{regexp.MustCompile(`\b(?:hf_|sk-|sk_|pk_|gh[opsur]_|github_pat_|glpat-|xox[abeprs]-|nvapi-|pypi-|npm_|dop_v1_|ya29\.|eyJ|A[KS]IA|AIza)[A-Za-z0-9_.\-]{12,}`), Hidden},
}

// random finds long words that nobody would choose; hash is one of digits and letters a to f.
var (
	random = regexp.MustCompile(`[A-Za-z0-9+]{32,}={0,2}`)
	digits = regexp.MustCompile(`[0-9]`)
	upper  = regexp.MustCompile(`[A-Z]`)
	lower  = regexp.MustCompile(`[a-z]`)
	hash   = regexp.MustCompile(`^[0-9a-f]+$`)
)

// Text hides in a text what looks like a secret: the user in a URL, what follows a name
// such as password, token or api_key, what has the form of a key, and long words that
// are random.
func Text(text string) string {
	for _, r := range rules {
		text = r.find.ReplaceAllString(text, r.by)
	}
	return random.ReplaceAllStringFunc(text, func(word string) string {
		if digits.MatchString(word) && lower.MatchString(word) && (upper.MatchString(word) || hash.MatchString(word)) {
			return Hidden
		}
		return word
	})
}

// Address hides what stands before an @ in the address of a server, whether it is a
// good one or not.
func Address(address string) string {
	i := strings.LastIndexByte(address, '@')
	if i < 0 {
		return address
	}
	start := strings.Index(address[:i], "//")
	if start < 0 {
		return Hidden + address[i:]
	}
	return address[:start+2] + Hidden + address[i:]
}

// flagName finds what can be the name of a flag.
var flagName = regexp.MustCompile(`^[A-Za-z][-A-Za-z0-9_.]{0,63}$`)

// Bounds of Flags: how many names are kept, and how many bytes of them.
const (
	maxFlags = 256
	maxBytes = 4096
)

// Flags returns the names of the flags among the arguments of a command, with their dashes
// and without their values. After one dash a name is believed only if it is known: else
// it can be a letter with its value, as in -phunter2, so that the letter is all that is
// kept. What follows two dashes alone are no flags.
func Flags(args []string, known func(name string) bool) (out []string) {
	size := 0
	for _, arg := range args {
		name, dashed := strings.CutPrefix(arg, "-")
		if !dashed {
			continue
		}
		if name == "-" {
			break
		}
		name, _, _ = strings.Cut(name, "=")
		long, two := strings.CutPrefix(name, "-")
		if !two && (known == nil || !known(name)) {
			name = name[:min(1, len(name))]
			long = name
		}
		if !flagName.MatchString(long) {
			continue
		}
		if size += len(name) + len(";-"); size > maxBytes || len(out) == maxFlags {
			break
		}
		out = append(out, "-"+name)
	}
	return out
}
