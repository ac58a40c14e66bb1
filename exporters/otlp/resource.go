package otlp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/trainspan/trainspan/telemetry"
)

// NewResource describes a process with the attributes that its spans have, for
// the log records and metrics that go beside them. The identity must be
// complete. perfTags are those of the training, and extra, which may be nil,
// wins over what is found. On an error the resource holds what could be found.
func NewResource(ctx context.Context, id telemetry.Identity, perfTags []string, extra *resource.Resource) (*resource.Resource, error) {
	attrs := []attribute.KeyValue{
		attribute.String("service.name", id.ApplicationName),
		attribute.String("service.instance.id", fmt.Sprintf("%s/%d/%d", id.Host, id.PID, id.Rank.Get())),
		attribute.String("host.name", id.Host),
		attribute.Int("process.pid", id.PID),
		attribute.Int("training.rank", id.Rank.Get()),
		attribute.Int("training.world_size", id.WorldSize),
		attribute.String("training.session_tag", id.SessionTag),
		attribute.Int("training.attempt", id.Attempt.Get()),
	}
	if id.LocalRank.IsSet() {
		attrs = append(attrs, attribute.Int("training.local_rank", id.LocalRank.Get()))
	}
	if len(perfTags) > 0 {
		attrs = append(attrs, attribute.String("training.perf_tag", strings.Join(perfTags, ",")))
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
		return found, fmt.Errorf("otlp: resource: %w", err)
	}
	return found, nil
}
