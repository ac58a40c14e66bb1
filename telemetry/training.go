package telemetry

import (
	"errors"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/settings"
	"github.com/trainspan/trainspan/telemetry/internal/books"
	"github.com/trainspan/trainspan/telemetry/internal/failure"
	"github.com/trainspan/trainspan/telemetry/internal/phase"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// SetTrainingConfig sets the training configuration of a job that learns it
// after its start. It can be set once. Without an open application span it is
// stored, to be reported when the application starts, and the call is an error.
func (p *Provider) SetTrainingConfig(t config.Training) error {
	if p == nil {
		return errNotConfigured
	}
	r := p.rec
	name := phase.Call{Record: "set_training_telemetry_config", Text: "SetTrainingConfig"}
	if err := settings.Validate(&config.Config{Base: config.Base{Training: &t}}, "training.", "training."); err != nil {
		return r.fail(name, err)
	}
	whole := config.Base{ApplicationName: r.base.ApplicationName, Training: &t}
	t = *whole.WithDefaults(config.Ranks{}).Training
	content, err := books.TrainingEvent(&t)
	if err != nil {
		return r.fail(name, err)
	}
	content = r.repairs.clean(content)
	c := call{now: r.time.now()}
	err = r.while(func() error {
		if !r.training.CompareAndSwap(nil, &t) {
			return errTrainingSet
		}
		app, err := r.tree.named(phase.Application)
		if err != nil {
			return errNoApplication
		}
		r.out.event(&c, app, outputs.KindEvent, configEvent(content, c.now), false)
		return nil
	})
	r.out.deliver(&c)
	if silent(err) == nil {
		return nil
	}
	return silent(r.fail(name, err))
}

var (
	errTrainingSet   = errors.New("Training telemetry config has already been set.")
	errNoApplication = &failure.Worded{
		Text:   "the training configuration cannot be reported before the application has started: call OnAppStart first",
		Record: "Cannot update training metrics: Please call on_app_start() before calling this method.",
	}
)
