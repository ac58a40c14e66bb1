package ai

import (
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/record/active"
	"github.com/trainspan/trainspan/internal/record/settings"
)

// Bounds of what a program can make grow.
const (
	maxNodes = 1024 // nodes and names that a tree keeps: every Update visits each of them
	maxArgs  = 128  // arguments of a node: every line has them
	maxHooks = 1024 // scopes of a node that Begin started and Stop did not end
)

// Each warning is logged once per process.
var warned struct {
	noDefault, requested, unrecorded, hooks, args, nodes atomic.Bool
}

// warnNoProvider warns that scopes are not recorded because there is no
// provider, if something shows that they are wanted. Otherwise a library that
// uses the tree would log in programs without telemetry.
func warnNoProvider() {
	active.Rest() // later changes are noticed at the next check
	switch {
	case active.Providers() > 0:
		warn(&warned.noDefault, "ai scopes are not recorded: no default telemetry provider is set; "+
			"call telemetry.SetDefault, or use ai.NewTree(provider)")
	case settings.TraceRequested(os.LookupEnv):
		warn(&warned.requested, "ai scopes are not recorded: the environment enables tracing, but the program configured "+
			"no telemetry provider; configure one and call telemetry.SetDefault before the first scope")
	}
}

// warnUnrecorded warns that no output of the provider accepts scopes.
func warnUnrecorded() {
	warn(&warned.unrecorded, "ai scopes are not recorded: the provider has no trace file, and no exporter selects them; "+
		"add a trace file, or name the scopes in the export customization")
}

func warnHooks(node fmt.Stringer) {
	warn(&warned.hooks, "too many ai scopes are open: Begin started them, and Stop was not called; the oldest are written as truncated",
		"node", node.String(), "limit", maxHooks)
}

func warnArgs(node fmt.Stringer) {
	warn(&warned.args, "too many distinct argument keys on ai nodes; further keys of Update and With are dropped: pass values that vary to single scopes",
		"node", node.String(), "limit", maxArgs)
}

func warnNodes(node fmt.Stringer) {
	warn(&warned.nodes, "too many distinct names of ai nodes; scopes with further names are recorded, but Update, Enable and Disable do not "+
		"affect them: leave counters out of names", "node", node.String(), "limit", maxNodes)
}

func warn(once *atomic.Bool, message string, args ...any) {
	if once.CompareAndSwap(false, true) {
		slog.Warn(message, append(args, "see", helptopic.Scopes)...)
	}
}
