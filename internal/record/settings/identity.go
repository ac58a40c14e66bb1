// Package settings evaluates a configuration: which outputs are enabled, the identity
// and resource of a process, and the names by which filters select scopes.
package settings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
)

// Identity fills the unset fields of id from the operating system, the configuration,
// which must be the result of Base.WithDefaults, and ranks.
func Identity(id outputs.Identity, base *config.Base, ranks config.Ranks) outputs.Identity {
	if id.Host == "" {
		id.Host = identity.HostName()
	}
	id.PID = cmp.Or(id.PID, os.Getpid())
	id.Version = cmp.Or(id.Version, identity.Version)
	id.RankKnown = id.RankKnown || id.Rank.IsSet() || ranks.Rank.IsSet()
	if !id.Rank.IsSet() {
		id.Rank = config.Value(ranks.Rank.Or(0))
	}
	if !id.LocalRank.IsSet() {
		id.LocalRank = ranks.LocalRank
	}
	if !id.Attempt.IsSet() {
		id.Attempt = config.Value(ranks.Attempt.Or(0))
	}
	id.Job = cmp.Or(id.Job, ranks.Job)
	id.Run = cmp.Or(id.Run, ranks.Run, id.Job)
	if id.WorldSize.Or(0) == 0 {
		id.WorldSize = config.Value(base.WorldSize.Get())
	}
	id.SessionTag = base.SessionTag.Get()
	id.ApplicationName = base.ApplicationName
	return id
}

// Ranks returns r with its unset fields filled by [config.DetectRanks]. If one of rank,
// local rank and world size is set, all three count as set.
func Ranks(r config.Ranks, lookup func(name string) (string, bool)) (config.Ranks, error) {
	found, err := config.DetectRanks(lookup)
	if r.Rank.IsSet() || r.LocalRank.IsSet() || r.WorldSize.IsSet() {
		found.Rank, found.LocalRank, found.WorldSize = r.Rank, r.LocalRank, r.WorldSize
		if bad := (*config.ValidationError)(nil); errors.As(err, &bad) {
			bad.Problems = slices.DeleteFunc(bad.Problems, func(p config.Problem) bool { return p.Field != "attempt" })
			if len(bad.Problems) == 0 {
				err = nil
			}
		}
	}
	if r.Attempt.IsSet() {
		found.Attempt = r.Attempt
	}
	if r.Job != "" || r.Run != "" {
		found.Job, found.Run = cmp.Or(r.Job, r.Run), cmp.Or(r.Run, r.Job)
	}
	return found, err
}

// resourcePerfTag is the resource key of performance tags, which are not part of a
// process's identity.
const resourcePerfTag = "training.perf_tag"

// Resource returns the resource of a process, with the same attributes as its spans, for
// its log records and metrics. The identity must be complete. perfTags are those of the
// training. extra takes precedence over detected values; it is nil if no configuration was
// loaded, which warns of the environment. On an error the resource holds what was detected. It never contains the command line, nor
// environment variables other than OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME,
// because these can contain secrets.
func Resource(ctx context.Context, id outputs.Identity, perfTags []string, extra *resource.Resource) (*resource.Resource, error) {
	word := identity.Field.Attribute
	attrs := []attribute.KeyValue{
		attribute.String(word(identity.Service), id.ApplicationName),
		attribute.String(word(identity.Instance), fmt.Sprintf("%s/%d/%d", id.Host, id.PID, id.Rank.Get())),
		attribute.String(word(identity.Host), id.Host),
		attribute.Int(word(identity.PID), id.PID),
		attribute.Int(word(identity.Rank), id.Rank.Get()),
		attribute.Int(word(identity.WorldSize), id.WorldSize.Get()),
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
	given, ignored := Environment()
	if extra != nil {
		ignored = nil
	}
	found, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(append(attrs, given.Attributes()...)...))
	err = errors.Join(err, ignored)
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

// Environment returns the resource of the environment, which may be nil, read like a
// configuration: the SDK itself would use parts of a value that Load ignores as a whole.
// The error is why values are ignored.
func Environment() (*resource.Resource, error) {
	cfg, err := config.Load(config.LoadOptions{Partial: true, LookupEnv: func(name string) (string, bool) {
		if name != "OTEL_RESOURCE_ATTRIBUTES" && name != "OTEL_SERVICE_NAME" {
			return "", false
		}
		return os.LookupEnv(name)
	}})
	for _, w := range cfg.Warnings {
		err = errors.Join(err, errors.New(w.String()))
	}
	return OTelResource(&cfg.OTel), err
}

// OTelResource returns the resource of a configuration, or nil if it is empty.
func OTelResource(o *config.OTel) *resource.Resource {
	var attrs []attribute.KeyValue
	for _, e := range o.ResourceAttributes {
		switch v := e.Value.(type) {
		case string:
			attrs = append(attrs, attribute.String(e.Key, v))
		default:
			attrs = append(attrs, attribute.String(e.Key, fmt.Sprint(v)))
		}
	}
	if o.ServiceName != "" { // the last value of a key takes precedence
		attrs = append(attrs, attribute.String("service.name", o.ServiceName))
	}
	if len(attrs) == 0 {
		return nil
	}
	return resource.NewSchemaless(attrs...)
}

// Validate checks one section of a configuration, such as "outputs.otlp."; other
// sections may be missing. It returns nil or a [*config.ValidationError] with the
// problems of that section. It removes the prefix cut from their field names.
func Validate(c *config.Config, section, cut string) error {
	var found *config.ValidationError
	if !errors.As(c.Validate(), &found) {
		return nil
	}
	ours := slices.DeleteFunc(found.Problems, func(p config.Problem) bool { return !strings.HasPrefix(p.Field, section) })
	if len(ours) == 0 {
		return nil
	}
	for i := range ours {
		ours[i].Field = strings.TrimPrefix(ours[i].Field, cut)
	}
	return &config.ValidationError{Problems: ours}
}
