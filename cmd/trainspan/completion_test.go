//go:build unix

package main

import (
	"os"
	"os/exec"
	"testing"
)

// bashCompletion has functions that completion in bash needs.
const bashCompletion = "/usr/share/bash-completion/bash_completion"

// TestCompletion checks that each shell completes a command, a flag and a value
// of a flag, after the line from the help of completion.
func TestCompletion(t *testing.T) {
	for shell, how := range map[string]struct {
		args []string
		load string
	}{
		"bash": {[]string{"--norc", "--noprofile", "-i"}, "source " + bashCompletion + "; source <(trainspan completion bash)"},
		"zsh":  {[]string{"-f", "-i"}, "autoload -U compinit; compinit -u -D; source <(trainspan completion zsh)"},
		"fish": {[]string{"--no-config", "-i"}, "trainspan completion fish | source"},
	} {
		t.Run(shell, func(t *testing.T) {
			if _, err := exec.LookPath(shell); err != nil {
				t.Skipf("completion in %s is not tried: %v", shell, err)
			}
			if _, err := os.Stat(bashCompletion); shell == "bash" && err != nil {
				t.Skipf("completion in bash is not tried: %v; Debian's package bash-completion has it", err)
			}
			x := programOnTerminal(t, 100, 40, shell, how.args...)
			x.press(how.load + "; echo re''ady\r")
			x.see("ready")
			for typed, want := range map[string]string{
				"trainspan trace valid\t":                   "trainspan trace validate",
				"trainspan trace summary --comp\t":          "trainspan trace summary --compute",
				"trainspan trace convert a.pfw --to chro\t": "--to chrome",
				"trainspan help good\t":                     "trainspan help goodput",
				"trainspan --color alw\t":                   "trainspan --color always",
			} {
				x.press(typed)
				x.see(want)
				x.press("\x15") // clears the line
			}
			x.press("exit\r")
			if err := x.cmd.Wait(); err != nil {
				t.Logf("%s: %v", shell, err)
			}
		})
	}
}
