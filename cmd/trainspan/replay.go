package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/otlp"
)

// otlpFlags say where spans go. What is not given is taken from the standard
// OTEL_ variables.
type otlpFlags struct {
	endpoint, protocol string
	headers            []string
	timeout            time.Duration
	retry              time.Duration
}

func (o *otlpFlags) add(f *pflag.FlagSet, prefix string) {
	f.StringVar(&o.endpoint, prefix+"endpoint", "", "OTLP receiver, such as http://localhost:4318 (default: OTEL_EXPORTER_OTLP_ENDPOINT)")
	f.StringVar(&o.protocol, prefix+"protocol", "", "http/protobuf or grpc (default: OTEL_EXPORTER_OTLP_PROTOCOL)")
	f.StringArrayVar(&o.headers, prefix+"header", nil, "request header as name=value; may be given several times")
	f.DurationVar(&o.timeout, prefix+"timeout", 0, "longest time of one request (default 10s)")
	f.DurationVar(&o.retry, prefix+"retry", time.Minute, "how long to try a receiver that is away")
}

// exporter makes the exporter, or nil when nothing asks for one.
func (o *otlpFlags) exporter(ctx context.Context, lookup func(string) (string, bool)) (*otlp.Exporter, error) {
	cfg, on, err := otlp.FromEnv(lookup)
	if err != nil {
		return nil, usage("%v", err)
	}
	if o.endpoint != "" {
		cfg.Endpoint, cfg.TracesEndpoint, on = o.endpoint, "", true
	}
	if !on {
		return nil, nil
	}
	if o.protocol != "" {
		cfg.Protocol = o.protocol
	}
	if o.timeout > 0 {
		cfg.Timeout = o.timeout
	}
	cfg.RetryFor = o.retry
	if o.retry <= 0 {
		cfg.RetryFor = -1
	}
	headers := config.Headers{}
	for k, v := range cfg.Headers {
		headers[k] = v
	}
	for _, h := range o.headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, usage("--header: a header is written name=value")
		}
		headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	cfg.Headers = headers
	exp, err := otlp.New(ctx, cfg)
	if err != nil {
		return nil, usage("%v", err)
	}
	return exp, nil
}

func newReplay(a *app) *cobra.Command {
	var o otlpFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "replay DIRECTORY...",
		Short: "Send spilled OTLP spans to a receiver",
		Long: `Sends the spans of the *.otlp.jsonl files of each directory to an OTLP receiver
and deletes every file that it took in full. Such files are left by exporters whose
receiver was away, and made by trainspan convert --to otlp. Files that a running
program is writing are left alone. The status is 1 when spans are left.`,
		Example: `  trainspan replay /var/spool/job --endpoint http://localhost:4318
  trainspan replay spill/ --endpoint https://collector:4317 --protocol grpc --header api-key=$KEY
  OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 trainspan replay spill/`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.replay(cmd.Context(), args, &o, asJSON)
		},
	}
	o.add(cmd.Flags(), "")
	words(cmd, "protocol", "http/protobuf", "grpc")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object with the counts")
	return cmd
}

func (a *app) replay(ctx context.Context, dirs []string, o *otlpFlags, asJSON bool) error {
	if len(dirs) == 0 {
		return usage("no directory is given; name the one that holds the *.otlp.jsonl files")
	}
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return usage("%s: is not a directory; name the one that holds the *.otlp.jsonl files", dir)
		}
	}
	exp, err := o.exporter(ctx, a.lookup)
	if err != nil {
		return err
	}
	if exp == nil {
		return usage("no receiver is given; add --endpoint http://HOST:4318 or set OTEL_EXPORTER_OTLP_ENDPOINT")
	}
	var sum otlp.ReplayResult
	var failed error
	for _, dir := range dirs {
		r, err := otlp.Replay(ctx, dir, exp)
		sum.Files += r.Files
		sum.Sent += r.Sent
		sum.Rejected += r.Rejected
		sum.Left += r.Left
		sum.Broken += r.Broken
		sum.InUse += r.InUse
		failed = errors.Join(failed, err)
	}
	if err := exp.Shutdown(context.WithoutCancel(ctx)); failed == nil {
		failed = err
	}
	if asJSON {
		if err := a.printJSON(map[string]int{"files": sum.Files, "sent": sum.Sent, "rejected": sum.Rejected, "left": sum.Left,
			"broken_lines": sum.Broken, "files_in_use": sum.InUse}); err != nil {
			return err
		}
	} else {
		a.printf("%s sent, %s finished\n", plural(sum.Sent, "span"), plural(sum.Files, "file"))
	}
	if failed != nil {
		return failed
	}
	if sum.Rejected > 0 {
		a.problem("%s rejected by the receiver and gone", plural(sum.Rejected, "span"))
	}
	if sum.Left > 0 {
		a.problem("%s left in the directory; replay again later", plural(sum.Left, "span"))
	}
	if sum.Broken > 0 {
		a.problem("%s cannot be read and stay in the directory", plural(sum.Broken, "line"))
	}
	if sum.InUse > 0 {
		a.note("%s in use by a running program was left alone", plural(sum.InUse, "file"))
	}
	return nil
}
