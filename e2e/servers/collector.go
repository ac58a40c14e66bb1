package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// Collector gives the path of the distribution trainspan-collector, bin/ below
// the root of the repository. If it is not there it is built as collector/
// says, which takes a minute or more; ctx bounds it.
func Collector(ctx context.Context, root string) (string, error) {
	path := filepath.Join(root, "bin", "trainspan-collector")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	dir := filepath.Join(root, "collector")
	if _, err := os.Stat(filepath.Join(dir, "builder.yaml")); err != nil {
		return "", fmt.Errorf("servers: %w", err)
	}
	out, err := exec.CommandContext(ctx, "make", "-C", dir, "collector").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("servers: build the Collector: %w", errors.Join(err, ctx.Err(), lastLines(out)))
	}
	return path, nil
}

// CollectorServer is a running Collector.
type CollectorServer struct {
	GRPC, HTTP string // addresses of the OTLP receivers
	Metrics    string // address that serves its own metrics

	process *Process
}

// StartCollector runs the program at path with configuration files, of which
// later ones win, and waits until it is ready. The files get the addresses to
// listen on from the variables OTLP_GRPC, OTLP_HTTP, HEALTH and METRICS_PORT, and
// others from env. The caller stops it; it ends with ctx too.
func StartCollector(ctx context.Context, path string, configs, env []string) (*CollectorServer, error) {
	var at [4]string
	for i := range at {
		var err error
		if at[i], err = FreeAddress(); err != nil {
			return nil, err
		}
	}
	c := &CollectorServer{GRPC: at[0], HTTP: at[1], Metrics: at[3]}
	_, metrics, err := net.SplitHostPort(at[3])
	if err != nil {
		return nil, err
	}
	var args []string
	for _, file := range configs {
		args = append(args, "--config", "file:"+file)
	}
	env = append([]string{"OTLP_GRPC=" + at[0], "OTLP_HTTP=" + at[1], "HEALTH=" + at[2], "METRICS_PORT=" + metrics}, env...)
	if c.process, err = start(ctx, env, path, args...); err != nil {
		return nil, err
	}
	err = c.process.ready(ctx, func(ctx context.Context) error {
		return errors.Join(accepts(ctx, c.GRPC), accepts(ctx, c.HTTP))
	})
	if err != nil {
		c.process.Kill()
		return nil, err
	}
	return c, nil
}

// Stop ends the Collector, which completes its files.
func (c *CollectorServer) Stop() { c.process.Stop() }

// Log is the end of what the Collector has printed.
func (c *CollectorServer) Log() string { return c.process.Log() }
