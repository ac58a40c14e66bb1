package otlpreceiver

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// An empty message is two bytes on its way and hundreds in memory, which is the
// job's. So it is not the size of a request alone that is bounded.
const (
	// maxMessages is how many spans, attributes, values, events and links may be in
	// a request.
	maxMessages = 1 << 20
	// smallBody is the size of a request whose messages are not counted.
	smallBody = 64 << 10
	// largeBody is the size beyond which requests are taken one at a time.
	largeBody = 1 << 20
	// maxNesting bounds values in values.
	maxNesting = 64
)

var errMany = &httpError{
	http.StatusRequestEntityTooLarge, codes.ResourceExhausted,
	fmt.Sprintf("the request holds more than %d spans, attributes, events and links", maxMessages),
}

// checkProtobuf refuses a request of too many messages before any memory is taken
// for them.
func checkProtobuf(body []byte) error {
	if len(body) <= smallBody {
		return nil
	}
	// A message takes two bytes at least: fewer of them hold too many of none, and none
	// that is nested too deep.
	c := messageCount{left: maxMessages, few: len(body) <= 2*maxMessages}
	c.take(body, (&collectorpb.ExportTraceServiceRequest{}).ProtoReflect().Descriptor(), 0)
	if c.left < 0 {
		return errMany
	}
	return nil
}

// checkJSON is the same for JSON, in which every message is an object.
func checkJSON(body []byte) error {
	if len(body) > smallBody && bytes.Count(body, []byte("{")) > maxMessages {
		return errMany
	}
	return nil
}

// messageCount counts messages down from the most that may be, until that is negative.
type messageCount struct {
	left int
	few  bool // there cannot be too many: only how deep they are nested counts
}

// take counts what is in a message. What is broken ends it: the parser says so.
func (c *messageCount) take(b []byte, of protoreflect.MessageDescriptor, depth int) {
	if depth > maxNesting {
		c.left = -1
	}
	for len(b) > 0 && c.left >= 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return
		}
		if kind == protowire.BytesType && !(c.few && n < 2*(maxNesting-depth)) {
			if field := of.Fields().ByNumber(number); field != nil && field.Message() != nil {
				c.left--
				inside, _ := protowire.ConsumeBytes(b)
				c.take(inside, field.Message(), depth+1)
			}
		}
		b = b[n:]
	}
}

// turn is the right to take a large request. The zero value has it not.
type turn struct {
	r    *Receiver
	mine bool
}

// wait waits for it for a moment, when a body is large.
func (t *turn) wait(ctx context.Context, size int) error {
	if size <= largeBody || t.mine {
		return nil
	}
	patience := time.NewTimer(slotWait)
	defer patience.Stop()
	select {
	case t.r.large <- struct{}{}:
		t.mine = true
		return nil
	case <-ctx.Done():
	case <-patience.C:
	}
	return errBusy
}

func (t *turn) over() {
	if t.mine {
		<-t.r.large
	}
}
