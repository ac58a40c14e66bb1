package otlpreceiver

import (
	"context"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// comeBack is the pause that senders are asked for.
const comeBack = time.Second

// grpcService is the gRPC side. The gRPC library refuses requests that are too
// large, with the code that OTLP requires.
type grpcService struct{ r *Receiver }

// serviceDesc returns the service with our own decoder: OTLP requires
// InvalidArgument for invalid requests, but the library returns Internal.
func serviceDesc() *grpc.ServiceDesc {
	desc := collectorpb.TraceService_ServiceDesc
	desc.HandlerType = (*any)(nil)
	desc.Methods = []grpc.MethodDesc{{MethodName: desc.Methods[0].MethodName, Handler: export}}
	return &desc
}

func export(service any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (answer any, err error) { //nolint:revive // the library's order
	s, raw := service.(grpcService), &rawMessage{}
	defer func() { // the library would end the process
		if p := recover(); p != nil {
			s.r.refused.Add(1)
			answer, err = nil, status.Error(codes.Internal, s.r.panicked(p).Error())
		}
	}()
	if err := decode(raw); err != nil {
		s.r.refused.Add(1)
		return nil, err
	}
	t := turn{r: s.r}
	defer t.end()
	if t.wait(ctx, len(raw.body)) != nil {
		s.r.refused.Add(1)
		return nil, laterStatus(errBusy).Err()
	}
	var from net.Addr
	if p, ok := peer.FromContext(ctx); ok {
		from = p.Addr
	}
	b, err := NewBatch(raw.body, from)
	if err != nil {
		s.r.refused.Add(1)
		e := errBusy
		errors.As(err, &e)
		return nil, status.Error(e.code, e.text)
	}
	if answer, err = s.r.take(ctx, b); err != nil {
		return nil, laterStatus(err).Err()
	}
	return answer, nil
}

// rawMessage is an undecoded request.
type rawMessage struct{ body []byte }

// rawCodec does not decode requests.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) { return proto.Marshal(v.(proto.Message)) }

func (rawCodec) Unmarshal(body []byte, v any) error {
	v.(*rawMessage).body = body
	return nil
}

// laterStatus returns a refusal that asks the sender to retry later.
func laterStatus(err error) *status.Status {
	e := errBusy
	errors.As(err, &e)
	s := status.New(e.code, e.text)
	if with, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(comeBack)}); err == nil {
		return with
	}
	return s
}

// refuseGRPC refuses a request that was not read, with trailers and no body.
func refuseGRPC(w http.ResponseWriter, err error) {
	e := errBusy
	errors.As(err, &e)
	s := status.New(e.code, e.text)
	if e == errBusy {
		s = laterStatus(e)
	}
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	h.Set("Grpc-Status", strconv.Itoa(int(e.code)))
	h.Set("Grpc-Message", e.text)
	if details, err := proto.Marshal(s.Proto()); err == nil {
		h.Set("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(details))
	}
	w.WriteHeader(http.StatusOK)
}
