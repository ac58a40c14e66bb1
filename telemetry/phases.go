package telemetry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/record/phase"
	"github.com/trainspan/trainspan/internal/record/spantree"
	"github.com/trainspan/trainspan/spans"
)

// A StartOption is a parameter for the start of a standard span: a [Start], and
// for some spans [LoopStart], [Epoch], [SaveStart] or [Finalization]. An option
// of a type that does not belong to the span is an error.
type StartOption interface {
	start(r *repairs, p *startParams) error
}

// An endOption is a parameter for the end of a standard span: an [End], an
// [IterationEnd] or a [Finalization].
type endOption interface{ end(e *ending) }

// ending collects the options of an end.
type ending struct {
	finishing
	step int
}

func (e End) end(to *ending) { to.End = e }
func (e IterationEnd) end(to *ending) {
	to.used, to.End = spantree.Consumed{Loss: e.Loss, Samples: e.Samples, Tokens: e.Tokens}, End{Time: e.Time, Err: e.Err}
}
func (f Finalization) end(to *ending) { to.step, to.End = f.GlobalStep, End{Time: f.Time, Err: f.Err} }

func (s Start) start(r *repairs, p *startParams) error { //nolint:unparam // others have one
	p.setTime(s.Time)
	for _, a := range r.cleanCopy(s.Attributes) {
		p.attrs = upsert(p.attrs, a)
	}
	return nil
}

func (p *startParams) setTime(at time.Time) {
	if !at.IsZero() {
		p.at = at
	}
}

func (l LoopStart) start(_ *repairs, p *startParams) error {
	p.loop = spantree.LoopStart{
		Iterations: l.IterationsStart, Samples: fixed(l.SamplesStart),
		IterationsTarget: fixed(l.IterationsTarget), SamplesTarget: fixed(l.SamplesTarget),
	}
	p.setTime(l.Time)
	return p.belongs("LoopStart", phase.Training)
}

// fixed returns the value; if it is a function, it is called now.
func fixed(v config.Var[int]) (o attributes.Opt[int64]) {
	if v.IsSet() {
		o = attributes.Some(int64(v.Get()))
	}
	return o
}

func (e Epoch) start(_ *repairs, p *startParams) error {
	p.step = int(e)
	p.attrs = upsert(p.attrs, attrvalue.Extend(attrvalue.Int(attributes.Epoch, int64(e)))[0])
	return p.belongs("Epoch", phase.Epoch)
}

func (s SaveStart) start(_ *repairs, p *startParams) error {
	p.step = s.GlobalStep
	p.setTime(s.Time)
	return p.belongs("SaveStart", phase.SaveSync, phase.SaveAsync)
}

func (f Finalization) start(_ *repairs, p *startParams) error {
	p.step = f.GlobalStep
	p.setTime(f.Time)
	return p.belongs("Finalization", phase.Finalization)
}

func (p *startParams) belongs(option string, indexes ...int) error {
	for _, i := range indexes {
		if p.index == i {
			return nil
		}
	}
	return fmt.Errorf("%s belongs to the span %s, not to %s", option, spans.At(indexes[0]).Name, p.name)
}

// standard collects what the start of a standard span needs. name is in the
// table, or is spans.CheckpointSave for a save with the configured strategy.
func (p *startParams) standard(r *Recorder, name string, options []StartOption) error {
	p.name, p.index = name, spans.Index(name)
	switch {
	case name == spans.CheckpointSave, p.index == phase.SaveSync, p.index == phase.SaveAsync:
		p.values = r.values(false)
		p.name, p.index = spans.CheckpointSaveSync, phase.SaveSync
		if p.values.Async {
			p.name, p.index = spans.CheckpointSaveAsync, phase.SaveAsync
		}
		if name != spans.CheckpointSave && name != p.name {
			return fmt.Errorf("%s cannot be started: the training configuration selects %s; start spans.CheckpointSave, "+
				"which follows the configuration", name, p.name)
		}
	case p.index < 0:
		return fmt.Errorf("%q is not a standard span: call StartSpan for a custom span, or use a name from package spans", name)
	case p.index == phase.Training:
		p.values = r.values(true)
	}
	if len(options) > 0 {
		if err := p.with(&r.repairs, options); err != nil {
			return err
		}
	}
	if need := neededBy(p.index); need != "" && !anyGiven(options) {
		return fmt.Errorf("%s requires attributes: pass a %s when starting it", p.name, need)
	}
	return nil
}

