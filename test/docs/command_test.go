package docs

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trainspan/trainspan/internal/testkit/built"
)

// program has the commands and flags from the help of the command.
type program struct {
	flags map[string][]string // of each command, with the global ones
}

var (
	helpCommand = regexp.MustCompile(`(?m)^  ([a-z]+) +\S`)
	helpFlag    = regexp.MustCompile(`(?m)^ +(?:(-[a-zA-Z]), )?(--[a-z0-9-]+)`)
)

// builtProgram returns the commands and flags from the built command's help.
func builtProgram(t *testing.T) *program {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the command")
	}
	p, err := described()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var described = sync.OnceValues(func() (*program, error) {
	path, err := built.Path()
	if err != nil {
		return nil, err
	}
	help := func(args ...string) (string, error) {
		out, err := exec.Command(path, append(args, "--help")...).Output()
		return string(out), err
	}
	top, err := help()
	if err != nil {
		return nil, err
	}
	p := &program{flags: map[string][]string{"": flagsOf(top)}}
	tools, err := help("trace")
	if err != nil {
		return nil, err
	}
	for parent, list := range map[string]string{"": top, "trace": tools} {
		_, list, _ = strings.Cut(list, "Usage:\n")
		list, _, _ = strings.Cut(list, "\nFlags:")
		for _, m := range helpCommand.FindAllStringSubmatch(list, -1) {
			if m[1] == "trainspan" {
				continue // a line of the usage
			}
			args := strings.Fields(parent + " " + m[1])
			text, err := help(args...)
			if err != nil {
				return nil, err
			}
			p.flags[strings.Join(args, " ")] = flagsOf(text)
		}
	}
	for _, name := range []string{"trace", "completion"} { // in the last lines of the help
		text, err := help(name)
		if err != nil {
			return nil, err
		}
		p.flags[name] = flagsOf(text)
	}
	if len(p.flags) < 15 {
		return nil, fmt.Errorf("only %d commands were found", len(p.flags))
	}
	return p, nil
})

func flagsOf(help string) (flags []string) {
	_, list, _ := strings.Cut(help, "\nFlags:")
	for _, m := range helpFlag.FindAllStringSubmatch(list, -1) {
		flags = append(flags, m[2])
		if m[1] != "" {
			flags = append(flags, m[1])
		}
	}
	return flags
}

// words splits a command line at blanks outside of quotes, up to the end of the
// command, and removes the quotes.
func words(line string) (out []string) {
	var b strings.Builder
	quote, any := rune(0), false
	flush := func() {
		if any {
			out = append(out, b.String())
		}
		b.Reset()
		any = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			b.WriteRune(r)
		case r == '\'' || r == '"':
			quote, any = r, true
		case r == ' ':
			flush()
		case r == '|' || r == '>' || r == ';' || r == '&':
			flush()
			return out
		default:
			b.WriteRune(r)
			any = true
		}
	}
	flush()
	return out
}

// check reports the mistakes of a command line.
func (p *program) check(t *testing.T, where, line string) {
	t.Helper()
	args := words(line)
	i := slices.IndexFunc(args, func(w string) bool {
		return w == "trainspan" || w == "./cmd/trainspan" || strings.HasSuffix(w, "/trainspan")
	})
	if i < 0 || i+1 >= len(args) || i > 2 {
		return
	}
	cmd := args[i+1]
	if strings.ToUpper(cmd) == cmd && !strings.HasPrefix(cmd, "-") {
		return // a placeholder
	}
	if strings.HasPrefix(cmd, "-") {
		cmd = ""
	}
	if cmd == "trace" && i+2 < len(args) && !strings.HasPrefix(args[i+2], "-") {
		cmd += " " + args[i+2]
	}
	flags, ok := p.flags[cmd]
	if !ok {
		t.Errorf("%s: %q: unknown command %s", where, line, cmd)
		return
	}
	for _, w := range args[i+1:] {
		if w == "--" {
			return
		}
		name, _, _ := strings.Cut(w, "=")
		if strings.HasPrefix(name, "-") && len(name) > 1 && !slices.Contains(flags, name) && name != "--help" && !numberLike(name) {
			t.Errorf("%s: %q: trainspan %s has no flag %s", where, line, cmd, name)
		}
	}
}

func numberLike(s string) bool { return len(s) > 1 && s[1] >= '0' && s[1] <= '9' }

// TestCommandLines checks every trainspan command line of the pages against the
// command itself.
func TestCommandLines(t *testing.T) {
	p := builtProgram(t)
	n := 0
	for _, page := range pages(t) {
		lines := page.commands()
		for _, m := range quoted.FindAllStringSubmatch(page.prose(), -1) {
			if strings.HasPrefix(m[1], "trainspan ") {
				lines = append(lines, m[1])
			}
		}
		for _, line := range lines {
			if strings.Contains(line, "trainspan ") {
				n++
				p.check(t, page.name, line)
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d command lines were found, want at least 30", n)
	}
}

// TestFlagsInProse checks that each flag that the command's pages name is a
// flag of the command.
func TestFlagsInProse(t *testing.T) {
	p := builtProgram(t)
	known := map[string]bool{"--help": true}
	for _, flags := range p.flags {
		for _, f := range flags {
			known[f] = true
		}
	}
	for _, page := range pages(t) {
		if page.name != "docs/reference/cli.md" && page.name != "docs/start/files.md" {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(page.prose(), -1) {
			if name := strings.FieldsFunc(m[1], func(r rune) bool { return r == ' ' || r == '=' }); strings.HasPrefix(m[1], "--") && !known[name[0]] {
				t.Errorf("%s: no command has the flag %s", page.name, name[0])
			}
		}
	}
}
