package otlp

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/protobuf/proto"

	"github.com/trainspan/trainspan/internal/delivery"
)

// wire is what the clients of all signals have in common: how a request is made
// and what its failure is called.
type wire struct {
	cfg       *Config
	place     string          // for messages: no path, no headers
	unit      string          // what is sent, in words
	transport *http.Transport // nil with grpc
}

// attempt makes one request with call, within the configured timeout. The answer
// is read into answer. absent reports that the backend does not know the signal.
func (w *wire) attempt(ctx context.Context, answer proto.Message, call func(context.Context) error) (f *delivery.Error, absent bool) {
	o := outcome{answer: answer}
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	err := call(withOutcome(ctx, &o))
	return o.failure(ctx, err, w), o.absent
}

// retry are the settings of pauses.
func (w *wire) retry() delivery.Options {
	return delivery.Options{RetryFor: w.cfg.RetryFor, RetryFirst: w.cfg.RetryFirst, RetryMost: w.cfg.RetryMost}
}

// closeIdle closes the connections over which nothing is under way.
func (w *wire) closeIdle() {
	if w.transport != nil {
		w.transport.CloseIdleConnections()
	}
}

// errorf makes an error that names the place and shows no header value.
func (w *wire) errorf(format string, args ...any) error {
	return errors.New("otlp: " + w.place + ": " + oneLine(fmt.Sprintf(format, args...), w.cfg.Headers))
}
