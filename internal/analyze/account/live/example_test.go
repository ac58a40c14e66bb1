package live_test

import (
	"context"
	"fmt"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/analyze/account/live"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
)

func Example() {
	ctx := context.Background()
	c := &clock{now: time.Unix(1_700_000_000, 0)}
	books := live.New(live.Options{})
	tel, err := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(config.Base{ApplicationName: "charlm"}).
		WithClock(c.Now).
		WithExporter(books).
		ConfigureProvider(ctx)
	if err != nil {
		panic(err)
	}
	ctx, app := tel.Start(ctx, spans.Application)
	c.pass(4 * time.Second) // the program starts up
	ctx, loop := tel.Start(ctx, spans.TrainingLoop)
	for range 6 {
		_, step := tel.Start(ctx, spans.TrainingIteration)
		c.pass(time.Second)
		step.End()
	}
	fmt.Println(books.Snapshot().Ratio())
	loop.End()
	app.End()
	fmt.Println(tel.Shutdown(ctx))
	// Output:
	// 0.6
	// <nil>
}
