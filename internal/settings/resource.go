package settings

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/trainspan/trainspan/internal/identity"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// resourcePerfTag is the key of performance tags, which say nothing of who a process
// is.
const resourcePerfTag = "training.perf_tag"

// Resource describes a process with the attributes that its spans have, for
// log records and metrics that go beside them. The identity must be complete.
// perfTags are those of the training, and extra, which may be nil, wins over
// what is found. On an error the resource holds what could be found. It never
// holds a command line or other environment than OTEL_RESOURCE_ATTRIBUTES and
// OTEL_SERVICE_NAME: these carry secrets.
func Resource(ctx context.Context, id outputs.Identity, perfTags []string, extra *resource.Resource) (*resource.Resource, error) {
	word := identity.Attribute
	attrs := []attribute.KeyValue{
		attribute.String(word(identity.Service), id.ApplicationName),
		attribute.String(word(identity.Instance), fmt.Sprintf("%s/%d/%d", id.Host, id.PID, id.Rank.Get())),
		attribute.String(word(identity.Host), id.Host),
		attribute.Int(word(identity.PID), id.PID),
		attribute.Int(word(identity.Rank), id.Rank.Get()),
		attribute.Int(word(identity.WorldSize), id.WorldSize),
		attribute.String(word(identity.Session), id.SessionTag),
		attribute.Int(word(identity.Attempt), id.Attempt.Get()),
	}
	if id.LocalRank.IsSet() {
		attrs = append(attrs, attribute.Int(word(identity.LocalRank), id.LocalRank.Get()))
	}
	if id.Job != "" {
		attrs = append(attrs, attribute.String(word(identity.Job), id.Job))
	}
	if len(perfTags) > 0 {
		attrs = append(attrs, attribute.String(resourcePerfTag, strings.Join(perfTags, ",")))
	}
	found, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(attrs...), resource.WithFromEnv())
	if extra != nil {
		merged, mergeErr := resource.Merge(found, extra)
		if mergeErr == nil || errors.Is(mergeErr, resource.ErrSchemaURLConflict) {
			found, mergeErr = merged, nil
		}
		err = errors.Join(err, mergeErr)
	}
	if err != nil {
		return found, fmt.Errorf("telemetry: resource: %w", err)
	}
	return found, nil
}
