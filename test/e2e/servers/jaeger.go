package servers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

// JaegerServer is Jaeger in one process, with its spans in memory.
type JaegerServer struct {
	GRPC, HTTP string // addresses of the OTLP receivers
	Query      *Query

	path, config string
	process      *Process
}

// JaegerOptions configures [StartJaeger]. The zero value is a server without
// TLS.
type JaegerOptions struct {
	// CertFile and KeyFile are PEM files with the certificate of both
	// receivers; both or neither.
	CertFile, KeyFile string
}

var jaegerConfig = template.Must(template.New("").Parse(`service:
  extensions: [jaeger_storage, jaeger_query]
  pipelines:
    traces: {receivers: [otlp], exporters: [jaeger_storage_exporter]}
  telemetry:
    resource: {service.name: jaeger}
    metrics: {level: none}
    logs: {level: warn}
extensions:
  jaeger_storage:
    backends:
      memory: {memory: {max_traces: 10000}}
  jaeger_query:
    storage: {traces: memory}
    enable_tracing: false
    http: {endpoint: "{{.Query}}"}
    grpc: {endpoint: "{{.QueryGRPC}}"}
receivers:
  otlp:
    protocols:
      grpc:
        endpoint: "{{.GRPC}}"
        {{.TLS}}
      http:
        endpoint: "{{.HTTP}}"
        {{.TLS}}
exporters:
  jaeger_storage_exporter: {trace_storage: memory}
`))

// StartJaeger runs the program at path, with its configuration in dir, and
// waits until it is ready. The caller stops it; it also ends with ctx.
func StartJaeger(ctx context.Context, path, dir string, o JaegerOptions) (*JaegerServer, error) {
	var at [4]string
	for i := range at {
		var err error
		if at[i], err = FreeAddress(); err != nil {
			return nil, err
		}
	}
	j := &JaegerServer{GRPC: at[0], HTTP: at[1], Query: &Query{URL: "http://" + at[2]}, path: path}
	var tls string
	if o.CertFile != "" {
		tls = fmt.Sprintf("tls: {cert_file: %q, key_file: %q}", o.CertFile, o.KeyFile)
	}
	j.config = filepath.Join(dir, "jaeger-"+filepath.Base(dir)+".yaml")
	f, err := os.Create(j.config)
	if err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	err = jaegerConfig.Execute(f, map[string]string{
		"GRPC": at[0], "HTTP": at[1], "Query": at[2], "QueryGRPC": at[3], "TLS": tls,
	})
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	return j, j.Start(ctx)
}

// Start restarts a killed server, at the same addresses and with empty memory.
func (j *JaegerServer) Start(ctx context.Context) (err error) {
	if j.process, err = start(ctx, nil, j.path, "--config", "file:"+j.config); err != nil {
		return err
	}
	err = j.process.ready(ctx, func(ctx context.Context) error {
		if _, err := j.Query.Services(ctx); err != nil {
			return err
		}
		if err := accepts(ctx, j.GRPC); err != nil {
			return err
		}
		return accepts(ctx, j.HTTP)
	})
	if err != nil {
		j.process.Kill()
	}
	return err
}

// Kill ends the server as a crash would.
func (j *JaegerServer) Kill() { j.process.Kill() }

// Stop ends the server. It may be called after Kill.
func (j *JaegerServer) Stop() { j.process.Stop() }
