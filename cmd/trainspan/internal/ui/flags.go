package ui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Traces makes arguments complete to trace files.
func Traces(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"pfw", "gz"}, cobra.ShellCompDirectiveFilterFileExt
}

// Words makes a flag complete to one of a few words.
func Words(cmd *cobra.Command, flag string, list ...string) {
	// The only error is a flag that does not exist, which a test would show.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp))
}

// Choice is a flag that takes one of a few words.
type Choice struct {
	to    *string
	words []string
}

// NewChoice returns a flag whose value, at first the first word, is put into to.
func NewChoice(to *string, words ...string) *Choice {
	*to = words[0]
	return &Choice{to, words}
}

func (c *Choice) String() string { return *c.to }

// Type implements pflag.Value.
func (c *Choice) Type() string { return "string" }

// Set implements pflag.Value.
func (c *Choice) Set(word string) error {
	if !slices.Contains(c.words, word) {
		return fmt.Errorf("choose one of %s", strings.Join(c.words, ", "))
	}
	*c.to = word
	return nil
}
