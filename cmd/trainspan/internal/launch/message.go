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

// Message is one line between the launcher and the telemetry process. Exactly
// one of its fields is set.
type Message struct {
	// The launcher sends Settings, Started and Exited, in this order. The pipe ends
	// after Exited, or when the launcher is killed.
	Settings json.RawMessage `json:"settings,omitempty"`
	Started  *Started        `json:"started,omitempty"`
	Exited   *Exited         `json:"exited,omitempty"`
	// Got is a signal for the command, at any time before Exited.
	Got syscall.Signal `json:"got,omitempty"`
	// Asked may be sent at any time, to ask for the signals that the telemetry
	// process received. It sends these signals, and then Answered with the same
	// number.
	Asked int `json:"asked,omitempty"`

	// From the telemetry process.
	Ready    *Ready         `json:"ready,omitempty"`
	Signal   syscall.Signal `json:"signal,omitempty"` // a signal that the telemetry process received, which was sent to the whole process group
	Answered int            `json:"answered,omitempty"`
	// Say is text for the terminal, already sanitized and coloured. Only the
	// launcher writes to the terminal, because the telemetry process may outlive
	// it. Reported marks the end of the text.
	Say      Bytes `json:"say,omitempty"`
	Reported bool  `json:"reported,omitempty"`

	at time.Time // of the arrival of Signal or Answered
}

// Ready means that the command may start, with these variables in place of
// inherited ones.
type Ready struct {
	Env   map[string]Bytes `json:"env,omitempty"`
	Unset []string         `json:"unset,omitempty"`
	// Dir is the folder of the files. If the telemetry process ends early,
	// trainspan trace import completes them.
	Dir Bytes `json:"dir,omitempty"`
}

// Bytes is a text of the system, such as a path or the value of a variable. It
// may have any bytes except 0; a plain JSON string would replace invalid UTF-8.
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

// Started means that the command runs.
type Started struct {
	PID int       `json:"pid"`
	At  time.Time `json:"at"`
}

// Exited is how the command ended, or why it could not be started.
type Exited struct {
	Status Status    `json:"status"`
	At     time.Time `json:"at"`
	Failed string    `json:"failed,omitempty"`
	// Terminal is the terminal for which the report is laid out.
	Terminal Terminal `json:"terminal,omitzero"`
}

// Terminal describes the user's output. The zero value is a file or a pipe:
// lines of any length, without colours.
type Terminal struct {
	Columns int  `json:"columns,omitempty"`
	Color   bool `json:"color,omitempty"`
}

// Line writes messages atomically. It is safe for concurrent use.
type Line struct {
	mu  sync.Mutex
	enc *json.Encoder
}

// NewLine returns a Line for a pipe.
func NewLine(w io.Writer) *Line { return &Line{enc: json.NewEncoder(w)} }

// Send writes a message. An error means that the other side has ended.
func (l *Line) Send(m *Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.enc.Encode(m)
}
