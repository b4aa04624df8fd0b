package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	"pillion.dev/bus"
)

// Fleet is what a server of a fleet knows of the others.
type Fleet interface {
	// Leads reports whether this server leads.
	Leads() bool
	// Call passes a request on to the leading server, whose Answer is the answer: bus.ErrNoLeader if none
	// leads, then the request was not delivered.
	Call(ctx context.Context, request []byte) ([]byte, error)
}

const (
	// leaderWait is how long a call waits for a server that leads: a lease expires and another server loads
	// the state meanwhile.
	leaderWait = 8 * time.Second
	leaderPoll = 50 * time.Millisecond
	// leaderRetry is after how many seconds a client is asked to try again.
	leaderRetry = 2
)

// forwarded is a request of a user as one server passes it on to another, without its body.
type forwarded struct {
	Method, Target, Proto string
	Header                http.Header
	// Remote is the address of the user, Certificates those that the user's connection presented, DER.
	Remote       netip.Addr
	Certificates [][]byte
}

// forwardedAnswer is the answer, without its body.
type forwardedAnswer struct {
	Status int
	Header http.Header
}

// forward passes a request on to the leading server and writes its answer. It returns false if this
// server leads itself.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, who caller) bool {
	if s.fleet == nil || s.fleet.Leads() {
		return false
	}
	if r.Context().Value(forwardedKey{}) != nil {
		w.WriteHeader(statusNotLeading) // any more
		return true
	}
	s.forwards.Add(1)
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	request, err := packForwarded(r, who)
	if err != nil {
		s.errors.Write(w, r, s.fault(r.URL.Path, err))
		return true
	}
	for until := time.Now().Add(leaderWait); ; {
		text, err := s.fleet.Call(ctx, request)
		var answer forwardedAnswer
		var body []byte
		if err == nil {
			answer, body, err = unpackAnswer(text)
		}
		if err == nil && answer.Status != statusNotLeading {
			answer.write(w, body)
			return true
		}
		if err != nil && !undelivered(err) || ctx.Err() != nil || time.Now().After(until) {
			s.unavailable(w, r, err)
			return true
		}
		select { // no server has begun to answer
		case <-ctx.Done():
		case <-time.After(leaderPoll):
		}
		if s.fleet.Leads() {
			return false
		}
	}
}

// undelivered reports whether a call that failed was not carried out.
func undelivered(err error) bool {
	return errors.Is(err, bus.ErrNoLeader) || errors.Is(err, bus.ErrOffline) || errors.Is(err, bus.ErrBusy)
}

// statusNotLeading is the answer of a server that does not lead and has done nothing.
const statusNotLeading = http.StatusMisdirectedRequest

// unavailable refuses a call that only the leading server answers.
func (s *Server) unavailable(w http.ResponseWriter, r *http.Request, err error) {
	s.unforwarded.Add(1)
	s.log.Warn("the leading server did not answer", "procedure", r.URL.Path, "error", err)
	words := "no server of the fleet leads at the moment: nothing was changed; try again in a few seconds"
	if err != nil && !undelivered(err) {
		words = "the leading server did not answer: see whether the change was made before you try again"
	}
	w.Header().Set("Retry-After", strconv.Itoa(leaderRetry))
	s.errors.Write(w, r, connect.NewError(connect.CodeUnavailable, errors.New(words)))
}

// hopHeaders are of one connection, or set by proxies, whose statements the first server has judged.
var hopHeaders = append([]string{"Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Keep-Alive"}, forwardingHeaders...)

// packForwarded makes the message of a request, whose body can be read again afterwards.
func packForwarded(r *http.Request, who caller) ([]byte, error) {
	f := forwarded{Method: r.Method, Target: r.URL.RequestURI(), Proto: r.Proto, Header: r.Header.Clone(), Remote: who.remote}
	for _, name := range hopHeaders {
		f.Header.Del(name)
	}
	if who.tls != nil {
		for _, certificate := range who.tls.PeerCertificates {
			f.Certificates = append(f.Certificates, certificate.Raw)
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return packHead(f, body)
}

// packHead makes a message of a head, as JSON after its length, and a body.
func packHead(head any, body []byte) ([]byte, error) {
	text, err := json.Marshal(head)
	if err != nil {
		return nil, fmt.Errorf("forward a call: %w", err)
	}
	message := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(text)+len(body)), uint32(len(text)))
	return append(append(message, text...), body...), nil
}

