package otlpreceiver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/trainspan/trainspan/internal/platform/otlpform"
	"github.com/trainspan/trainspan/internal/tracefile/otlpspan"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Path is the path for posting spans.
const Path = "/v1/traces"

const (
	mediaProtobuf = "application/x-protobuf"
	mediaJSON     = "application/json"
)

// serveHTTP handles an HTTP request.
func (r *Receiver) serveHTTP(w http.ResponseWriter, req *http.Request) {
	media := mediaOf(req)
	t := turn{r: r}
	defer t.end()
	batch, err := r.read(w, req, media, &t)
	if err != nil {
		r.refused.Add(1)
		refuse(w, media, err)
		return
	}
	answer, err := r.take(req.Context(), batch)
	if err != nil {
		refuse(w, media, err)
		return
	}
	reply(w, media, http.StatusOK, answer)
}

func mediaOf(req *http.Request) string {
	media, _, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return media
}

// read reads a request.
func (r *Receiver) read(w http.ResponseWriter, req *http.Request, media string, t *turn) (*Batch, error) {
	switch {
	case req.URL.Path != Path:
		return nil, errPath
	case req.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		return nil, errMethod
	case media != mediaProtobuf && media != mediaJSON:
		return nil, errMediaType
	}
	body, err := r.body(w, req, t)
	if err != nil {
		return nil, err
	}
	if media == mediaJSON {
		if bytes.Count(body, []byte("{")) > otlpspan.MaxParts { // each part is an object
			return nil, tooMany(otlpspan.ErrParts)
		}
		if body, err = otlpform.ProtobufOfJSON(body); err != nil {
			return nil, broken(err)
		}
	}
	return NewBatch(body, addr(req.RemoteAddr))
}

// body reads and decompresses a body, up to the limit.
func (r *Receiver) body(w http.ResponseWriter, req *http.Request, t *turn) ([]byte, error) {
	var from io.Reader = http.MaxBytesReader(w, req.Body, int64(r.o.MaxBody))
	switch encoding := strings.ToLower(req.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
	case "gzip":
		z, err := gzip.NewReader(from)
		if err != nil {
			return nil, r.bodyError(err)
		}
		from = z
	default:
		w.Header().Set("Accept-Encoding", "gzip")
		return nil, errEncoding
	}
	body := bytes.NewBuffer(make([]byte, 0, min(max(req.ContentLength, 0), largeBody)+bytes.MinRead))
	_, err := body.ReadFrom(io.LimitReader(from, largeBody+1))
	if err == nil && body.Len() > largeBody {
		if err := t.wait(req.Context(), body.Len()); err != nil {
			return nil, err
		}
		_, err = body.ReadFrom(io.LimitReader(from, int64(r.o.MaxBody)+1-int64(body.Len())))
	}
	if err == nil && body.Len() > r.o.MaxBody {
		err = &http.MaxBytesError{Limit: int64(r.o.MaxBody)}
	}
	if err != nil {
		return nil, r.bodyError(err)
	}
	return body.Bytes(), nil
}

func (r *Receiver) bodyError(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return &httpError{http.StatusRequestEntityTooLarge, codes.ResourceExhausted, fmt.Sprintf("the request is larger than %d bytes", r.o.MaxBody)}
	}
	return broken(err)
}

// refuse answers with a Status, encoded like the request.
func refuse(w http.ResponseWriter, media string, err error) {
	e := &httpError{http.StatusInternalServerError, codes.Internal, err.Error()}
	errors.As(err, &e)
	if e.status == http.StatusTooManyRequests || e.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(int(comeBack.Seconds())))
	}
	if e.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	reply(w, media, e.status, &status.Status{Code: int32(e.code), Message: e.text}) //nolint:gosec // codes are small
}

func reply(w http.ResponseWriter, media string, code int, m proto.Message) {
	var text []byte
	var err error
	if media == mediaJSON {
		text, err = protojson.Marshal(m)
	} else {
		media = mediaProtobuf
		text, err = proto.Marshal(m)
	}
	if err != nil {
		code, text = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", media)
	w.WriteHeader(code)
	_, _ = w.Write(text) // the sender may be gone
}

// addr converts an address from package http.
func addr(text string) net.Addr {
	host, port, err := net.SplitHostPort(text)
	n, bad := strconv.Atoi(port)
	if err != nil || bad != nil {
		return nil
	}
	return &net.TCPAddr{IP: net.ParseIP(host), Port: n}
}
