package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Query is a client of Jaeger's query API.
type Query struct {
	URL string
}

// Span is a span in Jaeger's response.
type Span struct {
	TraceID    string
	SpanID     string
	ParentID   string // empty for a root
	Name       string
	Start, End int64 // nanoseconds since the Unix epoch
	Failed     bool
	Status     string // the status message
	Attributes map[string]any
	Resource   map[string]any
	Scope      string
	Events     []Event
	Links      []Link
}

// Event is an event of a [Span].
type Event struct {
	Name       string
	Time       int64 // nanoseconds since the Unix epoch
	Attributes map[string]any
}

// Link is a link of a [Span].
type Link struct {
	TraceID, SpanID string
	Attributes      map[string]any
}

// Services returns the names of the services that Jaeger knows.
func (q *Query) Services(ctx context.Context) ([]string, error) {
	var answer struct {
		Data []string `json:"data"`
	}
	return answer.Data, q.get(ctx, "/api/services", nil, &answer)
}

// Spans returns the spans of all traces of a service that began in the last
// hour.
func (q *Query) Spans(ctx context.Context, service string) ([]Span, error) {
	now := time.Now()
	var answer traces
	err := q.get(ctx, "/api/v3/traces", url.Values{
		"query.service_name":   {service},
		"query.start_time_min": {now.Add(-time.Hour).UTC().Format(time.RFC3339Nano)},
		"query.start_time_max": {now.Add(time.Minute).UTC().Format(time.RFC3339Nano)},
		"query.num_traces":     {"1000"},
	}, &answer)
	if errors.Is(err, errNotFound) {
		return nil, nil
	}
	return answer.spans(), err
}

// Trace returns the spans of one trace.
func (q *Query) Trace(ctx context.Context, id string) ([]Span, error) {
	var answer traces
	err := q.get(ctx, "/api/v3/traces/"+id, nil, &answer)
	return answer.spans(), err
}

var errNotFound = errors.New("servers: not found")

func (q *Query) get(ctx context.Context, path string, values url.Values, answer any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, q.URL+path+"?"+values.Encode(), nil)
	if err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	request.Close = true // leaves no idle connection
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	defer func() { _ = r.Body.Close() }()
	body, err := io.ReadAll(r.Body)
	switch {
	case err != nil:
		return fmt.Errorf("servers: %s: %w", path, err)
	case r.StatusCode == http.StatusNotFound:
		return errNotFound
	case r.StatusCode != http.StatusOK:
		return fmt.Errorf("servers: %s: %s: %.300s", path, r.Status, body)
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("servers: %s: %w", path, err)
	}
	return nil
}

// traces is a response with spans in OTLP's JSON form.
type traces struct {
	Result struct {
		ResourceSpans []struct {
			Resource struct {
				Attributes []attr `json:"attributes"`
			} `json:"resource"`
			ScopeSpans []struct {
				Scope struct {
					Name string `json:"name"`
				} `json:"scope"`
				Spans []span `json:"spans"`
			} `json:"scopeSpans"`
		} `json:"resourceSpans"`
	} `json:"result"`
}

type span struct {
	TraceID           string `json:"traceId"`
	SpanID            string `json:"spanId"`
	ParentSpanID      string `json:"parentSpanId"`
	Name              string `json:"name"`
	StartTimeUnixNano string `json:"startTimeUnixNano"`
	EndTimeUnixNano   string `json:"endTimeUnixNano"`
	Attributes        []attr `json:"attributes"`
	Events            []struct {
		Name         string `json:"name"`
		TimeUnixNano string `json:"timeUnixNano"`
		Attributes   []attr `json:"attributes"`
	} `json:"events"`
	Links []struct {
		TraceID    string `json:"traceId"`
		SpanID     string `json:"spanId"`
		Attributes []attr `json:"attributes"`
	} `json:"links"`
	Status struct {
		Code    any    `json:"code"`
		Message string `json:"message"`
	} `json:"status"`
}

type attr struct {
	Key   string `json:"key"`
	Value value  `json:"value"`
}

type value struct {
	String *string  `json:"stringValue"`
	Int    *string  `json:"intValue"`
	Double *float64 `json:"doubleValue"`
	Bool   *bool    `json:"boolValue"`
	Array  *struct {
		Values []value `json:"values"`
	} `json:"arrayValue"`
}

// any returns a string, int64, float64, bool, or []any.
func (v value) any() any {
	switch {
	case v.String != nil:
		return *v.String
	case v.Int != nil:
		return number(*v.Int)
	case v.Double != nil:
		return *v.Double
	case v.Bool != nil:
		return *v.Bool
	case v.Array != nil:
		var all []any
		for _, e := range v.Array.Values {
			all = append(all, e.any())
		}
		return all
	}
	return nil
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64) // zero if it is missing
	return n
}

// toMap leaves out attributes that Jaeger adds, such as the warning that the
// parent of a span is missing; Jaeger keeps it after the parent has arrived.
func toMap(attrs []attr) map[string]any {
	m := make(map[string]any, len(attrs))
	for _, a := range attrs {
		if !strings.HasPrefix(a.Key, "@jaeger@") {
			m[a.Key] = a.Value.any()
		}
	}
	return m
}

func (t *traces) spans() (all []Span) {
	for _, rs := range t.Result.ResourceSpans {
		resource := toMap(rs.Resource.Attributes)
		for _, ss := range rs.ScopeSpans {
			for i := range ss.Spans {
				s := ss.Spans[i].span()
				s.Resource, s.Scope = resource, ss.Scope.Name
				all = append(all, s)
			}
		}
	}
	return all
}

func (s *span) span() Span {
	out := Span{
		TraceID: s.TraceID, SpanID: s.SpanID, ParentID: s.ParentSpanID, Name: s.Name,
		Start: number(s.StartTimeUnixNano), End: number(s.EndTimeUnixNano),
		Failed: fmt.Sprint(s.Status.Code) == "2" || fmt.Sprint(s.Status.Code) == "STATUS_CODE_ERROR",
		Status: s.Status.Message, Attributes: toMap(s.Attributes),
	}
	for _, e := range s.Events {
		out.Events = append(out.Events, Event{e.Name, number(e.TimeUnixNano), toMap(e.Attributes)})
	}
	for _, l := range s.Links {
		out.Links = append(out.Links, Link{l.TraceID, l.SpanID, toMap(l.Attributes)})
	}
	return out
}
