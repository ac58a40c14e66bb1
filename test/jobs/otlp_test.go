package jobs_test

import (
	"cmp"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	logspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	tracespb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logpb "go.opentelemetry.io/proto/otlp/logs/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// request is one request of an OTLP exporter.
type request struct {
	path, media, encoding string
	body                  []byte // as sent
}

// collector stores the received requests.
type collector struct {
	*httptest.Server
	mu       sync.Mutex
	requests []request
}

func newCollector(t testing.TB) *collector {
	c := new(collector)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.requests = append(c.requests, request{r.URL.Path, r.Header.Get("Content-Type"), r.Header.Get("Content-Encoding"), body})
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	}))
	t.Cleanup(c.Close)
	return c
}

// unpacked returns the uncompressed body.
func (r *request) unpacked() ([]byte, error) {
	if r.encoding != "gzip" {
		return r.body, nil
	}
	z, err := gzip.NewReader(strings.NewReader(string(r.body)))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// sentSpan is a span as a backend receives it.
type sentSpan struct {
	*tracepb.Span
	scope    *tracepb.ScopeSpans
	resource *resourcepb.Resource
	children []*sentSpan
	seen     bool
}

// requests writes the spans and log records of OTLP requests, independent of
// the batches.
func (f *form) requests(b *strings.Builder, all []request) error {
	byID := make(map[string]*sentSpan)
	var spans []*sentSpan
	type sentLog struct {
		*logpb.LogRecord
		scope string
	}
	var logs []sentLog
	resources := make(map[string]bool)
	for _, r := range all {
		body, err := r.unpacked()
		if err != nil {
			return err
		}
		switch r.path {
		case "/v1/traces":
			var m tracespb.ExportTraceServiceRequest
			if err := proto.Unmarshal(body, &m); err != nil {
				return err
			}
			for _, rs := range m.GetResourceSpans() {
				resources[f.resource(rs.GetResource())] = true
				for _, ss := range rs.GetScopeSpans() {
					for _, s := range ss.GetSpans() {
						sent := &sentSpan{Span: s, scope: ss, resource: rs.GetResource()}
						key := string(s.GetTraceId()) + string(s.GetSpanId())
						if byID[key] != nil {
							fmt.Fprintf(b, "  SENT-TWICE %s\n", s.GetName())
						}
						byID[key] = sent
						spans = append(spans, sent)
					}
				}
			}
		case "/v1/logs":
			var m logspb.ExportLogsServiceRequest
			if err := proto.Unmarshal(body, &m); err != nil {
				return err
			}
			for _, rl := range m.GetResourceLogs() {
				resources[f.resource(rl.GetResource())] = true
				for _, sl := range rl.GetScopeLogs() {
					for _, l := range sl.GetLogRecords() {
						logs = append(logs, sentLog{l, sl.GetScope().GetName()})
					}
				}
			}
		}
	}
	fmt.Fprintln(b, "otlp")
	for _, r := range sortedKeys(resources) {
		fmt.Fprintf(b, "  resource%s\n", r)
	}
	slices.SortStableFunc(spans, func(a, b *sentSpan) int {
		return cmp.Or(cmp.Compare(a.GetStartTimeUnixNano(), b.GetStartTimeUnixNano()), cmp.Compare(b.GetEndTimeUnixNano(), a.GetEndTimeUnixNano()), cmp.Compare(a.GetName(), b.GetName()),
			cmp.Compare(f.attributes(a.GetAttributes()), f.attributes(b.GetAttributes())))
	})
	var roots []*sentSpan
	for _, s := range spans {
		if f.zero == 0 {
			f.zero = int64(s.GetStartTimeUnixNano() / 1000)
		}
		if p := byID[string(s.GetTraceId())+string(s.GetParentSpanId())]; p != nil && p != s {
			p.children = append(p.children, s)
		} else {
			roots = append(roots, s)
		}
	}
	f.siblings(b, len(roots), func(b *strings.Builder, i int) { f.sent(b, roots[i], nil, byID, 1) })
	for _, s := range spans {
		if !s.seen {
			fmt.Fprintf(b, "  CYCLE %s\n", s.GetName())
		}
	}
	slices.SortStableFunc(logs, func(a, b sentLog) int { return cmp.Compare(a.GetTimeUnixNano(), b.GetTimeUnixNano()) })
	for _, l := range logs {
		of := byID[string(l.GetTraceId())+string(l.GetSpanId())]
		name := "NO-SPAN"
		if of != nil {
			name = of.GetName()
		} else if len(l.GetSpanId()) > 0 {
			name = "UNKNOWN-SPAN"
		}
		fmt.Fprintf(b, "  log%s %s of %s severity=%s scope=%s body=%s%s\n", f.nanos(l.GetTimeUnixNano()), l.GetEventName(), name,
			strings.TrimPrefix(l.GetSeverityNumber().String(), "SEVERITY_NUMBER_"), l.scope, f.any(l.GetBody()), f.attributes(l.GetAttributes()))
	}
	return nil
}

func (f *form) sent(b *strings.Builder, s, parent *sentSpan, byID map[string]*sentSpan, depth int) {
	if s.seen {
		return
	}
	s.seen = true
	indent := strings.Repeat("  ", depth)
	start, end := int64(s.GetStartTimeUnixNano()), int64(s.GetEndTimeUnixNano())
	line := indent + s.GetName() + f.time(start/1000-f.zero, end/1000-start/1000)
	if parent == nil {
		line += " in " + f.name("trace", hex.EncodeToString(s.GetTraceId()))
		if len(s.GetParentSpanId()) > 0 {
			line += " below " + f.name("span", hex.EncodeToString(s.GetParentSpanId()))
		}
	}
	if parent == nil || s.scope.GetScope().GetName() != parent.scope.GetScope().GetName() {
		line += " scope=" + s.scope.GetScope().GetName()
	}
	line += " " + strings.ToLower(strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_"))
	if st := s.GetStatus(); st.GetCode() != 0 || st.GetMessage() != "" {
		line += fmt.Sprintf(" %s %q", strings.TrimPrefix(st.GetCode().String(), "STATUS_CODE_"), st.GetMessage())
	}
	if n := s.GetDroppedAttributesCount() + s.GetDroppedEventsCount() + s.GetDroppedLinksCount(); n > 0 {
		line += fmt.Sprintf(" dropped=%d/%d/%d", s.GetDroppedAttributesCount(), s.GetDroppedEventsCount(), s.GetDroppedLinksCount())
	}
	if s.GetTraceState() != "" {
		line += " state=" + s.GetTraceState()
	}
	fmt.Fprintln(b, line+f.attributes(s.GetAttributes()))
	for _, e := range s.GetEvents() {
		fmt.Fprintf(b, "%s  * %s%s%s\n", indent, e.GetName(), f.nanos(e.GetTimeUnixNano()), f.attributes(e.GetAttributes()))
	}
	for _, l := range s.GetLinks() {
		to := "elsewhere"
		if o := byID[string(l.GetTraceId())+string(l.GetSpanId())]; o != nil {
			to = o.GetName() + f.time(int64(o.GetStartTimeUnixNano()/1000)-f.zero, -1)
		}
		fmt.Fprintf(b, "%s  -> %s%s\n", indent, to, f.attributes(l.GetAttributes()))
	}
	f.siblings(b, len(s.children), func(b *strings.Builder, i int) { f.sent(b, s.children[i], s, byID, depth+1) })
}

func (f *form) nanos(t uint64) string { return f.time(int64(t/1000)-f.zero, -1) }

// ofProcess are attributes of resources whose values are those of the replay.
var ofProcess = []string{"host.", "process.", "os.", "telemetry.sdk.version", "service.version", "service.instance.id", "telemetry.distro.version"}

func (f *form) resource(r *resourcepb.Resource) string {
	var kept []*commonpb.KeyValue
	for _, kv := range r.GetAttributes() {
		if !slices.ContainsFunc(ofProcess, func(p string) bool { return strings.HasPrefix(kv.GetKey(), p) }) {
			kept = append(kept, kv)
		}
	}
	return f.attributes(kept)
}

func (f *form) attributes(kvs []*commonpb.KeyValue) string {
	var all []string
	for _, kv := range kvs {
		value := "HIDDEN"
		if !f.hides(kv.GetKey()) {
			value = f.any(kv.GetValue())
		}
		all = append(all, kv.GetKey()+"="+value)
	}
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	return " {" + strings.Join(all, " ") + "}"
}

func (f *form) any(v *commonpb.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return fmt.Sprintf("%q", f.ids(shortened(v.StringValue)))
	case *commonpb.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	case *commonpb.AnyValue_DoubleValue:
		return fmt.Sprintf("%gf", v.DoubleValue)
	case *commonpb.AnyValue_BoolValue:
		return fmt.Sprint(v.BoolValue)
	case *commonpb.AnyValue_BytesValue:
		return "0x" + hex.EncodeToString(v.BytesValue)
	case *commonpb.AnyValue_ArrayValue:
		var all []string
		for _, x := range v.ArrayValue.GetValues() {
			all = append(all, f.any(x))
		}
		return "[" + strings.Join(all, " ") + "]"
	case *commonpb.AnyValue_KvlistValue:
		return strings.TrimSpace(f.attributes(v.KvlistValue.GetValues()))
	case nil:
		return "nothing"
	}
	return fmt.Sprintf("%v", v)
}
