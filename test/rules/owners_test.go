package rules

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/identity"
)

// Only config knows the names of our environment variables, beside internal/platform/environ and internal/platform/identity:
// what is set for a process by one of ours is read by another.
func TestOnlyConfigKnowsVariables(t *testing.T) {
	name := regexp.MustCompile(`^TRAINSPAN_[A-Z_]*[A-Z]$`)
	about := func(path string) bool {
		return product(path) && !below(path, []string{"config", "internal/platform/environ", "internal/platform/identity"})
	}
	for src := range sources(t, about) {
		ast.Inspect(src.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil && name.MatchString(text) {
					t.Errorf("%v: %s is the name of a variable, which package config has", src.fset.Position(lit.Pos()), text)
				}
			}
			return true
		})
	}
}

// Only internal/platform/identity knows the words in which launchers and resources say who a
// process is: no other product code has one of them as a text of its own.
func TestOnlyIdentityKnowsWho(t *testing.T) {
	words := identity.Variables()
	for f := identity.Rank; f <= identity.Session; f++ {
		if word := f.Attribute(); strings.Contains(word, ".") {
			words = append(words, word)
		}
	}
	words = append(words, identity.Host.Attribute(), "k8s.node.name", "nv.dl.rank", "megatron.rank", "torch.rank", "pytorch.world_size", identity.UnknownHost)
	about := func(path string) bool { return product(path) && !below(path, []string{"internal"}) }
	for src := range sources(t, about) {
		ast.Inspect(src.file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			if text, err := strconv.Unquote(lit.Value); err == nil && slices.Contains(words, text) {
				t.Errorf("%v: %s is a word of internal/platform/identity", src.fset.Position(lit.Pos()), lit.Value)
			}
			return true
		})
	}
}
