package telemetry_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
)

// scenario is a recorded run: the calls, in order.
type scenario struct {
	Name     string
	Clock    struct{ EpochMsec int64 }
	Identity struct {
		NodeName, PackageVersion string
		PID                      int
	}
	Env      map[string]string
	Provider *providerSetUp
	Steps    []step
}

type providerSetUp struct {
	Base          any // ordered, as decoded by ordered
	Overrides     []any
	Exporters     []object
	Customization object
}

type step struct {
	Call   string
	Args   object
	Now    time.Time
	SaveAs string
}

// object is a JSON object in its order.
type object = config.Metadata

// outcome is the recorded result of one step.
type outcome struct {
	Step           any
	Call           string
	Outcome        string
	ErrorType      string `json:"error_type"`
	ErrorMessage   string `json:"error_message"`
	Returned       any
	FileLinesAfter int `json:"file_lines_after"`
}

type recording struct {
	Steps []outcome
	Final struct {
		OutputFileCreated   bool `json:"output_file_created"`
		Records             int
		RecorderClosedAtEnd bool            `json:"recorder_closed_at_end"`
		OpenSpansAtEnd      []string        `json:"open_spans_at_end"`
		ExporterStates      []exporterState `json:"exporter_states"`
	}
}

// exporterState is the recorded final state of an exporter.
type exporterState struct {
	Exporter                    string
	NumErrors                   int  `json:"num_errors"`
	AnyDataExportedSuccessfully bool `json:"any_data_exported_successfully"`
	ForceDisabled               bool `json:"force_disabled"`
	TelemetryDataErrorReported  bool `json:"telemetry_data_error_reported"`
}

func loadScenario(dir string) (*scenario, *recording, error) {
	text, err := os.ReadFile(filepath.Join(dir, "scenario.json"))
	if err != nil {
		return nil, nil, err
	}
	var head struct {
		Name  string
		Clock struct {
			EpochMsec int64 `json:"epoch_msec"`
		}
		Identity struct {
			NodeName       string `json:"node_name"`
			PackageVersion string `json:"package_version"`
			PID            int
		}
		Env      map[string]string
		Provider *struct {
			Base          json.RawMessage   `json:"base_config"`
			Overrides     []json.RawMessage `json:"overrides"`
			Exporters     []json.RawMessage `json:"exporters"`
			Customization json.RawMessage   `json:"export_customization"`
		}
		Steps []struct {
			Call    string
			Args    json.RawMessage
			NowMsec json.Number `json:"now_msec"`
			SaveAs  string      `json:"save_as"`
		}
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, nil, err
	}
	s := &scenario{Name: head.Name, Env: head.Env}
	s.Clock.EpochMsec = head.Clock.EpochMsec
	s.Identity.NodeName, s.Identity.PackageVersion, s.Identity.PID = head.Identity.NodeName, head.Identity.PackageVersion, head.Identity.PID
	if p := head.Provider; p != nil {
		s.Provider = &providerSetUp{Base: ordered(p.Base)}
		for _, o := range p.Overrides {
			s.Provider.Overrides = append(s.Provider.Overrides, ordered(o))
		}
		for _, e := range p.Exporters {
			s.Provider.Exporters = append(s.Provider.Exporters, asObject(ordered(e)))
		}
		s.Provider.Customization = asObject(ordered(p.Customization))
	}
	for _, st := range head.Steps {
		s.Steps = append(s.Steps, step{
			Call: st.Call, Args: asObject(ordered(st.Args)), SaveAs: st.SaveAs,
			Now: msecTime(st.NowMsec),
		})
	}
	text, err = os.ReadFile(filepath.Join(dir, "result.json"))
	if err != nil {
		return nil, nil, err
	}
	r := new(recording)
	return s, r, json.Unmarshal(text, r)
}

func asObject(v any) object {
	o, _ := v.(object)
	return o
}

// ordered decodes JSON with objects in their order, numbers as json.Number,
// and the special values of the format: {"$fn": v} is a function, {"$float":
// "nan"} a float, {"$raw": s} a string.
func ordered(text []byte) any {
	if len(text) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := orderedValue(d)
	if err != nil {
		panic(fmt.Sprintf("scenario: %v in %s", err, text))
	}
	return v
}

func orderedValue(d *json.Decoder) (any, error) {
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch tok {
	case json.Delim('{'):
		o := object{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := orderedValue(d)
			if err != nil {
				return nil, err
			}
			o = append(o, config.Pairs(key, v)...)
		}
		_, err := d.Token()
		if len(o) == 1 {
			switch v := o[0].Value; o[0].Key {
			case "$fn":
				return func() any { return v }, err
			case "$float":
				f, ferr := strconv.ParseFloat(v.(string), 64)
				if ferr != nil {
					return nil, ferr
				}
				return f, err
			case "$raw":
				return v, err
			}
		}
		return o, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := orderedValue(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	}
	return tok, nil
}

// The arguments of a step.

func (s *step) has(name string) bool {
	v, ok := s.Args.Get(name)
	return ok && v != nil
}

func (s *step) text(name string) string {
	v, _ := s.Args.Get(name)
	t, _ := v.(string)
	return t
}

func (s *step) object(name string) object {
	v, _ := s.Args.Get(name)
	return asObject(v)
}

func (s *step) strings(name string) []string {
	v, _ := s.Args.Get(name)
	list, ok := v.([]any)
	if !ok {
		return nil
	}
	out := []string{}
	for _, item := range list {
		out = append(out, item.(string))
	}
	return out
}

// time returns an explicit time; zero and absent mean now.
func (s *step) time(name string) time.Time {
	v, _ := s.Args.Get(name)
	n, ok := v.(json.Number)
	if f, _ := n.Float64(); !ok || f == 0 {
		return time.Time{}
	}
	return msecTime(n)
}

func msecTime(n json.Number) time.Time {
	if ms, err := n.Int64(); err == nil {
		return time.UnixMilli(ms)
	}
	f, _ := n.Float64()
	ms, frac := math.Modf(f)
	return time.UnixMilli(int64(ms)).Add(time.Duration(math.Round(frac * 1e6)))
}

func (s *step) int(name string) int {
	v, _ := s.Args.Get(name)
	return intOf(v)
}

func intOf(v any) int {
	if f, ok := v.(func() any); ok {
		v = f()
	}
	if n, ok := v.(json.Number); ok {
		i, _ := n.Int64()
		return int(i)
	}
	return 0
}

func (s *step) intVar(name string) config.Var[int] {
	v, ok := s.Args.Get(name)
	switch {
	case !ok || v == nil:
		return config.Var[int]{}
	}
	if f, ok := v.(func() any); ok {
		return config.Func(func() int { return intOf(f()) })
	}
	return config.Value(intOf(v))
}

// attrs returns attributes as a Go program would set them.
func attrs(o object) []attributes.Attr {
	var out []attributes.Attr
	for _, e := range o {
		out = append(out, attrvalue.Any(e.Key, e.Value))
	}
	return out
}
