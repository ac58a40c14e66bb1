package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/redact"
)

// Problem is one thing that is wrong in a configuration.
type Problem struct {
	// Field is the key of the setting in a file, such as "training.seq_length".
	Field string
	// Value is the value found there; nil if there was none.
	Value any
	// Message describes what is wrong with it.
	Message string
	// Where is the position of the setting: "job.yaml:12:3", or the name of an
	// environment variable. It is empty for a setting made in code.
	Where string
}

// String returns the problem in one line: position, field, message, value.
func (p Problem) String() string {
	line := p.Message
	if p.Field != "" {
		line = shown(p.Field) + ": " + line
	}
	if p.Where != "" {
		line = p.Where + ": " + line
	}
	if reflect.ValueOf(p.Value).Kind() == reflect.Func {
		return line + " (got a function)"
	}
	if !isScalar(p.Value) { // a list or mapping may be long, and have secrets
		return line
	}
	got := fmt.Sprint(p.Value)
	got = redact.Text(got[:min(len(got), 1000)])
	if _, number := p.Value.(json.Number); !number && reflect.ValueOf(p.Value).Kind() == reflect.String {
		got = strconv.Quote(got)
	}
	return line + " (got " + shown(got) + ")"
}

// shown returns a text on one line, shortened for an error.
func shown(text string) string {
	const longest = 200
	if text = display.Text(text); len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}

// didYouMean suggests the candidate that word may stand for, if there is one.
func didYouMean(word string, candidates []string) string {
	meant, _ := nearest(candidates, func(c string) int { return editsBetween(plainWord(word), plainWord(c)) })
	if len(meant) == 0 {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", meant[0])
}

// far is the distance of a candidate that is not suggested.
const far = 1000

// nearest returns the candidates with the least distance below far.
func nearest[T any](candidates []T, distance func(T) int) (meant []T, least int) {
	least = far
	for _, c := range candidates {
		switch d := distance(c); {
		case d < least:
			meant, least = []T{c}, d
		case d == least && d < far:
			meant = append(meant, c)
		}
	}
	return meant, least
}

// editsBetween returns the edits between two plain words, or far if the known
// one is not similar. A word that is more than half of the known one, such as
// batch_size of global_batch_size, counts as no edit.
func editsBetween(word, known string) int {
	few := (len(word) + 2) / 3
	switch {
	case len(word) > len(known)/2 && strings.Contains(known, word):
		return 0
	case known == "" || len(word) > len(known)+few || len(known) > len(word)+few:
		return far
	}
	if edits := levenshtein.ComputeDistance(word, known); edits <= few {
		return edits
	}
	return far
}

var separators = strings.NewReplacer("_", "", "-", "")

// plainWord returns a word without case, hyphens and underscores, shortened to
// the length of a name.
func plainWord(word string) string {
	return strings.ToLower(separators.Replace(word[:min(len(word), 128)]))
}

// ValidationError is the error of an invalid configuration. It has every
// problem found, not only the first.
type ValidationError struct {
	// Problems are in the order in which they were found, and never empty.
	Problems []Problem
}

// Error returns one line per problem.
func (e *ValidationError) Error() string {
	if len(e.Problems) == 1 {
		return "config: " + e.Problems[0].String()
	}
	var text strings.Builder
	fmt.Fprintf(&text, "config: %d problems:", len(e.Problems))
	for _, p := range e.Problems {
		text.WriteString("\n  " + p.String())
	}
	return text.String()
}

// problems collects problems, setting by setting.
type problems []Problem

// when adds a problem if wrong is true.
func (p *problems) when(wrong bool, field string, value any, format string, args ...any) {
	if wrong {
		*p = append(*p, Problem{Field: field, Value: value, Message: fmt.Sprintf(format, args...)})
	}
}

func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return &ValidationError{Problems: p}
}

// Validate checks the whole of c and returns nil or a [*ValidationError] with
// every problem. It calls the functions whose result a rule needs. Problems of
// what [Load] found have positions.
func (c *Config) Validate() error { return c.violations().err() }

// Validate checks b and its training configuration like [Config.Validate].
func (b *Base) Validate() error {
	var p problems
	p.checkRules(b)
	b.validate(&p)
	return p.err()
}

// checkRules checks each setting alone, by the rules in its tag.
func (p *problems) checkRules(root any) {
	v := reflect.ValueOf(root).Elem()
	for _, s := range settingsIn()[v.Type()] {
		f, err := v.FieldByIndexErr(s.index)
		if err != nil || s.inner {
			continue
		}
		p.checkTag(&s, f)
	}
}

