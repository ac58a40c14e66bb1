package otlpreceiver

import (
	"net/http"

	"google.golang.org/grpc/codes"
)

// httpError is a refusal.
type httpError struct {
	status int
	code   codes.Code
	text   string
}

func (e *httpError) Error() string { return e.text }

var (
	errBusy      = &httpError{http.StatusTooManyRequests, codes.ResourceExhausted, "more spans come than are taken; try again later"}
	errUnsaved   = &httpError{http.StatusServiceUnavailable, codes.Unavailable, "the spans cannot be saved now; send them again later"}
	errPath      = &httpError{http.StatusNotFound, codes.NotFound, "only " + Path + " is served here"}
	errMethod    = &httpError{http.StatusMethodNotAllowed, codes.Unimplemented, "only POST is served here"}
	errMediaType = &httpError{http.StatusUnsupportedMediaType, codes.InvalidArgument, "the content type is neither " + mediaProtobuf + " nor " + mediaJSON}
	errEncoding  = &httpError{http.StatusUnsupportedMediaType, codes.InvalidArgument, "the content encoding is not gzip"}
)

func broken(err error) error {
	return &httpError{http.StatusBadRequest, codes.InvalidArgument, "the request cannot be read: " + err.Error()}
}
