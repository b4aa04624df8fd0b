package web

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"

	"connectrpc.com/connect"

	"pillion.dev/api/pillionv1"
	"pillion.dev/archive"
	"pillion.dev/bus"
)

// codes of the errors of other rooms. Their words are for users.
var codes = []struct {
	err  error
	code connect.Code
}{
	{archive.ErrQuery, connect.CodeInvalidArgument},
	{archive.ErrUnknown, connect.CodeNotFound},
	{archive.ErrFull, connect.CodeResourceExhausted},
	{bus.ErrAway, connect.CodeUnavailable},
	{context.Canceled, connect.CodeCanceled},
	{context.DeadlineExceeded, connect.CodeDeadlineExceeded},
}

// fault is an error as a caller sees it. What no room has words for is written
// into the log under an id, and the caller gets the id.
func (s *Server) fault(procedure string, err error) *connect.Error {
	var already *connect.Error
	if errors.As(err, &already) {
		return already
	}
	for _, known := range codes {
		if errors.Is(err, known.err) {
			return connect.NewError(known.code, err)
		}
	}
	id := rand.Text()[:8]
	s.log.Error("internal error", "id", id, "procedure", procedure, "error", err)
	return connect.NewError(connect.CodeInternal, fmt.Errorf("internal error; the server's log has it under the id %s", id))
}

// invalid is the caller's mistake in one field.
func invalid(field, format string, a ...any) *connect.Error {
	err := fmt.Errorf(format, a...)
	return problems(err, []*pillionv1.Problem{{Field: field, Message: err.Error()}})
}

// problems is the caller's mistake in any number of fields.
func problems(err error, all []*pillionv1.Problem) *connect.Error {
	fault := connect.NewError(connect.CodeInvalidArgument, err)
	for _, problem := range all {
		if detail, err := connect.NewErrorDetail(problem); err == nil {
			fault.AddDetail(detail)
		}
	}
	return fault
}

// statuses of plain answers, for the codes that they can have.
var statuses = map[connect.Code]int{
	connect.CodeInvalidArgument: http.StatusBadRequest, connect.CodeUnauthenticated: http.StatusUnauthorized,
	connect.CodePermissionDenied: http.StatusForbidden, connect.CodeNotFound: http.StatusNotFound,
	connect.CodeResourceExhausted: http.StatusTooManyRequests, connect.CodeUnavailable: http.StatusServiceUnavailable,
	connect.CodeDeadlineExceeded: http.StatusGatewayTimeout,
}

// refuse answers a plain request with an error in one line of text.
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

// slots bounds how many costly questions are answered at once.
type slots chan struct{}

func (s slots) take(ctx context.Context) (release func(), err error) {
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	default:
	}
	return nil, connect.NewError(connect.CodeResourceExhausted,
		fmt.Errorf("%d such questions are being answered already; ask again when one has ended", cap(s)))
}