// checkTag checks the value of a setting by the rules in its tag.
func (p *problems) checkTag(s *setting, value reflect.Value) {
	for rule := range strings.SplitSeq(s.field.Tag.Get("rule"), ",") {
		name, arg, _ := strings.Cut(rule, "=")
		p.checkRule(name, arg, s.key, value)
	}
}

var placeholder = regexp.MustCompile(`\{[A-Za-z_][A-Za-z0-9_]*\}`)

// checkRule applies one rule of a tag. Metadata has additional rules.
func (p *problems) checkRule(name, arg, key string, field reflect.Value) {
	switch v := field.Interface().(type) {
	case Metadata:
		given := map[string]bool{}
		for i, e := range v {
			kind := reflect.ValueOf(e.Value).Kind()
			_, nested := e.Value.(Metadata)
			p.when(name == "keys" && strings.TrimSpace(e.Key) == "", key, e.Key, "keys must be non-empty strings (entry %d)", i)
			p.when(given[e.Key], join(key, e.Key), nil, "given twice")
			given[e.Key] = true
			p.when(arg == "scalars" && (kind == reflect.Invalid || kind == reflect.Slice), join(key, e.Key), e.Value, "must be a string, a bool or a number")
			p.when(arg == "" && nested, join(key, e.Key), e.Value, "must be a string, a bool, a number, or a list of these")
		}
	case Var[bool]:
		if name == "called" {
			evaluate(p, key, v)
		}
	case Var[int]:
		if name == "min" {
			n, ok := evaluate(p, key, v)
			p.when(ok && n < 1, key, n, "must be set to a positive value")
		}
	}
	text := field.String()
	switch name {
	case "min":
		p.when(field.CanInt() && field.Int() < 0, key, field.Interface(), "must not be negative")
	case "filled":
		var got any
		if text != "" {
			got = text
		}
		p.when(strings.TrimSpace(text) == "", key, got, "cannot be empty or whitespace-only: name the application in a file, in TRAINSPAN_APPLICATION_NAME or in code")
	case "oneof":
		words := strings.Split(arg, "|")
		last := len(words) - 1
		p.when(text != "" && !slices.Contains(words, text), key, text, "must be '%s' or '%s'%s", strings.Join(words[:last], "', '"), words[last], didYouMean(text, words))
	case "items":
		for i := range field.Len() {
			item := field.Index(i).String()
			p.when(strings.TrimSpace(item) == "", key, item, "item %d must not be empty", i)
		}
	case "path": // a placeholder that is not replaced would give all ranks the same file
		for _, word := range placeholder.FindAllString(text, -1) {
			known := []string{"{rank}", "{pid}", "{host}"}
			p.when(!slices.Contains(known, word), key, text, "unknown placeholder %s%s", word, didYouMean(word, known))
		}
		fallthrough
	case "nozero":
		p.when(strings.ContainsRune(text, 0), key, text, "must not contain a NUL byte")
	}
}

// violations checks all rules. It and the validate methods contain those about
// several settings.
func (c *Config) violations() (found problems) {
	p := &found
	p.checkRules(c)
	c.Base.validate(p)
	mode, names := cmp.Or(c.Export.Mode, Blacklist), c.Export.SpanNames
	p.when(mode == ExportAll && len(names) > 0, "export.span_names", names, "span_names should be empty when mode is %s", mode)
	p.when((mode == Whitelist || mode == Blacklist) && len(names) == 0 && !c.Export.UsesDefaultNames(), "export.span_names", names, "span_names should be a non-empty list when mode is %s", mode)
	p.when(c.Outputs.File.Enabled.Or(false) && c.Outputs.File.Path == "", "outputs.file.path", nil, "field required: the file output is enabled and needs a path")
	c.Outputs.OTLP.validate(p)
	c.Outputs.Prometheus.validate(p)
	for i := range found {
		found[i].Where = c.place(found[i].Field)
	}
	// A program sets these; those of the environment are checked when they are
	// read.
	for i, v := range []Var[int]{c.Ranks.Rank, c.Ranks.LocalRank, c.Ranks.Attempt, c.Ranks.WorldSize} {
		key := []string{"rank", "local_rank", "attempt", "ranks.world_size"}[i]
		n, ok := evaluate(p, key, v)
		p.when(ok && n < 0, key, n, "must not be negative")
		p.when(ok && n == 0 && i == 3, key, n, "must be set to a positive value")
	}
	return found
}

