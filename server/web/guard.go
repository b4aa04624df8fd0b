package web

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	"pillion.dev/archive"
	"pillion.dev/internal/quota"
	"pillion.dev/server/authority"
	"pillion.dev/session"
)

// retryAfter is after how many seconds a client that was refused for lack of room is asked to try again.
const retryAfter = 5

// caller is the client that makes a request.
type caller struct {
	token  string // name
	secret string // of the token
	role   role
	remote netip.Addr
	tls    *tls.ConnectionState // nil without TLS
	// scope limits what a token sees, by the selectors in it; nil: it sees everything.
	scope     *archive.Scope
	selectors session.Scope
}

type callerKey struct{}

func callerOf(ctx context.Context) caller {
	who, _ := ctx.Value(callerKey{}).(caller)
	return who
}

// guard wraps all handlers: it recovers from panics and refuses plain HTTP, from other
// hosts or from all.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			fault := recover()
			if fault == http.ErrAbortHandler {
				panic(fault)
			}
			if fault != nil {
				s.refuse(w, r, fmt.Errorf("panic: %v\n%s", fault, debug.Stack()))
			}
		}()
		w = newDeadlineWriter(w)
		conn := connectionOf(r.Context())
		if conn != nil {
			conn.busy.Add(1)
			defer conn.busy.Add(-1)
		}
		if conn != nil && conn.refusal != nil {
			w.Header().Set("Connection", "close")
			s.turnAway(w, r, connect.NewError(connect.CodeUnavailable, conn.refusal))
			return
		}
		from := s.origin(r)
		if why := s.plainRefusal(from); why != "" {
			if s.redirect(w, r, from) {
				return
			}
			held, end := s.hold(w, r, caller{remote: from.remote})
			if held == nil {
				return
			}
			defer end()
			w.Header().Set("Upgrade", "TLS/1.3")
			w.Header().Set("Connection", "Upgrade, close")
			if r.Method == http.MethodPost && s.errors.IsSupported(r) { // clients of the API do not show the text of an unknown status
				s.errors.Write(w, r, connect.NewError(connect.CodeFailedPrecondition, errors.New(why)))
				return
			}
			http.Error(w, why, http.StatusUpgradeRequired)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// hold takes what a request needs before its body is read, until end. If it cannot, it answers the request and returns nil.
func (s *Server) hold(w http.ResponseWriter, r *http.Request, who caller) (held *hold, end func()) {
	held, err := s.budget.begin(r, who)
	if err != nil {
		s.audit(who, methodOf(r), nil, s.fault(r.URL.Path, err))
		s.turnAway(w, r, err)
		return nil, nil
	}
	return held, func() {
		flushAnswer(w, r)
		held.end()
	}
}

// methodOf returns the procedure or the pattern of a request for the audit.
func methodOf(r *http.Request) string {
	if _, known := roles[r.URL.Path]; known {
		return r.URL.Path
	}
	return cmp.Or(r.Pattern, others)
}

// answerFirst has HTTP/1 answer before the rest of the body has arrived, and end the connection.
func answerFirst(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
}

// flushAnswer waits until an answer has been sent. In HTTP/2, a client can let it wait after the handler has returned.
func flushAnswer(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 2 {
		_ = http.NewResponseController(w).Flush() // an error is a client that has gone
	}
}

// turnAway answers a request without room for it. A client that does not read holds the text of an answer: of many at
// a time, most have none.
func (s *Server) turnAway(w http.ResponseWriter, r *http.Request, err error) {
	defer s.turning.Add(-1)
	answerFirst(w, r)
	w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	fault := s.fault(r.URL.Path, err)
	if s.turning.Add(1) > answeredMax {
		w.WriteHeader(statuses[fault.Code()])
		return
	}
	if r.Method == http.MethodPost && s.errors.IsSupported(r) {
		s.errors.Write(w, r, fault)
	} else {
		s.refuse(w, r, fault)
	}
	flushAnswer(w, r)
}

// admit authenticates a procedure call and reads its whole body, so that a slow sender
// cannot hold a call open.
func (s *Server) admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rule, known := roles[r.URL.Path]
		if !known {
			http.Error(w, "no such procedure", http.StatusNotFound)
			return
		}
		// It stays for the rest of a body that is refused, which net/http reads.
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
		who, err := s.identify(r, rule.role)
		held, end := s.hold(w, r, who)
		if held == nil {
			return
		}
		defer end()
		if err == nil {
			if err = readBody(w, r, who.role, held); err != nil {
				answerFirst(w, r)
			}
		}
		if err != nil {
			fault := s.fault(r.URL.Path, err)
			s.audit(who, r.URL.Path, nil, fault)
			s.errors.Write(w, r, fault)
			return
		}
		if rule.place == leading && s.forward(w, r, who) {
			return
		}
		r, finish := s.calls.begin(w, r, who)
		defer finish()
		next.ServeHTTP(w, r)
	})
}

