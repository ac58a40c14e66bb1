package dftracer

import (
	"regexp"
	"strings"
)

// redacted stands for a value that must not be in a trace.
const redacted = "REDACTED"

// secretName finds the names of flags and variables whose values are secrets.
var secretName = regexp.MustCompile(`(?i)(token|secret|passw|passphrase|api[-_.]?key|access[-_.]?key|private[-_.]?key|credential|auth|cookie|headers?$)`)

// userInfo finds the user and password of a URL.
var userInfo = regexp.MustCompile(`://[^/@\s]+@`)

// redact hides the secrets among the arguments of a command line, in place:
// the values of flags and variables with a telling name, and what stands
// before the host of a URL.
func redact(args []string) []string {
	hideNext := false
	for i, arg := range args {
		if i == 0 {
			continue
		}
		if hideNext && !strings.HasPrefix(arg, "-") {
			args[i], hideNext = redacted, false
			continue
		}
		hideNext = false
		name, _, valued := strings.Cut(arg, "=")
		switch secret := secretName.MatchString(name); {
		case secret && valued:
			args[i] = name + "=" + redacted
		case secret && strings.HasPrefix(arg, "-"):
			hideNext = true
		default:
			args[i] = userInfo.ReplaceAllString(arg, "://"+redacted+"@")
		}
	}
	return args
}
