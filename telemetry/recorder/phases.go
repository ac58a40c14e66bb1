package recorder

import (
	"context"
	"fmt"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/spans"
)

// A StartOption says what a start of a standard span needs to know: a [Start],
// and for some spans a type of their own. A type that does not belong to the
// span is an error.
type StartOption interface {
	start(r *Recorder, p *startParams) error
}

// An EndOption says what an end of a standard span needs to know: an [End], an
// [IterationEnd] or a [Finalization].
type EndOption interface{ end(e *ending) }

// ending gathers the options of an end.
type ending struct {
	End
	iteration IterationEnd
	step      int
}

func (e End) end(to *ending)          { to.End = e }
func (e IterationEnd) end(to *ending) { to.iteration, to.End = e, End{Time: e.Time, Err: e.Err} }
func (f Finalization) end(to *ending) { to.step, to.End = f.GlobalStep, End{Time: f.Time, Err: f.Err} }

func (s Start) start(r *Recorder, p *startParams) error {
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

func (l LoopStart) start(r *Recorder, p *startParams) error {
	p.loop = l
	p.setTime(l.Time)
	return belongs(p, "LoopStart", indexTraining)
}

func (e Epoch) start(r *Recorder, p *startParams) error {
	p.step = int(e)
	p.attrs = upsert(p.attrs, attributes.Extend(attributes.Int(attributes.Epoch, int64(e)))[0])
	return belongs(p, "Epoch", indexEpoch)
}

func (s SaveStart) start(r *Recorder, p *startParams) error {
	p.step = s.GlobalStep
	p.setTime(s.Time)
	return belongs(p, "SaveStart", indexSaveSync, indexSaveAsync)
}

func (f Finalization) start(r *Recorder, p *startParams) error {
	p.step = f.GlobalStep
	p.setTime(f.Time)
	return belongs(p, "Finalization", indexFinalize)
}

func belongs(p *startParams, option string, indexes ...int) error {
	for _, i := range indexes {
		if p.index == i {
			return nil
		}
	}
	return fmt.Errorf("%s belongs to the span %s, not to %s", option, spans.At(indexes[0]).Name, p.name)
}

// standard gathers what the start of a standard span needs. name is that of a
// row of the table, or spans.CheckpointSave for a save by the configured
// strategy.
func (r *Recorder) standard(name string, options []StartOption) (p startParams, err error) {
	p = startParams{name: name, index: spans.Index(name)}
	switch {
	case name == spans.CheckpointSave, p.index == indexSaveSync, p.index == indexSaveAsync:
		p.values = r.values(false)
		p.name, p.index = spans.CheckpointSaveSync, indexSaveSync
		if p.values.async {
			p.name, p.index = spans.CheckpointSaveAsync, indexSaveAsync
		}
		if name != spans.CheckpointSave && name != p.name {
			return p, fmt.Errorf("%s cannot be started: the training configuration says %s; start spans.CheckpointSave, "+
				"which follows the configuration", name, p.name)
		}
	case p.index < 0:
		return p, fmt.Errorf("%q is not a standard span: use StartSpan for a span of your own, or a name of package spans", name)
	case p.index == indexTraining:
		p.values = r.values(true)
	}
	if len(options) > 0 {
		if p, err = r.with(p, options); err != nil {
			return p, err
		}
	}
	if need := neededBy(p.index); need != "" && !given(options) {
		return p, fmt.Errorf("%s needs to know more: give a %s to its start", p.name, need)
	}
	return p, nil
}

// with applies options. What they get escapes, which starts without options
// need not pay for.
func (r *Recorder) with(p startParams, options []StartOption) (startParams, error) {
	own := new(startParams)
	*own = p
	for _, o := range options {
		if o != nil {
			if err := o.start(r, own); err != nil {
				return p, err
			}
		}
	}
	return *own, nil
}

// neededBy is the option without which a span cannot be started.
func neededBy(index int) string {
	switch index {
	case indexEpoch:
		return "telemetry.Epoch"
	case indexSaveSync, indexSaveAsync:
		return "telemetry.SaveStart"
	case indexFinalize:
		return "telemetry.Finalization"
	}
	return ""
}

func given(options []StartOption) bool {
	for _, o := range options {
		switch o.(type) {
		case Epoch, SaveStart, Finalization:
			return true
		}
	}
	return false
}

// StartPhase starts a standard span for a callback: it becomes the parent of
// what is started without a context, except for a finalization, of which
// several may be open for different steps. The error follows the error
// strategy; a recorder that is off gives none.
func (r *Recorder) StartPhase(ctx context.Context, name string, options ...StartOption) (context.Context, error) {
	if !r.Recording() {
		r.late(name)
		return ctx, nil
	}
	p, err := r.standard(name, options)
	if err != nil {
		return ctx, r.fail(namesOf(p.index).start, err)
	}
	p.ambient = p.index != indexFinalize
	ctx, _, err = r.begin(ctx, &p)
	return ctx, silent(err)
}

// EndPhase ends the open standard span of that name; spans.CheckpointSave ends
// the save that is open, and a finalization is found by its step.
func (r *Recorder) EndPhase(name string, options ...EndOption) error {
	if !r.Recording() {
		return nil
	}
	var e ending
	if len(options) > 0 {
		e = endingOf(options)
	}
	index := spans.Index(name)
	switch {
	case index == indexFinalize:
		return r.endFinalization(&e)
	case name == spans.CheckpointSave, index == indexSaveSync, index == indexSaveAsync:
		index = indexSaveSync
		if _, err := r.named(indexSaveAsync); err == nil {
			index = indexSaveAsync
		}
	case index < 0:
		return r.fail(callName{"end", "EndPhase"}, fmt.Errorf("%q is not a standard span", name))
	case index == indexIteration:
		if s, err := r.named(index); err == nil {
			s.setIteration(e.iteration)
		}
	}
	return silent(r.finishNamed(index, e.End))
}

func endingOf(options []EndOption) ending {
	e := new(ending) // it escapes
	for _, o := range options {
		if o != nil {
			o.end(e)
		}
	}
	return *e
}

func (r *Recorder) endFinalization(e *ending) error {
	var s *Span
	err := r.locked(nil, func() error {
		s = r.finalize[int64(e.step)]
		return nil
	})
	switch {
	case err != nil:
		return nil
	case s == nil:
		return r.fail(callbackNames[indexFinalize].end, fmt.Errorf("the finalization of the checkpoint of step %d is not active", e.step))
	}
	return silent(r.finish(s, e.End))
}
