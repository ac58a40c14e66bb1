// Package redact hides likely secrets before a text is written, logged or
// shown. No rule finds all secrets, so leave out text that need not be shown.
package redact

import (
	"regexp"
	"strings"
)

// Hidden replaces a secret.
const Hidden = "REDACTED"

// words are parts of the names of secrets.
const words = `(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|account[_-]?key|credentials?|authorization|cookie|session[_-]?id|signature)`

// The rules of Text, in order: each rule sees the result of the one before.
var rules = []struct {
	find *regexp.Regexp
	by   string
}{
	// The user of a URL.
	{regexp.MustCompile(`(://)[^\s/@'"]*@`), "${1}" + Hidden + "@"},
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`), Hidden},
	{regexp.MustCompile(`(?i)\b(bearer|basic|negotiate)\s+[A-Za-z0-9._~+/=-]{8,}`), "${1} " + Hidden},
	// A flag and its argument, also in a list of arguments; and a setting, a
	// header, or an entry of a dictionary or of a query.
	{regexp.MustCompile(`(?i)(--?[\w-]*` + words + `[\w-]*)(["'],\s*["']|\s+|=)(?:"[^"]*"|'[^']*'|[^\s"']+)`), "${1}${2}" + Hidden},
	{regexp.MustCompile(`(?i)([\w.-]*` + words + `[\w.-]*["']?\s*(?:=>|[:=])\s*)(?:"[^"]*"|'[^']*'|[^\s"',;&)}\]]+)`), "${1}" + Hidden},
	// Prefixes of known kinds of keys.
	{regexp.MustCompile(`\b(?:hf_|sk-|sk_|pk_|gh[opsur]_|github_pat_|glpat-|xox[abeprs]-|nvapi-|pypi-|npm_|dop_v1_|ya29\.|eyJ|A[KS]IA|AIza)[A-Za-z0-9_.\-]{12,}`), Hidden},
}

// awsKey finds candidates for secret keys of AWS: forty characters of base64
// that stand alone. Paths, hashes and longer base64 data look similar: see
// isAWSKey.
var awsKey = regexp.MustCompile(`(?:^|[^A-Za-z0-9/+=._~%-])([A-Za-z0-9/+]{40})(?:$|[^A-Za-z0-9/+=._~%-])`)

// isAWSKey reports whether forty characters are as random as a key. In names
// and paths a letter seldom follows a digit, a digit a letter, or a capital a
// small letter; in forty random characters that happens 16 times on average,
// and less than 8 times in one of a thousand.
func isAWSKey(word string) bool {
	if !strings.ContainsAny(word, "/+") || !upper.MatchString(word) || !lower.MatchString(word) {
		return false // handled by random, or not a key
	}
	class := func(c byte) int {
		switch {
		case c >= '0' && c <= '9':
			return 1
		case c >= 'a' && c <= 'z':
			return 2
		case c >= 'A' && c <= 'Z':
			return 3
		}
		return 0
	}
	odd := 0
	for i := 1; i < len(word); i++ {
		if was, is := class(word[i-1]), class(word[i]); was != is && was*is != 0 && !(was == 3 && is == 2) {
			odd++
		}
	}
	return odd >= 8
}

// random matches long words that no person would choose; hash matches words of
// digits and letters a to f.
var (
	random = regexp.MustCompile(`[A-Za-z0-9+]{32,}={0,2}`)
	digits = regexp.MustCompile(`[0-9]`)
	upper  = regexp.MustCompile(`[A-Z]`)
	lower  = regexp.MustCompile(`[a-z]`)
	hash   = regexp.MustCompile(`^[0-9a-f]+$`)
)

// Text hides what looks like a secret: the user in a URL, what follows a name
// such as password, token or api_key, known forms of keys, and long random
// words.
func Text(text string) string {
	for _, r := range rules {
		text = r.find.ReplaceAllString(text, r.by)
	}
	text = hideAWSKeys(text)
	return random.ReplaceAllStringFunc(text, func(word string) string {
		if digits.MatchString(word) && lower.MatchString(word) && (upper.MatchString(word) || hash.MatchString(word)) {
			return Hidden
		}
		return word
	})
}

// hideAWSKeys hides keys between other words.
func hideAWSKeys(text string) string {
	var out strings.Builder
	from := 0
	for at := 0; at < len(text); {
		m := awsKey.FindStringSubmatchIndex(text[at:])
		if m == nil {
			break
		}
		start, end := at+m[2], at+m[3]
		if isAWSKey(text[start:end]) {
			out.WriteString(text[from:start])
			out.WriteString(Hidden)
			from = end
		}
		at = end
	}
	if from == 0 {
		return text
	}
	return out.String() + text[from:]
}

// Address hides the text before an @ in the address of a server, valid or not.
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

// flagName matches the possible names of flags.
var flagName = regexp.MustCompile(`^[A-Za-z][-A-Za-z0-9_.]{0,63}$`)

// Bounds of Flags: how many names are kept, and how many bytes of them.
const (
	maxFlags = 256
	maxBytes = 4096
)

// Flags returns the names of the flags among the arguments of a command, with
// their dashes and without their values. With one dash a name is kept only if
// it is known; otherwise it may be a letter with its value, such as -phunter2,
// and only the letter is kept. Arguments after "--" are not flags.
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