func (b *Base) validate(p *problems) {
	t := b.Training
	if t == nil {
		return
	}
	p.when(t.PerfTag.IsSet() && t.PerfTags.IsSet(), "training.perf_tags", nil, "perf_tag and perf_tags are mutually exclusive: set one of them")
	if on, _ := evaluate(new(problems), "", t.IsLogThroughputEnabled); on {
		const key = "training.flops_per_sample"
		n, ok := evaluate(p, key, t.FlopsPerSample)
		p.when(ok && n <= 0 || !t.FlopsPerSample.IsSet(), key, nil, "flops_per_sample must be set to a positive value when is_log_throughput_enabled is True")
	}
}

// tokenCharacters are allowed in the name of an HTTP header.
const tokenCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~"

func (o *OTLP) validate(p *problems) {
	const path = "outputs.otlp."
	o.checkEndpoint(p, path+"endpoint", o.Endpoint)
	o.checkEndpoint(p, path+"traces_endpoint", o.TracesEndpoint)
	o.checkEndpoint(p, path+"logs_endpoint", o.LogsEndpoint)
	o.checkEndpoint(p, path+"metrics_endpoint", o.MetricsEndpoint)
	on := o.Enabled.Or(true)
	p.when(on && o.Logs.Or(false) && o.LogsURL() == "", path+"logs_endpoint", nil, "field required: set it or endpoint, because traces_endpoint is for traces only")
	p.when(on && o.Metrics.Or(false) && o.MetricsURL() == "", path+"metrics_endpoint", nil, "field required: set it or endpoint, because traces_endpoint is for traces only")
	for _, name := range slices.Sorted(maps.Keys(o.Headers)) {
		// Neither name nor value is shown, because a secret may be in the wrong place.
		bad := name == "" || strings.Trim(name, tokenCharacters) != ""
		p.when(bad, path+"headers", nil, "a name is empty or contains a character that HTTP does not allow")
		p.when(!bad && strings.ContainsAny(o.Headers[name], "\r\n\x00"), path+"headers."+name, nil, "the value contains a line break or a NUL byte")
	}
	p.when(o.ClientCertificate != "" && o.ClientKey == "", path+"client_key", nil, "must be set together with client_certificate")
	p.when(o.ClientCertificate == "" && o.ClientKey != "", path+"client_certificate", nil, "must be set together with client_key")
	p.when(o.TraceBudget > 0 && o.TraceBudget < MinTraceBudget, path+"trace_budget", o.TraceBudget, "must be at least %d, or negative for no limit", MinTraceBudget)
	p.when(o.QueueSize > 0 && o.BatchSize > o.QueueSize, path+"batch_size", o.BatchSize, "must not be larger than queue_size, %d", o.QueueSize)
}

// checkEndpoint requires a URL with a host; grpc also accepts host:port. Its
// messages do not show passwords.
func (o *OTLP) checkEndpoint(p *problems, field, endpoint string) {
	u, err := url.Parse(endpoint)
	if endpoint == "" || err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") {
		return
	}
	_, _, err = net.SplitHostPort(endpoint)
	grpc := o.Protocol == OTLPGRPC
	p.when(!grpc, field, redact.Address(endpoint), `must be a URL such as "http://localhost:4318"`)
	p.when(grpc && (err != nil || strings.Contains(endpoint, "/")), field, redact.Address(endpoint), `must be a URL such as "http://localhost:4317", or host:port`)
}

// validate requires host:port on loopback, unless AllowRemote is set.
func (o *Prometheus) validate(p *problems) {
	if o.Address == "" {
		return
	}
	const key = "outputs.prometheus.address"
	host, port, err := net.SplitHostPort(o.Address)
	_, perr := strconv.ParseUint(port, 10, 16)
	bad, local := err != nil || perr != nil, host == "localhost" || net.ParseIP(host).IsLoopback()
	p.when(bad, key, redact.Address(o.Address), `must be host:port, such as "127.0.0.1:9464"`)
	p.when(!bad && !local && !o.AllowRemote.Or(false), key, o.Address, `other machines can reach it: write "127.0.0.1:%s", or set allow_remote`, port)
}

// evaluate reads a setting. A function that panics is a problem of the
// configuration. ok is false if the setting is unset or could not be read.
func evaluate[T any](p *problems, field string, v Var[T]) (value T, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			ok = false
			p.when(true, field, fmt.Sprint(r), "the function of %s panicked", field)
		}
	}()
	return v.Get(), v.IsSet()
}
