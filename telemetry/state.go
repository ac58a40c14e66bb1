package telemetry

import (
	"errors"
	"fmt"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/record/failure"
	"github.com/trainspan/trainspan/internal/record/phase"
	"github.com/trainspan/trainspan/internal/record/settings"
	"github.com/trainspan/trainspan/internal/record/spantree"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// locked calls do under the lock.
func (r *Recorder) locked(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
}

// while calls do under the lock, unless recording has ended.
func (r *Recorder) while(do func() error) (err error) {
	r.locked(func() {
		if err = r.ended; err == nil {
			err = do()
		}
	})
	return err
}

// why returns why recording has ended, or nil.
func (r *Recorder) why() error { return r.while(func() error { return nil }) }

// prepare checks the start of a standard span, reserves its name and starts its
// counters. The caller holds the lock.
func (r *Recorder) prepare(c *call, s *Span, p *startParams, t int64) (err error) {
	if p.index == phase.Training { // if it is refused because one is open, its start values are set anyway
		open := r.tree.byName[p.index] != nil
		if s.data.Attributes, err = r.books.StartLoop(&p.loop, &p.values, t, open, nil); err != nil {
			return err
		}
	}
	if err = r.tree.free(p); err != nil {
		return err
	}
	switch p.index {
	case phase.Training:
		r.progress.SetStep(r.books.Done())
	case phase.SaveSync, phase.SaveAsync:
		if err := p.values.Required(); err != nil {
			return err
		}
		s.data.Attributes = r.books.StartSave(p.index, s.step, &p.values, nil)
	case phase.Finalization:
		s.data.Attributes = attrvalue.Extend(attrvalue.Int(onelogger.CurrentIteration, s.step))
	case phase.Iteration:
		r.progress.SetStep(r.books.Done())
		if !r.books.Training() || r.tree.byName[phase.Training] == nil {
			c.warn(warnOutsideLoop, "a training iteration was started outside a training loop; call OnTrainStart or start spans.TrainingLoop first")
		}
	case phase.Epoch:
		r.progress.SetEpoch(s.step)
	}
	r.books.Start(p.index)
	r.tree.reserve(s)
	return nil
}

// opened adds the span to the open ones and writes its start.
func (r *Recorder) opened(c *call, s *Span, first []outputs.Event) {
	r.locked(func() {
		if r.ended != nil { // telemetry ended while the span was being started
			s.state = spanEnded
			c.ends = append(c.ends, otelEnd{span: s, at: s.data.Start})
			return
		}
		r.tree.add(s)
		r.out.edge(c, s, outputs.KindStart, outputs.Event{Name: spans.EventSpanStart, Time: s.data.Start, Attributes: s.data.StartAttributes})
		for _, e := range first {
			r.out.event(c, s, outputs.KindEvent, e, false)
		}
	})
}

// finishing holds the end of a span, with what is determined before the lock is
// taken.
type finishing struct {
	End
	at      int64
	wrong   error // an invalid time
	used    spantree.Consumed
	failure *failure.Failure
	known   bool // the failure is on record, see onRecord
}

// end is the part of finish under the lock. It reports whether the span was
// open and ended.
func (r *Recorder) end(c *call, s *Span, e *finishing, v *spantree.Values) (ended bool, problem error) {
	if r.ended != nil || s.state != spanOpen {
		if s.state == spanEnded && r.ended == nil && !e.again {
			c.warn(warnSecondEnd, "a span was ended twice; the second end has no effect", "span", s.data.Name)
		}
		return false, nil
	}
	if e.wrong != nil {
		return false, e.wrong
	}
	t, repaired := r.notBefore(s, e.at)
	f, own := e.failure, false
	if f == nil && s.rare != nil && s.rare.failed != nil {
		f, own = s.rare.failed, true
	}
	if s.index >= 0 {
		used := e.used
		if s.rare != nil {
			used = s.rare.consumed
			used.Add(e.used)
		}
		loop, _ := r.tree.named(phase.Training)
		problem = r.books.End(&spantree.Ending{
			Index: s.index, Step: s.step, At: t, Took: t - s.data.Start, Now: c.now, Failure: f, Repaired: repaired,
			Used: used, Loop: loop != nil, Unread: loop != nil && !r.out.recorded(loop) && !r.out.spanned(loop),
		}, v, r.out.meters != nil, &c.entry)
		switch {
		case s.index == phase.Iteration && f == nil && v.Required() == nil:
			r.progress.SetStep(r.books.Done() - 1)
		case s.index == phase.Epoch:
			r.progress.SetEpoch(-1)
		}
		r.out.entry(c, s, loop, f)
	}
	if f != nil && !own && !e.known && !s.erredLike(f) {
		r.out.event(c, s, outputs.KindError, f.Event("Error in "+s.data.Name+": ", t), s.index >= 0)
	}
	if f != nil && !own && s.parent != nil {
		s.parent.failing().inner = f.Err
	}
	r.tree.remove(s)
	c.own = r.out.stop(c, s, t, nil, f)
	return true, problem
}

// saveSpan returns the open span that a save's result belongs to: the save
// itself, or the application for an asynchronous one, whose span has ended.
func (r *Recorder) saveSpan(v *spantree.Values) (*Span, error) {
	if v.Async {
		return r.tree.named(phase.Application)
	}
	return r.tree.named(phase.SaveSync)
}

// succeeds reports whether the result of a save is outstanding, and the save has not
// failed.
func (r *Recorder) succeeds(s *Span) (succeeds bool) {
	r.locked(func() { succeeds = r.books.Pending(s.step) && (s.rare == nil || s.rare.failed == nil) })
	return succeeds
}

// onRecord reports whether err is on record as that with which the span ends, or as the
// latest error of the span, or of a span below, and no span has started since. Later, the
// same error is another failure: many have a common cause, such as
// context.DeadlineExceeded.
func (r *Recorder) onRecord(s *Span, err error) bool {
	if s == nil || err == nil {
		return false
	}
	var inner error
	var last, failed *failure.Failure
	r.locked(func() {
		if s.rare == nil {
			return
		}
		failed = s.rare.failed
		if s.rare.asOf == r.tree.started {
			inner, last = s.rare.inner, s.rare.last
		}
	})
	same := func(f *failure.Failure) bool { return f != nil && f.Err != nil && failure.Same(err, f.Err) }
	return inner != nil && failure.Same(err, inner) || same(last) || same(failed)
}

// erredLike reports whether f has the text of the error with which the span ends, or of
// its latest error if no span has started since. An error of another process is a new
// value each time.
func (s *Span) erredLike(f *failure.Failure) bool {
	if s.rare == nil {
		return false
	}
	like := func(of *failure.Failure) bool { return of != nil && of.Text == f.Text }
	return like(s.rare.failed) || s.rare.asOf == s.rec.tree.started && like(s.rare.last)
}

// setAttrs is the part of SetAttrs under the lock.
func (r *Recorder) setAttrs(c *call, s *Span, attrs []attributes.Attr) error {
	if s.state != spanOpen {
		return errNotRunning
	}
	for _, a := range attrs {
		if len(s.data.Attributes) >= maxAttributes && !has(s.data.Attributes, a.Key) {
			s.rec.repairs.values.Add(1)
			c.warn(warnAttributes, "a span has too many attributes; the rest are dropped", "span", s.data.Name, "limit", maxAttributes)
			continue
		}
		s.data.Attributes = upsert(s.data.Attributes, a)
	}
	if r.out.recorded(s) {
		r.out.record(c, s, &outputs.Record{Kind: outputs.KindUpdate})
	}
	return nil
}

// stopOpen is the part of stopAll under the lock.
func (r *Recorder) stopOpen(c *call, why error) bool {
	if r.ended != nil {
		return false
	}
	for s := r.tree.last; s != nil; s = r.tree.last {
		r.stopByForce(c, s, c.now, nil, nil)
		c.ends[len(c.ends)-1].truncated = true
	}
	r.ended = why
	r.off.Store(true)
	return true
}

// stopByForce stops an open span at the end of the job, or through Stop of the
// recorder. For a timed span it adds a message about its timer. The caller
// holds the lock.
func (r *Recorder) stopByForce(c *call, s *Span, t int64, attrs []attributes.Attr, f *failure.Failure) {
	t, _ = r.notBefore(s, t)
	if phase.Timed(s.index) {
		r.books.Force(s.index, t-s.data.Start)
		r.out.event(c, s, outputs.KindError, (*failure.Failure)(nil).Event(fmt.Sprintf(forcedTimer, s.data.Name), c.now), false)
	}
	r.tree.remove(s)
	c.ends = append(c.ends, r.out.stop(c, s, t, attrs, f))
}

// forcedTimer is one-logger's message, which log readers match.
const forcedTimer = "Timer for span %s was automatically stopped because the span is being stopped. " +
	"This may indicate that the corresponding on_xxx_end method was not called correctly. " +
	"If the program exited properly, please double-check your on_xxx_end callback. " +
	"If the program exited abnormally (e.g., due to an exception), this is expected."

// notBefore keeps an end from being before its start: if the clock was set
// back, the span gets no length, which is counted. The caller holds the lock.
func (r *Recorder) notBefore(s *Span, t int64) (end int64, repaired bool) {
	if t < s.data.Start {
		r.repairedTimes++
		return s.data.Start, true
	}
	return t, false
}

// values reads the training configuration, with the targets if asked.
func (r *Recorder) values(targets bool) spantree.Values {
	if r == nil {
		return spantree.Values{}
	}
	return spantree.Read(r.training.Load(), &r.base, targets)
}

// initEvent returns the content of the one_logger_initialization event.
func (r *Recorder) initEvent() (attrs []attributes.Attr, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a configuration function panicked: %v", p)
		}
	}()
	a := onelogger.Initialization{
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

// firstEvents returns the events that the start of the application records. It
// reads the whole configuration, which may call functions of the program, so it
// runs before the lock is taken.
func (r *Recorder) firstEvents(start, now int64, clean func([]attributes.Attr) []attributes.Attr) ([]outputs.Event, error) {
	attrs, err := r.initEvent()
	if err != nil {
		return nil, err
	}
	all := []outputs.Event{{Name: spans.EventOneLoggerInitialization, Time: start, Attributes: clean(attrs)}}
	if t := r.training.Load(); t != nil {
		if attrs, err = spantree.TrainingEvent(t); err != nil {
			return all, err
		}
		all = append(all, configEvent(clean(attrs), now))
	}
	return all, nil
}

func configEvent(attrs []attributes.Attr, at int64) outputs.Event {
	return outputs.Event{Name: spans.EventUpdateTrainingTelemetryConfig, Time: at, Attributes: attrs}
}

// SetTrainingConfig sets the training configuration of a job that learns it
// after its start. It can be set once. Without an open application span it is
// stored, to be reported when the application starts, and an error is returned.
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
	content, err := spantree.TrainingEvent(&t)
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
