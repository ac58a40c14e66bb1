package telemetry

import (
	"fmt"
	"sync/atomic"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/grammar"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/internal/books"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// facts are what is known of the run from its configuration.
type facts struct {
	base     config.Base
	id       Identity
	training atomic.Pointer[config.Training] // nil while it is not known
}

// values reads the training configuration; targets too if asked.
func (r *facts) values(targets bool) books.Values {
	if r == nil {
		return books.Values{}
	}
	return books.Read(r.training.Load(), &r.base, targets)
}

// initEvent returns the content of the one_logger_initialization event.
func (r *facts) initEvent() (attrs []attributes.Attr, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a configuration function panicked: %v", p)
		}
	}()
	a := grammar.Initialization{
		WorldSize:                int64(r.base.WorldSize.Get()),
		TelemetryVersion:         r.id.Version,
		EnableForCurrentRank:     r.base.EnableForCurrentRank.Or(true),
		SessionTag:               r.base.SessionTag.Get(),
		IsBaselineRun:            r.base.IsBaselineRun.Get(),
		SummaryDataSchemaVersion: r.base.SummaryDataSchemaVersion,
		NodeName:                 r.id.Host,
		Rank:                     int64(r.id.Rank.Get()),
	}
	if len(r.base.CustomMetadata) > 0 {
		a.CustomMetadata = r.base.CustomMetadata.Strings()
	}
	return a.Append(nil), nil
}

// firstEvents are the events that the start of the application records. They
// read the whole configuration, so that they are made before the lock is taken:
// its functions are the program's.
func (r *facts) firstEvents(start, now int64, clean func([]attributes.Attr) []attributes.Attr) ([]outputs.Event, error) {
	attrs, err := r.initEvent()
	if err != nil {
		return nil, err
	}
	all := []outputs.Event{{Name: spans.EventOneLoggerInitialization, Time: start, Attributes: clean(attrs)}}
	if t := r.training.Load(); t != nil {
		if attrs, err = books.TrainingEvent(t); err != nil {
			return all, err
		}
		all = append(all, configEvent(clean(attrs), now))
	}
	return all, nil
}

func configEvent(attrs []attributes.Attr, at int64) outputs.Event {
	return outputs.Event{Name: spans.EventUpdateTrainingTelemetryConfig, Time: at, Attributes: attrs}
}
