package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Collector returns the path of the distribution trainspan-collector, bin/
// below the root of the repository. If it does not exist, or is older than the
// list of its parts, tools/collector builds it, which takes a minute or more;
// ctx limits it.
func Collector(ctx context.Context, root string) (string, error) {
	path, dir := filepath.Join(root, "bin", "trainspan-collector"), filepath.Join(root, "integrations", "collector")
	parts, err := os.Stat(filepath.Join(dir, "builder.yaml"))
	if err != nil {
		return "", fmt.Errorf("servers: %w", err)
	}
	if built, err := os.Stat(path); err == nil && built.ModTime().After(parts.ModTime()) {
		return path, nil
	}
	out, err := exec.CommandContext(ctx, filepath.Join(root, "tools", "collector")).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("servers: build the Collector: %w", errors.Join(err, ctx.Err(), lastLines(out)))
	}
	return path, nil
}

// CollectorServer is a running Collector.
type CollectorServer struct {
	GRPC, HTTP string // addresses of the OTLP receivers
	Metrics    string // address of its own metrics

	health    string
	process   *Process
	path      string
	args, env []string
	cpu       time.Duration // of processes that have ended
	memory    int64
}

// StartCollector runs the program at path with configuration files, where later
// files override earlier ones, and waits until it is ready. The files get the
// addresses to listen on from the variables OTLP_GRPC, OTLP_HTTP, HEALTH and
// METRICS_PORT, and others from env. The caller stops it; it also ends with
// ctx.
func StartCollector(ctx context.Context, path string, configs, env []string) (*CollectorServer, error) {
	var at [4]string
	for i := range at {
		var err error
		if at[i], err = FreeAddress(); err != nil {
			return nil, err
		}
	}
	c := &CollectorServer{GRPC: at[0], HTTP: at[1], health: at[2], Metrics: at[3]}
	_, metrics, err := net.SplitHostPort(at[3])
	if err != nil {
		return nil, err
	}
	var args []string
	for _, file := range configs {
		args = append(args, "--config", "file:"+file)
	}
	c.path, c.args = path, args
	c.env = append([]string{"OTLP_GRPC=" + at[0], "OTLP_HTTP=" + at[1], "HEALTH=" + at[2], "METRICS_PORT=" + metrics}, env...)
	return c, c.Start(ctx)
}

// Start restarts a stopped or killed Collector with the same arguments, and
// waits until it is ready.
func (c *CollectorServer) Start(ctx context.Context) (err error) {
	if c.process, err = start(ctx, c.env, c.path, c.args...); err != nil {
		return err
	}
	err = c.process.ready(ctx, func(ctx context.Context) error { return healthy(ctx, c.health) })
	if err != nil {
		c.Kill()
	}
	return err
}

// healthy checks that a Collector reports all of its components as running.
func healthy(ctx context.Context, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// Stop ends the Collector, which completes its files.
func (c *CollectorServer) Stop() { c.ended(c.process.Stop) }

// Kill ends the Collector as a crash would.
func (c *CollectorServer) Kill() { c.ended(c.process.Kill) }

func (c *CollectorServer) ended(end func()) {
	if c.process.over() {
		return
	}
	end()
	cpu, memory := c.process.used()
	c.cpu, c.memory = c.cpu+cpu, max(c.memory, memory)
}

// Used returns the CPU time of all ended processes, and the highest memory in
// bytes of one of them, 0 if the system does not report it.
func (c *CollectorServer) Used() (cpu time.Duration, memory int64) { return c.cpu, c.memory }

// Log returns the end of the Collector's output.
func (c *CollectorServer) Log() string { return c.process.Log() }
