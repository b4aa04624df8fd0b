package web

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"syscall"

	"connectrpc.com/connect"

	"pillion.dev/api/pillionv1"
	"pillion.dev/archive"
	"pillion.dev/bus"
	"pillion.dev/server/alarm"
	"pillion.dev/server/authority"
	"pillion.dev/server/control"
	"pillion.dev/server/topology"
)

// codes maps errors of other packages, whose messages are shown to users.
var codes = []struct {
	err  error
	code connect.Code
}{
	{authority.ErrUnknown, connect.CodeUnauthenticated},
	{authority.ErrExpired, connect.CodeUnauthenticated},
	{authority.ErrRevoked, connect.CodeUnauthenticated},
	{authority.ErrUsedUp, connect.CodeUnauthenticated},
	{authority.ErrBound, connect.CodePermissionDenied},
	{authority.ErrRole, connect.CodePermissionDenied},
	{authority.ErrCertificate, connect.CodePermissionDenied},
	{authority.ErrInvalid, connect.CodeInvalidArgument},
	{authority.ErrExists, connect.CodeAlreadyExists},
	{authority.ErrNotFound, connect.CodeNotFound},
	{authority.ErrLast, connect.CodeFailedPrecondition},
	{control.ErrNotFound, connect.CodeNotFound},
	{control.ErrExists, connect.CodeAlreadyExists},
	{control.ErrConflict, connect.CodeFailedPrecondition},
	{control.ErrState, connect.CodeFailedPrecondition},
	{control.ErrRevoked, connect.CodePermissionDenied},
	{control.ErrSuperseded, connect.CodePermissionDenied},
	{alarm.ErrUnknown, connect.CodeNotFound},
	{alarm.ErrMatcher, connect.CodeInvalidArgument},
	{alarm.ErrSilence, connect.CodeInvalidArgument},
	{alarm.ErrFollows, connect.CodeUnavailable},
	{topology.ErrTrace, connect.CodeUnknown},
	{archive.ErrDamaged, connect.CodeDataLoss},
	{archive.ErrQuery, connect.CodeInvalidArgument},
	{archive.ErrUnknown, connect.CodeNotFound},
	{archive.ErrScope, connect.CodePermissionDenied},
	{archive.ErrFull, connect.CodeResourceExhausted},
	{bus.ErrAway, connect.CodeUnavailable},
	{bus.ErrChanged, connect.CodeAborted},
	{context.Canceled, connect.CodeCanceled},
	{context.DeadlineExceeded, connect.CodeDeadlineExceeded},
}

// fault converts an error for the caller. An unexpected error is logged under an id,
// and the caller only gets the id.
func (s *Server) fault(procedure string, err error) *connect.Error {
	var already *connect.Error
	if errors.As(err, &already) {
		return already
	}
	var faulty *control.InvalidError
	if errors.As(err, &faulty) {
		return problems(err, problemMessages(faulty.Problems))
	}
	if code, known := codeOf(err); known {
		return connect.NewError(code, err)
	}
	if errors.Is(err, syscall.ENOSPC) {
		s.log.Error("disk is full", "procedure", procedure, "error", err)
		return connect.NewError(connect.CodeResourceExhausted, errors.New("nothing was changed: the server's disk is full"))
	}
	id := rand.Text()[:8]
	s.log.Error("internal error", "id", id, "procedure", procedure, "error", err)
	return connect.NewError(connect.CodeInternal, fmt.Errorf("internal error; see id %s in the server's log", id))
}

func codeOf(err error) (connect.Code, bool) {
	for _, known := range codes {
		if errors.Is(err, known.err) {
			return known.code, true
		}
	}
	return 0, false
}

// answered converts an error of a request to an agent. The agent's message is shown to
// the caller: it is about the agent's host, not the server.
func answered(err error) error {
	var faulty *control.InvalidError
	if _, known := codeOf(err); known || err == nil || errors.As(err, &faulty) {
		return err
	}
	return connect.NewError(connect.CodeUnknown, errors.New(validText(err.Error())))
}

// invalid reports an invalid value of one field.
func invalid(field, format string, a ...any) *connect.Error {
	err := fmt.Errorf(format, a...)
	return problems(err, []*pillionv1.Problem{{Field: field, Message: err.Error()}})
}

// problems reports invalid values of any number of fields.
func problems(err error, all []*pillionv1.Problem) *connect.Error {
	fault := connect.NewError(connect.CodeInvalidArgument, err)
	for _, problem := range all {
		if detail, err := connect.NewErrorDetail(problem); err == nil {
			fault.AddDetail(detail)
		}
	}
	return fault
}

// statuses maps codes to HTTP statuses of plain responses.
var statuses = map[connect.Code]int{
	connect.CodeInvalidArgument: http.StatusBadRequest, connect.CodeUnauthenticated: http.StatusUnauthorized,
	connect.CodePermissionDenied: http.StatusForbidden, connect.CodeNotFound: http.StatusNotFound,
	connect.CodeAborted: http.StatusConflict, connect.CodeResourceExhausted: http.StatusTooManyRequests, connect.CodeUnavailable: http.StatusServiceUnavailable,
	connect.CodeDeadlineExceeded: http.StatusGatewayTimeout,
}

// refuse answers a plain HTTP request with an error in one line of text.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	fault := s.fault(r.URL.Path, err)
	status, known := statuses[fault.Code()]
	if !known {
		status = http.StatusInternalServerError
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	http.Error(w, fault.Message(), status)
}