// unpackHead reads such a message and returns the body.
func unpackHead(message []byte, head any) (body []byte, err error) {
	if len(message) < 4 {
		return nil, fmt.Errorf("read a forwarded call: %d bytes", len(message))
	}
	length := binary.BigEndian.Uint32(message)
	if uint64(length) > uint64(len(message)-4) {
		return nil, fmt.Errorf("read a forwarded call: a head of %d bytes in a message of %d", length, len(message))
	}
	if err := json.Unmarshal(message[4:4+length], head); err != nil {
		return nil, fmt.Errorf("read a forwarded call: %w", err)
	}
	return message[4+length:], nil
}

// request is the request as this server would have received it: from the user's address, with the
// certificates that the first server has seen. The user's connection was encrypted or is not for this
// server to judge.
func (f *forwarded) request(ctx context.Context, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, f.Method, f.Target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("read a forwarded call: %w", err)
	}
	if f.Header != nil {
		r.Header = f.Header
	}
	for _, name := range hopHeaders {
		r.Header.Del(name)
	}
	major, minor, ok := http.ParseHTTPVersion(f.Proto)
	if !ok {
		return nil, fmt.Errorf("read a forwarded call: protocol %.20q", f.Proto)
	}
	r.Proto, r.ProtoMajor, r.ProtoMinor = f.Proto, major, minor
	r.RemoteAddr = netip.AddrPortFrom(f.Remote, 0).String()
	r.TLS = &tls.ConnectionState{}
	for _, der := range f.Certificates {
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("read a forwarded call: %w", err)
		}
		r.TLS.PeerCertificates = append(r.TLS.PeerCertificates, certificate)
	}
	return r, nil
}

// forwardedKey marks the context of a request that another server has passed on.
type forwardedKey struct{}

// Answer answers a request that another server has passed on, as if the user had sent it here. Only
// servers can send one: the bus sees to that.
func (s *Server) Answer(ctx context.Context, message []byte) []byte {
	var f forwarded
	body, err := unpackHead(message, &f)
	var r *http.Request
	if err == nil {
		r, err = f.request(context.WithValue(ctx, forwardedKey{}, true), body)
	}
	w := recorder{header: http.Header{}}
	switch {
	case err != nil:
		s.log.Warn("a forwarded call is invalid", "error", err)
		http.Error(&w, "invalid call", http.StatusBadRequest)
	case roles[r.URL.Path].place != leading:
		http.Error(&w, "not a procedure of the leading server", http.StatusNotFound)
	default:
		s.answers.Add(1)
		s.served(&w, r)
	}
	w.WriteHeader(http.StatusOK) // if nothing was written
	answer, err := packHead(forwardedAnswer{w.status, w.header}, w.body.Bytes())
	if err != nil {
		s.log.Error("answer a forwarded call", "error", err) // of a map of strings
	}
	return answer
}

// served calls the handlers, except that for connections.
func (s *Server) served(w *recorder, r *http.Request) {
	defer func() {
		if fault := recover(); fault != nil {
			s.refuse(w, r, fmt.Errorf("panic: %v", fault))
		}
	}()
	s.inner.ServeHTTP(w, r)
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter, as the following do.
func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *recorder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.body.Len()+len(b) > bus.CallMax/2 {
		return 0, fmt.Errorf("answer exceeds %d bytes", bus.CallMax/2)
	}
	return w.body.Write(b)
}

func unpackAnswer(message []byte) (a forwardedAnswer, body []byte, err error) {
	body, err = unpackHead(message, &a)
	if err == nil && (a.Status < 200 || a.Status > 599) {
		err = fmt.Errorf("read the answer of the leading server: status %d", a.Status)
	}
	return a, body, err
}

// write passes the answer on. Trailers, with which gRPC ends, follow the body.
func (a *forwardedAnswer) write(w http.ResponseWriter, body []byte) {
	trailer := func(name string) bool { return strings.HasPrefix(name, http.TrailerPrefix) }
	for name, values := range a.Header {
		if !trailer(name) {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(body) // an error is a user who has gone
	maps.DeleteFunc(a.Header, func(name string, _ []string) bool { return !trailer(name) })
	maps.Copy(w.Header(), a.Header)
}
