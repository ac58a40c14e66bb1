// Command ai_guide has the programs of DFTracer's guide to AI tracing, in Go:
// the complete training loop, hooks of a framework, iterators, decorators, and
// epochs as metadata. Each writes a trace.
//
//	go run ./examples/ai_guide -program loop -out trace.pfw
//
// The golden files in testdata show the lines of each.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/telemetry"
)

var programs = map[string]func(context.Context) error{
	"loop": loop, "hooks": hooks, "iterators": iterators, "decorators": decorators, "metadata": metadata,
}

func main() {
	switch err := command(os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp): // it was printed
	case err != nil:
		fmt.Fprintln(os.Stderr, "ai_guide:", err)
		os.Exit(1)
	}
}

// command is the program without the process around it.
func command(args []string) error {
	fs := flag.NewFlagSet("ai_guide", flag.ContinueOnError)
	names := strings.Join(slices.Sorted(maps.Keys(programs)), ", ")
	name := fs.String("program", "loop", "which program: "+names)
	out := fs.String("out", "trace.pfw", "trace file; .pfw.gz compresses it")
	if err := fs.Parse(args); err != nil {
		return err
	}
	program, ok := programs[*name]
	if !ok {
		return fmt.Errorf("-program %s: want one of %s", *name, names)
	}
	return traced(context.Background(), *out, program)
}

// traced runs a program with a trace of the default tree.
func traced(ctx context.Context, out string, program func(context.Context) error) (err error) {
	trace, err := pfw.Create(out, &pfw.Options{NoBegin: true})
	if err != nil {
		return err
	}
	tel, err := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(config.Base{ApplicationName: "ai_guide", SessionTag: config.Value("ai_guide"), WorldSize: config.Value(1)}).
		WithSpanProcessor(trace).
		ConfigureProvider(ctx)
	if err != nil {
		return err
	}
	defer telemetry.SetDefault(tel)()
	defer func() { err = errors.Join(err, tel.Shutdown(ctx)) }()
	return program(ctx)
}
