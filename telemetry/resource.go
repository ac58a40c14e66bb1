package telemetry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
)

// Keys of the resource attributes that the semantic conventions do not name.
const (
	resourceRank       = "training.rank"
	resourceLocalRank  = "training.local_rank"
	resourceWorldSize  = "training.world_size"
	resourceSessionTag = "training.session_tag"
	resourcePerfTag    = "training.perf_tag"
	resourceAttempt    = "training.attempt"
)

// NewResource describes a process with the attributes that its spans have, for
// log records and metrics that go beside them. The identity must be complete.
// perfTags are those of the training, and extra, which may be nil, wins over
// what is found. On an error the resource holds what could be found. It never
// holds a command line or other environment than OTEL_RESOURCE_ATTRIBUTES and
// OTEL_SERVICE_NAME: these carry secrets.
func NewResource(ctx context.Context, id Identity, perfTags []string, extra *resource.Resource) (*resource.Resource, error) {
	attrs := []attribute.KeyValue{
		attribute.String("service.name", id.ApplicationName),
		attribute.String("service.instance.id", fmt.Sprintf("%s/%d/%d", id.Host, id.PID, id.Rank.Get())),
		attribute.String("host.name", id.Host),
		attribute.Int("process.pid", id.PID),
		attribute.Int(resourceRank, id.Rank.Get()),
		attribute.Int(resourceWorldSize, id.WorldSize),
		attribute.String(resourceSessionTag, id.SessionTag),
		attribute.Int(resourceAttempt, id.Attempt.Get()),
	}
	if id.LocalRank.IsSet() {
		attrs = append(attrs, attribute.Int(resourceLocalRank, id.LocalRank.Get()))
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
