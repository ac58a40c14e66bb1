//go:build unix

package launch

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"sync"
	"syscall"
	"time"
)

// Message is one line between the launcher and the telemetry process. One of its
// fields is set.
type Message struct {
	// From the launcher, in this order. The pipe ends after Exited, or when the
	// launcher was killed.
	Settings json.RawMessage `json:"settings,omitempty"`
	Started  *Started        `json:"started,omitempty"`
	Exited   *Exited         `json:"exited,omitempty"`
	// Got is a signal that came for the command, at any time before Exited.
	Got syscall.Signal `json:"got,omitempty"`
	// Asked may come at any time: has a signal come there too? The answer is
	// Answered with the same number, after the signals that have.
	Asked int `json:"asked,omitempty"`

	// From the telemetry process.
	Ready    *Ready         `json:"ready,omitempty"`
	Signal   syscall.Signal `json:"signal,omitempty"` // that the telemetry process got: it went to the whole process group
	Answered int            `json:"answered,omitempty"`
	// Say is text for the terminal, which belongs to the launcher alone: the telemetry
	// process may outlive it. It is sanitized and painted already. Told ends it.
	Say  Bytes `json:"say,omitempty"`
	Told bool  `json:"told,omitempty"`
}

// Ready says that the command may start, with these variables of its environment
// in the place of those that it would inherit.
type Ready struct {
	Env   map[string]Bytes `json:"env,omitempty"`
	Unset []string         `json:"unset,omitempty"`
	// Dir is where the files are. Should the telemetry process end early, trainspan
	// import completes them.
	Dir Bytes `json:"dir,omitempty"`
}

// Bytes is a text of the system, such as a path or the value of a variable: any
// bytes but 0. JSON's strings would replace those that are no UTF-8.
type Bytes string

// MarshalText implements [encoding.TextMarshaler].
func (b Bytes) MarshalText() ([]byte, error) {
	return base64.StdEncoding.AppendEncode(nil, []byte(b)), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (b *Bytes) UnmarshalText(text []byte) error {
	raw, err := base64.StdEncoding.AppendDecode(nil, text)
	*b = Bytes(raw)
	return err
}

// Started says that the command runs.
type Started struct {
	PID int       `json:"pid"`
	At  time.Time `json:"at"`
}

// Exited says how the command ended, or why it could not be started.
type Exited struct {
	Status Status    `json:"status"`
	At     time.Time `json:"at"`
	Failed string    `json:"failed,omitempty"`
	// Terminal is the one that the report is laid out for.
	Terminal Terminal `json:"terminal,omitzero"`
}

// Terminal describes the output that the person at the launcher reads. The zero
// value is a file or a pipe: lines of any length, without colors.
type Terminal struct {
	Columns int  `json:"columns,omitempty"`
	Color   bool `json:"color,omitempty"`
}

// Line writes messages, each whole. It is safe for concurrent use.
type Line struct {
	mu  sync.Mutex
	enc *json.Encoder
}

// NewLine makes a Line over a pipe.
func NewLine(w io.Writer) *Line { return &Line{enc: json.NewEncoder(w)} }

// Send writes a message. An error means that the other side is gone.
func (l *Line) Send(m *Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.enc.Encode(m)
}
