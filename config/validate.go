package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/internal/pytext"
	"github.com/trainspan/trainspan/internal/secret"
)

// Problem is one thing that is wrong in a configuration.
type Problem struct {
	// Field is the key of the setting, as in a file: "training.seq_length".
	Field string
	// Value is what was found there; nil when nothing was given.
	Value any
	// Message describes what is wrong with it.
	Message string
	// Where is the place of the setting: "job.yaml:12:3", or the name of an environment
	// variable. It is empty for a setting made in code.
	Where string
}

// String writes the problem in one line: place, field, message, value.
func (p Problem) String() string {
	var b strings.Builder
	for _, part := range []string{p.Where, p.Field} {
		if part != "" {
			b.WriteString(part + ": ")
		}
	}
	b.WriteString(p.Message)
	if p.Value != nil {
		b.WriteString(" (got " + showValue(p.Value) + ")")
	}
	return b.String()
}

// ValidationError is the error of a configuration that cannot be used. It holds every
// problem found, not only the first.
type ValidationError struct {
	// Problems are in the order in which they were found, and never empty.
	Problems []Problem
}

// Error writes one problem per line.
func (e *ValidationError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	if len(lines) == 1 {
		return "config: " + lines[0]
	}
	return fmt.Sprintf("config: %d problems:\n  %s", len(lines), strings.Join(lines, "\n  "))
}

func showValue(v any) (s string) {
	switch x := v.(type) {
	case string:
		s = strconv.Quote(x)
	case bool:
		s = strconv.FormatBool(x)
	default:
		if reflect.TypeOf(v).Kind() == reflect.Func {
			return "a function"
		}
		s = string(pytext.AppendRepr(nil, v))
	}
	const longest = 200 // a whole document may stand where a number was meant
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return s
}

// problems collects what is wrong, setting by setting.
type problems []Problem

func (p *problems) add(field string, value any, format string, args ...any) {
	*p = append(*p, Problem{Field: field, Value: value, Message: fmt.Sprintf(format, args...)})
}

func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return &ValidationError{Problems: p}
}

// Validate checks the whole of c and returns nil or a [*ValidationError] with every
// problem. It calls the functions whose result a rule needs.
func (c *Config) Validate() error {
	var p problems
	c.validate(&p)
	return p.err()
}

// Validate checks b and its training configuration as [Config.Validate] does.
func (b *Base) Validate() error {
	var p problems
	checkRules(&p, b)
	b.validate(&p)
	return p.err()
}

func (c *Config) validate(p *problems) {
	checkRules(p, c)
	c.Base.validate(p)
	c.Export.validate(p)
	if c.Outputs.File.Enabled.Or(false) && c.Outputs.File.Path == "" {
		p.add("outputs.file.path", nil, "field required: the file output is switched on and needs a path")
	}
	c.Outputs.OTLP.validate(p)
	c.Outputs.Prometheus.validate(p)
	for _, r := range []struct {
		name  string
		value Var[int]
		least int
	}{{"rank", c.Ranks.Rank, 0}, {"local_rank", c.Ranks.LocalRank, 0}, {"ranks.world_size", c.Ranks.WorldSize, 1}, {"attempt", c.Ranks.Attempt, 0}} {
		if n, ok := evaluate(p, r.name, r.value); ok && n < r.least {
			p.add(r.name, n, "%s", least(r.least))
		}
	}
}

// checkRules checks each setting alone, by the rules in its tag.
func checkRules(p *problems, root any) {
	v := reflect.ValueOf(root).Elem()
	for _, s := range settingsOf(v.Type(), "") {
		f, err := v.FieldByIndexErr(s.index)
		if err != nil {
			continue
		}
		if m, ok := f.Interface().(Metadata); ok {
			m.check(p, s.key)
		}
		for rule := range strings.SplitSeq(s.field.Tag.Get("rule"), ",") {
			name, arg, _ := strings.Cut(rule, "=")
			if check := rules[name]; check != nil {
				check(p, s.key, f, arg)
			}
		}
	}
}

