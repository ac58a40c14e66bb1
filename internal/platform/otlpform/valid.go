package otlpform

import (
	"strings"
	"unicode/utf8"

	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// One invalid byte anywhere makes a request that cannot be encoded, and the
// text of the resource is in every request. So all text is checked before it is
// sent. An invalid byte becomes U+FFFD.

func repairText(s *string) {
	if !utf8.ValidString(*s) {
		*s = strings.ToValidUTF8(*s, "�")
	}
}

// RepairSpans repairs the text of messages in place.
func RepairSpans(all []*tracepb.ResourceSpans) {
	for _, rs := range all {
		repairText(&rs.SchemaUrl)
		repairPairs(rs.GetResource().GetAttributes())
		for _, ss := range rs.GetScopeSpans() {
			repairText(&ss.SchemaUrl)
			if ss.Scope != nil {
				repairText(&ss.Scope.Name)
				repairText(&ss.Scope.Version)
				repairPairs(ss.Scope.Attributes)
			}
			for _, s := range ss.GetSpans() {
				repairSpan(s)
			}
		}
	}
}

func repairSpan(s *tracepb.Span) {
	repairText(&s.Name)
	repairText(&s.TraceState)
	repairPairs(s.Attributes)
	for _, e := range s.Events {
		repairText(&e.Name)
		repairPairs(e.Attributes)
	}
	for _, l := range s.Links {
		repairText(&l.TraceState)
		repairPairs(l.Attributes)
	}
	if s.Status != nil {
		repairText(&s.Status.Message)
	}
}

func repairPairs(pairs []*commonpb.KeyValue) {
	for _, kv := range pairs {
		repairText(&kv.Key)
		repairValue(kv.Value)
	}
}

func repairValue(v *commonpb.AnyValue) {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		repairText(&v.StringValue)
	case *commonpb.AnyValue_ArrayValue:
		for _, item := range v.ArrayValue.GetValues() {
			repairValue(item)
		}
	case *commonpb.AnyValue_KvlistValue:
		repairPairs(v.KvlistValue.GetValues())
	}
}

// Resource returns r, or a copy with valid text. A nil resource stays nil.
func Resource(r *resource.Resource) *resource.Resource {
	if r == nil {
		return nil
	}
	url := r.SchemaURL()
	repairText(&url)
	attrs, repaired := validAttributes(r.Attributes())
	if !repaired && url == r.SchemaURL() {
		return r
	}
	return resource.NewWithAttributes(url, attrs...)
}

// validAttributes returns attrs, or a repaired copy.
func validAttributes(attrs []attribute.KeyValue) (_ []attribute.KeyValue, repaired bool) {
	out := attrs
	for i, kv := range attrs {
		if fixed, changed := attrvalue.CleanKeyValue(kv); changed {
			if !repaired {
				out, repaired = append([]attribute.KeyValue(nil), attrs...), true
			}
			out[i] = fixed
		}
	}
	return out, repaired
}

func repairSet(s *attribute.Set) {
	if attrs, repaired := validAttributes(s.ToSlice()); repaired {
		*s = attribute.NewSet(attrs...)
	}
}

func repairScope(s *instrumentation.Scope) {
	repairText(&s.Name)
	repairText(&s.Version)
	repairText(&s.SchemaURL)
	repairSet(&s.Attributes)
}

// RepairMetrics repairs the text of metrics in place. The resource is replaced
// by a copy, because other metrics share it.
func RepairMetrics(rm *metricdata.ResourceMetrics) {
	rm.Resource = Resource(rm.Resource)
	for i := range rm.ScopeMetrics {
		sm := &rm.ScopeMetrics[i]
		repairScope(&sm.Scope)
		for j := range sm.Metrics {
			m := &sm.Metrics[j]
			repairText(&m.Name)
			repairText(&m.Description)
			repairText(&m.Unit)
			repairPoints(m.Data)
		}
	}
}

func repairPoints(data metricdata.Aggregation) {
	switch d := data.(type) {
	case metricdata.Gauge[int64]:
		repairNumbers(d.DataPoints)
	case metricdata.Gauge[float64]:
		repairNumbers(d.DataPoints)
	case metricdata.Sum[int64]:
		repairNumbers(d.DataPoints)
	case metricdata.Sum[float64]:
		repairNumbers(d.DataPoints)
	case metricdata.Histogram[int64]:
		repairHistograms(d.DataPoints)
	case metricdata.Histogram[float64]:
		repairHistograms(d.DataPoints)
	case metricdata.ExponentialHistogram[int64]:
		repairExponentials(d.DataPoints)
	case metricdata.ExponentialHistogram[float64]:
		repairExponentials(d.DataPoints)
	case metricdata.Summary:
		for i := range d.DataPoints {
			repairSet(&d.DataPoints[i].Attributes)
		}
	}
}

func repairNumbers[N int64 | float64](points []metricdata.DataPoint[N]) {
	for i := range points {
		repairSet(&points[i].Attributes)
		repairExemplars(points[i].Exemplars)
	}
}

func repairHistograms[N int64 | float64](points []metricdata.HistogramDataPoint[N]) {
	for i := range points {
		repairSet(&points[i].Attributes)
		repairExemplars(points[i].Exemplars)
	}
}

func repairExponentials[N int64 | float64](points []metricdata.ExponentialHistogramDataPoint[N]) {
	for i := range points {
		repairSet(&points[i].Attributes)
		repairExemplars(points[i].Exemplars)
	}
}

func repairExemplars[N int64 | float64](exemplars []metricdata.Exemplar[N]) {
	for i := range exemplars {
		exemplars[i].FilteredAttributes, _ = validAttributes(exemplars[i].FilteredAttributes)
	}
}
