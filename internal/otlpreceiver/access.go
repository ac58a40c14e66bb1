package otlpreceiver

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/trainspan/trainspan/internal/environ"
)

// Refusals of who may not send.
var (
	errHost   = &httpError{http.StatusForbidden, codes.PermissionDenied, "the Host of the request is no name of this machine's loopback; send to the address in OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"}
	errOrigin = &httpError{http.StatusForbidden, codes.PermissionDenied, "requests of web pages are not taken"}
	errToken  = &httpError{http.StatusUnauthorized, codes.Unauthenticated, "the token is missing or wrong; send the headers in OTEL_EXPORTER_OTLP_TRACES_HEADERS, which trainspan run gives its command, or start it with --otlp-token-file or --otlp-no-token"}
)

// admit checks that a request comes from who may send, before anything of it is read.
// A page in a browser could name any address: by Host where its own name leads to
// loopback, else by Origin.
func (r *Receiver) admit(req *http.Request) error {
	if !isLoopback(req.Host) {
		return errHost
	}
	for _, origin := range req.Header.Values("Origin") {
		if u, err := url.Parse(origin); err != nil || u.Host == "" || !isLoopback(u.Host) {
			return errOrigin
		}
	}
	if r.o.Token != "" && !hasToken(req.Header, r.o.Token) {
		return errToken
	}
	return nil
}

// isLoopback reports whether the host of an address, with a port or without, is a name of
// loopback. Old clients give none.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// hasToken looks for the token in the header of ours, and where clients of the Collector
// put one. It compares in a time that says nothing of the token.
func hasToken(h http.Header, token string) bool {
	want := sha256.Sum256([]byte(token))
	given := h.Values(environ.TokenHeader)
	for _, v := range h.Values("Authorization") {
		if scheme, text, ok := strings.Cut(v, " "); ok && strings.EqualFold(scheme, "Bearer") {
			given = append(given, text)
		}
	}
	ok := 0
	for _, text := range given {
		sum := sha256.Sum256([]byte(strings.TrimSpace(text)))
		ok |= subtle.ConstantTimeCompare(sum[:], want[:])
	}
	return ok == 1
}
