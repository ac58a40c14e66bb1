package pyring

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"github.com/trainspan/trainspan/telemetry"
)

// maxOwn bounds a program's own spans that are open at once.
const maxOwn = 65536

// ownCall holds the arguments of a call to one-logger's recorder. Its spans
// have numbers; those of callbacks are identified by name.
type ownCall struct {
	Span            any             `json:"span"`
	Parent          any             `json:"parent"`
	Name            string          `json:"name"`
	Message         string          `json:"message"`
	Attributes      json.RawMessage `json:"attributes"`
	StartAttributes json.RawMessage `json:"start_event_attributes"`
	StopAttributes  json.RawMessage `json:"stop_event_attributes"`
}

// replayOwn replays a program's calls about its own spans.
func (c *calls) replayOwn(name string, args []byte) error {
	var o ownCall
	v := values{}
	if len(args) > 0 {
		if err := json.Unmarshal(args, &o); err != nil {
			return err
		}
		_ = json.Unmarshal(args, &v) // the fields that the other call could parse
	}
	ctx, rec, s := context.Background(), c.tel.Recorder(), c.span(o.Span)
	switch name {
	case "start":
		_, s, err := rec.Start(ctx, o.Name, telemetry.SpanStart{
			Time: v.explicit("start_time_msec"), Parent: c.span(o.Parent),
			Attributes: attrs(o.Attributes), StartAttributes: attrs(o.StartAttributes),
		})
		if n, ok := o.Span.(float64); ok && s != nil && len(c.own) < maxOwn {
			c.own[int64(n)] = s
		}
		return err
	case "stop":
		if n, ok := o.Span.(float64); ok {
			delete(c.own, int64(n))
		}
		return rec.Stop(s, telemetry.End{Time: v.explicit("finish_time_msec"), Err: v.failure()}, attrs(o.StopAttributes)...)
	case "set":
		s.SetAttrs(attrs(o.Attributes)...)
		return nil
	case "event":
		own := slices.DeleteFunc(attrs(o.Attributes), func(a attributes.Attr) bool { return string(a.Key) == onelogger.TimestampMsec })
		return rec.Event(s, o.Name, own, v.explicit("time_msec"))
	case "error":
		return rec.Error(s, o.Message, v.failure())
	case "telemetry_data_error":
		return rec.TelemetryDataError(o.Message, attrs(o.Attributes))
	case "close":
		c.ended = true
		return rec.Close(ctx)
	}
	return fmt.Errorf("unknown callback %q", name)
}

// span returns an open span by its number, or a callback's by its name.
func (c *calls) span(ref any) *telemetry.Span {
	switch ref := ref.(type) {
	case float64:
		return c.own[int64(ref)]
	case string:
		if open := c.tel.Recorder().ActiveSpans(ref); len(open) > 0 {
			return open[0]
		}
	}
	return nil
}

// explicit returns a time in milliseconds, or the zero time.
func (v values) explicit(key string) time.Time {
	if _, ok := v.number(key); !ok {
		return time.Time{}
	}
	return v.timeOf(key, 0)
}

// exception is an exception of the program.
type exception struct{ kind, message, trace string }

func (e *exception) Error() string          { return e.message }
func (e *exception) ErrorType() string      { return e.kind }
func (e *exception) ErrorTraceback() string { return e.trace }

// failure returns the exception with which something ended, or nil.
func (v values) failure() error {
	kind, _ := v["exception_type"].(string)
	if kind == "" {
		return nil
	}
	message, _ := v["exception_message"].(string)
	trace, _ := v["exception_traceback"].(string)
	return &exception{kind, message, trace}
}

// attrs returns the members of a JSON object in order.
func attrs(text json.RawMessage) (all []attributes.Attr) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for d.More() && len(all) < maxArgs {
		key, err := d.Token()
		name, ok := key.(string)
		var value any
		if err != nil || !ok || d.Decode(&value) != nil {
			break
		}
		all = append(all, attrvalue.Any(name, value))
	}
	return all
}
