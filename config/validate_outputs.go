package config

import (
	"cmp"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/internal/secret"
)

func (o *Outputs) validate(p *problems) {
	const file, trace = "outputs.file", "outputs.trace"
	if o.File.Enabled.Or(false) && o.File.Path == "" {
		p.add(file+".path", nil, "field required: the file output is switched on and needs a path")
	}
	validatePath(p, file+".path", o.File.Path)
	validatePath(p, trace+".path", o.Trace.Path)
	oneOf(p, trace+".dialect", o.Trace.Dialect, TraceV1, TraceV2, TraceV22)
	notNegative(p, trace+".buffer_size", o.Trace.BufferSize)
	notNegative(p, trace+".write_interval", o.Trace.WriteInterval)
	for i, dir := range o.Trace.DataDirs {
		if strings.TrimSpace(dir) == "" {
			p.add(trace+".data_dirs", dir, "a folder must not be empty (item %d)", i)
		}
	}
	o.OTLP.validate(p, "outputs.otlp")
	o.Prometheus.validate(p, "outputs.prometheus")
}

var placeholder = regexp.MustCompile(`\{[A-Za-z_][A-Za-z0-9_]*\}`)

// validatePath refuses placeholders that nobody replaces: all ranks would write
// the same file.
func validatePath(p *problems, field, path string) {
	known := []string{"{rank}", "{pid}", "{host}"}
	for _, word := range placeholder.FindAllString(path, -1) {
		if near := nearest(word, known); near != word {
			p.add(field, path, "unknown placeholder %s; the nearest known one is %s", word, near)
		}
	}
	if strings.ContainsRune(path, 0) {
		p.add(field, path, "must not hold a zero byte")
	}
}

func (o *OTLP) validate(p *problems, path string) {
	oneOf(p, path+".protocol", o.Protocol, OTLPGRPC, OTLPHTTP)
	validateEndpoint(p, path+".endpoint", o.Endpoint, cmp.Or(o.Protocol, OTLPHTTP))
	validateEndpoint(p, path+".traces_endpoint", o.TracesEndpoint, cmp.Or(o.Protocol, OTLPHTTP))
	validateEndpoint(p, path+".logs_endpoint", o.LogsEndpoint, cmp.Or(o.Protocol, OTLPHTTP))
	validateEndpoint(p, path+".metrics_endpoint", o.MetricsEndpoint, cmp.Or(o.Protocol, OTLPHTTP))
	for _, signal := range []struct {
		name string
		on   Var[bool]
		url  string
	}{{"logs", o.Logs, o.LogsURL()}, {"metrics", o.Metrics, o.MetricsURL()}} {
		if o.Enabled.Or(true) && signal.on.Or(false) && signal.url == "" {
			p.add(path+"."+signal.name+"_endpoint", nil, "field required: traces_endpoint does not tell where %s go", signal.name)
		}
	}
	notNegative(p, path+".metrics_interval", o.MetricsInterval)
	for _, name := range slices.Sorted(maps.Keys(o.Headers)) {
		at := path + ".headers"
		// Neither is shown: a secret may stand in the wrong place.
		if name == "" || strings.IndexFunc(name, notToken) >= 0 {
			p.add(at, nil, "a name is empty or holds a character that HTTP does not allow")
		} else if strings.ContainsAny(o.Headers[name], "\r\n\x00") {
			p.add(join(at, name), nil, "the value holds a line break or a zero byte")
		}
	}
	notNegative(p, path+".timeout", o.Timeout)
	oneOf(p, path+".compression", o.Compression, "gzip", "none")
	switch {
	case o.ClientCertificate != "" && o.ClientKey == "":
		p.add(path+".client_key", nil, "must be set together with client_certificate")
	case o.ClientCertificate == "" && o.ClientKey != "":
		p.add(path+".client_certificate", nil, "must be set together with client_key")
	}
	notNegative(p, path+".queue_size", o.QueueSize)
	notNegative(p, path+".batch_size", o.BatchSize)
	notNegative(p, path+".batch_delay", o.BatchDelay)
	notNegative(p, path+".spill_bytes", o.SpillBytes)
	oneOf(p, path+".trace_split", o.TraceSplit, TracePerAttempt, TracePerEpoch, TracePerWindow)
	notNegative(p, path+".trace_window", o.TraceWindow)
	if o.TraceBudget > 0 && o.TraceBudget < MinTraceBudget {
		p.add(path+".trace_budget", o.TraceBudget, "must be at least %d, or negative for no limit", MinTraceBudget)
	}
	if strings.ContainsRune(o.SpillDir, 0) {
		p.add(path+".spill_dir", o.SpillDir, "must not hold a zero byte")
	}
	if o.QueueSize > 0 && o.BatchSize > o.QueueSize {
		p.add(path+".batch_size", o.BatchSize, "must not be larger than queue_size, %d", o.QueueSize)
	}
}

// validate wants host:port on loopback, or leave to listen elsewhere.
func (o *Prometheus) validate(p *problems, path string) {
	if o.Address == "" {
		return
	}
	host, port, err := net.SplitHostPort(o.Address)
	if _, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil {
		p.add(path+".address", o.Address, `must be host:port, such as "127.0.0.1:9464"`)
		return
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() || o.AllowRemote.Or(false) {
		return
	}
	p.add(path+".address", o.Address, `other machines can reach it: write "127.0.0.1:%s", or set allow_remote`, port)
}

// validateEndpoint wants a URL with a host, or with grpc also host:port. What it
// shows of a bad one holds no password.
func validateEndpoint(p *problems, field, endpoint string, protocol string) {
	if endpoint == "" {
		return
	}
	u, err := url.Parse(endpoint)
	if err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") {
		return
	}
	if protocol == OTLPGRPC {
		if _, _, err := net.SplitHostPort(endpoint); err == nil && !strings.Contains(endpoint, "/") {
			return
		}
		p.add(field, secret.Address(endpoint), `must be a URL such as "http://localhost:4317", or host:port`)
		return
	}
	p.add(field, secret.Address(endpoint), `must be a URL such as "http://localhost:4318"`)
}

// notToken reports characters that HTTP does not allow in a header name.
func notToken(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

func notNegative[T ~int | ~int64](p *problems, field string, n T) {
	if n < 0 {
		p.add(field, n, "must not be negative")
	}
}