// rules are the words of rule tags.
var rules = map[string]func(p *problems, key string, v reflect.Value, arg string){
	"filled": func(p *problems, key string, v reflect.Value, _ string) {
		if strings.TrimSpace(v.String()) == "" {
			p.add(key, v.String(), "cannot be empty or whitespace-only")
		}
	},
	"oneof": func(p *problems, key string, v reflect.Value, arg string) {
		words := strings.Split(arg, "|")
		if got := v.String(); got != "" && !slices.Contains(words, got) {
			last := len(words) - 1
			p.add(key, got, "must be '%s' or '%s'; the nearest is '%s'", strings.Join(words[:last], "', '"), words[last], nearest(got, words))
		}
	},
	"min": func(p *problems, key string, v reflect.Value, arg string) {
		n, ok := 0, true
		if f, isVar := v.Interface().(Var[int]); isVar {
			n, ok = evaluate(p, key, f)
		} else {
			n = int(v.Int())
		}
		if lowest, _ := strconv.Atoi(arg); ok && n < lowest {
			p.add(key, n, "%s", least(lowest))
		}
	},
	"called": func(p *problems, key string, v reflect.Value, _ string) {
		evaluate(p, key, v.Interface().(Var[bool]))
	},
	"keys": func(p *problems, key string, v reflect.Value, _ string) {
		for i, e := range v.Interface().(Metadata) {
			if strings.TrimSpace(e.Key) == "" {
				p.add(key, e.Key, "keys must be non-empty strings (entry %d)", i)
			}
		}
	},
	"scalars": func(p *problems, key string, v reflect.Value, _ string) {
		for _, e := range v.Interface().(Metadata) {
			if k := reflect.ValueOf(e.Value).Kind(); k == reflect.Invalid || k == reflect.Slice {
				p.add(join(key, e.Key), e.Value, "must be a string, a bool or a number")
			}
		}
	},
	"items": func(p *problems, key string, v reflect.Value, _ string) {
		for i, item := range v.Interface().([]string) {
			if strings.TrimSpace(item) == "" {
				p.add(key, item, "an item must not be empty (item %d)", i)
			}
		}
	},
	"nozero": checkText,
	"path":   checkPath,
}

var placeholder = regexp.MustCompile(`\{[A-Za-z_][A-Za-z0-9_]*\}`)

// checkPath refuses placeholders that nobody replaces: all ranks would write one file.
func checkPath(p *problems, key string, v reflect.Value, _ string) {
	known := []string{"{rank}", "{pid}", "{host}"}
	for _, word := range placeholder.FindAllString(v.String(), -1) {
		if near := nearest(word, known); near != word {
			p.add(key, v.String(), "unknown placeholder %s; the nearest known one is %s", word, near)
		}
	}
	checkText(p, key, v, "")
}

func checkText(p *problems, key string, v reflect.Value, _ string) {
	if strings.ContainsRune(v.String(), 0) {
		p.add(key, v.String(), "must not hold a zero byte")
	}
}

func least(n int) string {
	if n == 0 {
		return "must not be negative"
	}
	return "must be set to a positive value"
}

// check looks for what no metadata may have.
func (m Metadata) check(p *problems, key string) {
	for i, e := range m {
		if m.index(e.Key) != i {
			p.add(join(key, e.Key), e.Value, "given twice")
		}
		if nested, ok := e.Value.(Metadata); ok {
			p.add(join(key, e.Key), nested, "must be a string, a bool, a number, or a list of these")
		}
	}
}

// The validate methods check rules about several settings.

func (b *Base) validate(p *problems) {
	t := b.Training
	if t == nil {
		return
	}
	if t.PerfTag.IsSet() && t.PerfTags.IsSet() {
		p.add("training.perf_tags", nil, "perf_tag and perf_tags exclude each other")
	}
	if on, _ := evaluate(new(problems), "", t.IsLogThroughputEnabled); !on {
		return
	}
	const key, rule = "training.flops_per_sample", "flops_per_sample must be set to a positive value when is_log_throughput_enabled is True"
	switch n, ok := evaluate(p, key, t.FlopsPerSample); {
	case !t.FlopsPerSample.IsSet():
		p.add(key, nil, rule)
	case ok && n <= 0:
		p.add(key, n, rule)
	}
}