// admitPlain is admit for plain HTTP requests.
func (s *Server) admitPlain(needed rule, next func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := s.identify(r, needed.role)
		held, end := s.hold(w, r, who)
		if held == nil {
			return
		}
		defer end()
		if err == nil {
			err = permit(who, needed)
		}
		if err == nil {
			r, finish := s.calls.begin(w, r, who)
			defer finish()
			err = outcome(r.Context(), next(w, r))
		}
		if err != nil {
			fault := s.fault(r.URL.Path, err)
			s.audit(who, methodOf(r), nil, fault)
			s.refuse(w, r, fault)
		}
	})
}

// identify authenticates the caller; permit authorises.
func (s *Server) identify(r *http.Request, needed role) (caller, error) {
	from := s.origin(r)
	who := caller{remote: from.remote, tls: r.TLS}
	if from.trusted {
		who.tls = nil // it is the proxy's
	}
	if needed == anyone {
		return who, nil
	}
	header := r.Header.Get("Authorization")
	scheme, secret, _ := strings.Cut(header, " ")
	if header == "" || !strings.EqualFold(scheme, "bearer") {
		return who, connect.NewError(connect.CodeUnauthenticated, errors.New("no token; send the header 'Authorization: Bearer TOKEN'"))
	}
	known, err := s.authenticate(strings.TrimSpace(secret))
	known.remote, known.tls = who.remote, who.tls
	if connect.CodeOf(err) == connect.CodeUnauthenticated { // any reason counts as a failed attempt
		if err := s.failedToken(who.remote); err != nil {
			return known, err
		}
	}
	if err == nil {
		connectionOf(r.Context()).authenticated(known.role)
	}
	return known, err
}

// authenticate returns the caller who has a token.
func (s *Server) authenticate(secret string) (who caller, err error) {
	token, err := s.authority.Check(secret)
	if who.token = token.Name; err != nil { // for the audit
		if token.Role == authority.RoleJoin { // used up, or expired: that would be beside the point
			err = errors.New("a join token only lets hosts join")
		}
		return who, connect.NewError(connect.CodeUnauthenticated, fmt.Errorf("check token: %w", err))
	}
	name, scoped := strings.CutPrefix(token.Role, authority.ScopedPrefix)
	held, ok := parseRole(name)
	if !ok {
		return who, connect.NewError(connect.CodePermissionDenied, fmt.Errorf("check token %s: role %q only lets hosts join", token.Name, token.Role))
	}
	who.secret, who.role = secret, held
	if scoped || len(token.Scope) > 0 {
		who.selectors, who.scope = token.Scope, s.scopes.of(token.Name, token.Scope)
	}
	return who, nil
}

// failedToken counts an invalid token. An address with too many gets no reason. A valid
// token is still accepted: otherwise one client could lock out all others behind its
// address, and a secret is too long for a brute-force attack.
func (s *Server) failedToken(from netip.Addr) error {
	if s.ledger.invalid(from) {
		err := fmt.Errorf("too many invalid tokens from %v; wait a minute", from)
		s.budget.exceeded("address "+quota.Source(from), err)
		return connect.NewError(connect.CodeResourceExhausted, err)
	}
	return nil
}

// permit authorises a call.
func permit(who caller, needed rule) error {
	switch {
	case who.role < needed.role:
		return connect.NewError(connect.CodePermissionDenied, fmt.Errorf("token %s has role %v; this requires role %v", who.token, who.role, needed.role))
	case who.scope != nil && needed.scoping != within && needed.scoping != open:
		return connect.NewError(connect.CodePermissionDenied, fmt.Errorf("token %s has a scope; this requires a token without one", who.token))
	}
	return nil
}
