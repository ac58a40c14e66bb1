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

// TestOnlyConfigKnowsVariables checks that only config has the names of our
// environment variables, besides internal/platform/environ and
// internal/platform/identity: one of our processes sets variables that another
// one reads.
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

// TestOnlyIdentityKnowsWho checks that only internal/platform/identity has the
// words by which launchers and resources identify a process: no other product
// code has one of them as a literal.
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
