package outputs_test

import (
	"context"
	"fmt"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// printer is an output that prints the records of spans and the progress of the
// training.
type printer struct {
	outputs.None
	at *outputs.Progress
}

func (p *printer) Open(_ context.Context, t *outputs.Telemetry) (outputs.Traits, error) {
	p.at = t.Progress
	return outputs.Traits{Ordered: true, Inline: true}, nil
}

func (p *printer) Write(records []outputs.Record) error {
	for _, r := range records {
		fmt.Println(r.Kind, r.Event.Name, p.at.Epoch(), p.at.Step())
	}
	return nil
}

func Example() {
	ctx := context.Background()
	var out outputs.Output = &printer{}
	tel, err := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(config.Base{ApplicationName: "charlm"}).
		WithExporter(out).
		ConfigureProvider(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	tel.Progress().SetEpoch(2)
	tel.Progress().SetStep(41)
	_, sp := tel.StartSpan(ctx, "tokenize")
	sp.End()
	fmt.Println(tel.Progress().Epoch(), tel.Progress().Step(), outputs.KindStop.String())
	fmt.Println(tel.Shutdown(ctx), out.Stats().File.Records)
	// Output:
	// start span_start 2 41
	// stop span_stop 2 41
	// 2 41 stop
	// <nil> 0
}

// counting passes everything through and counts the records.
type counting struct {
	outputs.Output
	records int
}

// A decorator embeds an output and changes what it overrides.
func (c *counting) Write(records []outputs.Record) error {
	c.records += len(records)
	return c.Output.Write(records)
}

// An output can be used without a provider.
func ExampleOutput() {
	ctx := context.Background()
	t := &outputs.Telemetry{Progress: new(outputs.Progress)}
	out := &counting{Output: &printer{}}
	traits, err := out.Output.Open(ctx, t)
	fmt.Println(traits.Ordered, err)
	span := &outputs.SpanData{Name: "tokenize"}
	if err := out.Write([]outputs.Record{{Kind: outputs.KindEvent, Span: span, Event: outputs.Event{Name: "shard"}}}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(out.records, out.Shutdown(ctx))
	// Output:
	// true <nil>
	// event shard -1 -1
	// 1 <nil>
}