func (e *Export) validate(p *problems) {
	switch mode := cmp.Or(e.Mode, Blacklist); {
	case mode == ExportAll && len(e.SpanNames) > 0:
		p.add("export.span_names", e.SpanNames, "span_names should be empty when mode is %s", mode)
	case (mode == Whitelist || mode == Blacklist) && len(e.SpanNames) == 0 && !e.UsesDefaultNames():
		p.add("export.span_names", e.SpanNames, "span_names should be a non-empty list when mode is %s", mode)
	}
}

func (o *OTLP) validate(p *problems) {
	const path = "outputs.otlp."
	for _, e := range []struct{ name, url string }{{"endpoint", o.Endpoint}, {"traces_endpoint", o.TracesEndpoint}, {"logs_endpoint", o.LogsEndpoint}, {"metrics_endpoint", o.MetricsEndpoint}} {
		o.checkEndpoint(p, path+e.name, e.url)
	}
	for _, signal := range []struct {
		name string
		on   Var[bool]
		url  string
	}{{"logs", o.Logs, o.LogsURL()}, {"metrics", o.Metrics, o.MetricsURL()}} {
		if o.Enabled.Or(true) && signal.on.Or(false) && signal.url == "" {
			p.add(path+signal.name+"_endpoint", nil, "field required: traces_endpoint does not show where %s go", signal.name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Headers)) {
		// Neither name nor value is shown: a secret may stand in the wrong place.
		if name == "" || strings.IndexFunc(name, notToken) >= 0 {
			p.add(path+"headers", nil, "a name is empty or holds a character that HTTP does not allow")
		} else if strings.ContainsAny(o.Headers[name], "\r\n\x00") {
			p.add(path+"headers."+name, nil, "the value holds a line break or a zero byte")
		}
	}
	switch {
	case o.ClientCertificate != "" && o.ClientKey == "":
		p.add(path+"client_key", nil, "must be set together with client_certificate")
	case o.ClientCertificate == "" && o.ClientKey != "":
		p.add(path+"client_certificate", nil, "must be set together with client_key")
	}
	if o.TraceBudget > 0 && o.TraceBudget < MinTraceBudget {
		p.add(path+"trace_budget", o.TraceBudget, "must be at least %d, or negative for no limit", MinTraceBudget)
	}
	if o.QueueSize > 0 && o.BatchSize > o.QueueSize {
		p.add(path+"batch_size", o.BatchSize, "must not be larger than queue_size, %d", o.QueueSize)
	}
}

// checkEndpoint wants a URL with a host, or with grpc also host:port. What it shows of a
// bad one holds no password.
func (o *OTLP) checkEndpoint(p *problems, field, endpoint string) {
	u, err := url.Parse(endpoint)
	if endpoint == "" || err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") {
		return
	}
	if o.Protocol != OTLPGRPC {
		p.add(field, secret.Address(endpoint), `must be a URL such as "http://localhost:4318"`)
	} else if _, _, err := net.SplitHostPort(endpoint); err != nil || strings.Contains(endpoint, "/") {
		p.add(field, secret.Address(endpoint), `must be a URL such as "http://localhost:4317", or host:port`)
	}
}

// validate wants host:port on loopback, or leave to listen elsewhere.
func (o *Prometheus) validate(p *problems) {
	const key = "outputs.prometheus.address"
	host, port, err := net.SplitHostPort(o.Address)
	_, perr := strconv.ParseUint(port, 10, 16)
	ip := net.ParseIP(host)
	switch {
	case o.Address == "":
	case err != nil || perr != nil:
		p.add(key, o.Address, `must be host:port, such as "127.0.0.1:9464"`)
	case host != "localhost" && !ip.IsLoopback() && !o.AllowRemote.Or(false):
		p.add(key, o.Address, `other machines can reach it: write "127.0.0.1:%s", or set allow_remote`, port)
	}
}

// notToken reports characters that HTTP does not allow in a header name.
func notToken(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// evaluate reads a setting. A function that panics is a problem of the configuration,
// not of the program that validates it. ok is false when the setting is unset or could
// not be read.
func evaluate[T any](p *problems, field string, v Var[T]) (value T, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			ok = false
			p.add(field, fmt.Sprint(r), "the function of %s panicked", field)
		}
	}()
	return v.Get(), v.IsSet()
}
