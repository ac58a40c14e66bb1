package main

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
)

// otlpFlags set where spans are sent. How they are sent comes from the standard
// OTEL_ variables unless a flag sets it.
type otlpFlags struct {
	prefix             string
	endpoint, protocol string
	headers            []string
	timeout            time.Duration
	retry              time.Duration
}

func (o *otlpFlags) add(f *pflag.FlagSet, prefix, standard string) {
	o.prefix = prefix
	f.StringVar(&o.endpoint, prefix+"endpoint", "", "OTLP receiver, such as http://localhost:4318 ("+standard+")")
	f.StringVar(&o.protocol, prefix+"protocol", "", "http/protobuf or grpc (default: OTEL_EXPORTER_OTLP_PROTOCOL)")
	f.StringArrayVar(&o.headers, prefix+"header", nil, "request header name=value; repeatable")
	f.DurationVar(&o.timeout, prefix+"timeout", 0, "longest time of one request (default 10s)")
	f.DurationVar(&o.retry, prefix+"retry", time.Minute, "how long to retry while the receiver is unreachable")
}

// asked returns the exporter for the endpoint of a flag, or nil: the
// environment is that of the jobs, and reading their records must not send
// them.
func (o *otlpFlags) asked(ctx context.Context, lookup func(string) (string, bool)) (*otlp.Exporter, error) {
	if o.endpoint != "" {
		return o.exporter(ctx, lookup)
	}
	return nil, o.unasked()
}

// unasked returns the error for flags that set how to send, but not where.
func (o *otlpFlags) unasked() error {
	if o.protocol != "" || len(o.headers) > 0 || o.timeout > 0 {
		return ui.Usage("--%sendpoint is missing; add it, or omit the other OTLP flags", o.prefix)
	}
	return nil
}

// exporter returns the exporter, or nil if nothing asks for one.
func (o *otlpFlags) exporter(ctx context.Context, lookup func(string) (string, bool)) (*otlp.Exporter, error) {
	cfg, err := o.settings(lookup)
	if cfg == nil || err != nil {
		return nil, err
	}
	exp, err := otlp.New(ctx, *cfg)
	if err != nil {
		return nil, ui.Usage("%v", err)
	}
	return exp, nil
}

// settings returns the settings of the exporter, nil if nothing asks for one.
func (o *otlpFlags) settings(lookup func(string) (string, bool)) (*otlp.Config, error) {
	cfg, on, err := otlp.FromEnv(lookup)
	if err != nil {
		return nil, ui.Usage("%v", err)
	}
	if o.endpoint != "" {
		cfg.Endpoint, cfg.TracesEndpoint, cfg.LogsEndpoint, cfg.MetricsEndpoint, on = o.endpoint, "", "", "", true
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
			return nil, ui.Usage("--%sheader: use name=value", o.prefix)
		}
		headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	cfg.Headers = headers
	return &cfg, nil
}

func newReplay(a *ui.App) *cobra.Command {
	var o otlpFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "replay DIRECTORY|FILE...",
		Short: "Send spilled OTLP spans to a receiver",
		Long: `Sends the spans of the *.otlp.jsonl files in each directory to an OTLP receiver, and
deletes each exporter's file (spans-*.otlp.jsonl) that the receiver accepted in full.
Exporters write these files while their receiver is unreachable. Other files, such as
those of trainspan trace convert --to otlp, and files that you name directly are sent
and not changed. Files that a running program is writing are skipped. The status is 1
if spans are left.`,
		Example: `  trainspan trace replay /var/spool/job --endpoint http://localhost:4318
  trainspan trace replay trace.otlp.jsonl --endpoint http://localhost:4318
  trainspan trace replay spill/ --endpoint https://collector:4317 --protocol grpc --header api-key=$KEY
  OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 trainspan trace replay spill/`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runReplay(cmd.Context(), a, args, &o, asJSON)
		},
	}
	o.add(cmd.Flags(), "", "default: OTEL_EXPORTER_OTLP_ENDPOINT")
	ui.Words(cmd, "protocol", "http/protobuf", "grpc")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object with the counts")
	return cmd
}

func runReplay(ctx context.Context, a *ui.App, paths []string, o *otlpFlags, asJSON bool) error {
	if len(paths) == 0 {
		return ui.Usage("no directory is given; name the one with the *.otlp.jsonl files")
	}
	isDir := make(map[string]bool)
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !info.IsDir() && (!info.Mode().IsRegular() || !strings.HasSuffix(path, read.SpillSuffix) && !fsread.Is(path, fsread.Spans)) {
			return ui.Usage("%s: is neither a directory nor a file of OTLP spans (*%s); name one of them", path, read.SpillSuffix)
		}
		isDir[path] = info.IsDir()
	}
	exp, err := o.exporter(ctx, a.Streams.Lookup)
	if err != nil {
		return err
	}
	if exp == nil {
		return ui.Usage("no receiver is given; add --endpoint http://HOST:4318 or set OTEL_EXPORTER_OTLP_ENDPOINT")
	}
	var sum otlp.ReplayResult
	var failed []error
	for _, path := range paths {
		send := otlp.ReplayFile
		if isDir[path] {
			send = otlp.Replay
		}
		r, err := send(ctx, path, exp)
		sum.Files += r.Files
		sum.Kept += r.Kept
		sum.Sent += r.Sent
		sum.Rejected += r.Rejected
		sum.Left += r.Left
		sum.Broken += r.Broken
		sum.InUse += r.InUse
		if err != nil {
			failed = append(failed, err)
		}
	}
	if err := exp.Shutdown(context.WithoutCancel(ctx)); err != nil && len(failed) == 0 {
		failed = append(failed, err)
	}
	if asJSON {
		err = a.PrintJSON(map[string]int{"files": sum.Files, "files_kept": sum.Kept, "sent": sum.Sent, "rejected": sum.Rejected, "left": sum.Left,
			"broken_lines": sum.Broken, "files_in_use": sum.InUse})
	} else {
		a.Printf("%s sent, %s finished\n", display.Plural(sum.Sent, "span"), display.Plural(sum.Files, "file"))
	}
	judgeReplay(a, &sum)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, x := range failed {
		if ui.IsSystem(x) && sum.Sent+sum.Left == 0 {
			return x
		}
		a.Problem("%s", ui.Explain(x))
	}
	return err
}

// judgeReplay reports what was not sent.
func judgeReplay(a *ui.App, sum *otlp.ReplayResult) {
	if sum.Rejected > 0 {
		a.Problem("%s rejected by the receiver and lost; see "+helptopic.Delivery, display.Plural(sum.Rejected, "span"))
	}
	if sum.Left > 0 {
		a.Problem("%s not sent yet; replay again later; see "+helptopic.Delivery, display.Plural(sum.Left, "span"))
	}
	if sum.Broken > 0 {
		a.Problem("%s unreadable and kept; see "+helptopic.Damaged, display.Plural(sum.Broken, "line"))
	}
	if sum.InUse > 0 {
		a.Note("%s in use by a running program was skipped; see "+helptopic.InUse, display.Plural(sum.InUse, "file"))
	}
	if sum.Kept > 0 {
		a.Note("%s that no exporter wrote was kept; a second replay sends it again", display.Plural(sum.Kept, "file"))
	}
}