// with applies options. It makes them escape, which starts without options
// avoid.
func (p *startParams) with(r *repairs, options []StartOption) error {
	own := new(startParams)
	*own = *p
	for _, o := range options {
		if o != nil {
			if err := o.start(r, own); err != nil {
				return err
			}
		}
	}
	*p = *own
	return nil
}

// neededBy returns the option that a span requires to start.
func neededBy(index int) string {
	switch index {
	case phase.Epoch:
		return "telemetry.Epoch"
	case phase.SaveSync, phase.SaveAsync:
		return "telemetry.SaveStart"
	case phase.Finalization:
		return "telemetry.Finalization"
	}
	return ""
}

func anyGiven(options []StartOption) bool {
	for _, o := range options {
		switch o.(type) {
		case Epoch, SaveStart, Finalization:
			return true
		}
	}
	return false
}

// StartPhase starts a standard span for a callback: it becomes the parent of
// what is started without a context, except for a finalization; several of
// these may be open for different steps. The error follows the error strategy;
// a recorder that is off returns none.
func (r *Recorder) StartPhase(ctx context.Context, name string, options ...StartOption) (context.Context, error) {
	if r == nil || r.idle(name) {
		return ctx, nil
	}
	var p startParams
	err := p.standard(r, name, options)
	if err != nil {
		return ctx, r.fail(phase.CallsOf(p.index).Start, err)
	}
	p.ambient = p.index != phase.Finalization
	ctx, _, err = r.begin(ctx, &p)
	return ctx, silent(err)
}

// EndPhase ends the open standard span of that name. Options are an [End], an
// [IterationEnd] or a [Finalization]. spans.CheckpointSave ends the open save;
// a finalization is found by its step.
func (r *Recorder) EndPhase(name string, options ...endOption) error {
	if !r.Recording() {
		return nil
	}
	var e ending
	if len(options) > 0 {
		e.with(options)
	}
	index := spans.Index(name)
	calls := phase.CallsOf(index)
	var s *Span
	err := r.while(func() (err error) {
		switch {
		case index == phase.Finalization:
			if s = r.tree.finalize[int64(e.step)]; s == nil {
				err = fmt.Errorf("the finalization of the checkpoint of step %d is not active", e.step)
			}
			return err
		case name == spans.CheckpointSave, index == phase.SaveSync, index == phase.SaveAsync:
			index = phase.SaveSync
			if r.tree.isOpen(phase.SaveAsync) {
				index = phase.SaveAsync
			}
			calls = phase.CallsOf(index)
		case index < 0:
			calls.End = phase.Call{Record: "end", Text: "EndPhase"}
			return fmt.Errorf("%q is not a standard span", name)
		}
		if s, err = r.tree.named(index); err != nil && phase.Timed(index) {
			err = errors.New("Cannot stop timer since it is not active")
		}
		return err
	})
	switch {
	case err == nil:
		return silent(r.finish(s, &e.finishing))
	case silent(err) == nil:
		return nil
	}
	err = r.fail(calls.End, err)
	if index == phase.Application && r.lacksApplication() { // its end is the end of the recording all the same
		_ = r.Close(context.Background()) // logged where it happens
	}
	return err
}

// lacksApplication reports whether the application is not open because its start was
// refused.
func (r *Recorder) lacksApplication() (lacks bool) {
	r.locked(func() { lacks = r.refusedApp && !r.tree.isOpen(phase.Application) })
	return lacks
}

// with applies options. It makes them escape, which ends without options avoid.
func (e *ending) with(options []endOption) {
	own := new(ending)
	for _, o := range options {
		if o != nil {
			o.end(own)
		}
	}
	*e = *own
}
