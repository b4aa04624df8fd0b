package web

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"pillion.dev/api/pillionv1/pillionv1connect"
	"pillion.dev/server/event"
)

const (
	// callTimeout limits a unary call.
	callTimeout = 2 * time.Minute
	// auditBytes limits the text of a request in the audit stream.
	auditBytes = 8 << 10
)

// secretFields are left out of the audit stream, as are certificate requests, which are
// not readable.
var secretFields = map[protoreflect.Name]bool{"token": true, "secret": true, "certificate_request": true}

// interceptor wraps every call: it checks the role, converts errors and audits
// changes and refused calls.
type interceptor struct{ *Server }

// WrapUnary wraps a unary call.
func (w interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (response connect.AnyResponse, err error) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		procedure := request.Spec().Procedure
		if err = permit(callerOf(ctx), roles[procedure]); err == nil {
			response, err = next(ctx, request)
			err = outcome(ctx, err)
		}
		var fault *connect.Error
		if err != nil {
			fault = w.fault(procedure, err)
		}
		w.audit(callerOf(ctx), procedure, request.Any(), fault)
		if fault != nil {
			return nil, fault
		}
		return response, nil
	}
}

// WrapStreamingHandler wraps a streaming call; none of these changes anything.
func (w interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		procedure := conn.Spec().Procedure
		err := permit(callerOf(ctx), roles[procedure])
		permitted := err == nil
		if permitted {
			err = outcome(ctx, next(ctx, endingConn{conn, ctx, w.permits}))
		}
		if err == nil {
			return nil
		}
		fault := w.fault(procedure, err)
		if !permitted || !downloads[procedure] {
			w.audit(callerOf(ctx), procedure, nil, fault)
		}
		return fault
	}
}

// WrapStreamingClient does nothing: this is a server.
func (w interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// recovered turns a panic of a handler into an error.
func (s *Server) recovered(_ context.Context, spec connect.Spec, _ http.Header, fault any) error {
	return s.fault(spec.Procedure, fmt.Errorf("panic: %v\n%s", fault, debug.Stack()))
}

// audit records a change, or the attempt, and refused calls of all kinds. Only successful changes have a record each;
// others cannot fill the archive.
func (s *Server) audit(who caller, procedure string, request any, fault *connect.Error) {
	if !audited(procedure) && (fault == nil || !refusal(fault)) {
		return
	}
	change := s.change(who, procedure, request, fault)
	if fault == nil {
		s.events.Change(change)
	} else {
		s.ledger.note(change, who.remote, fault)
	}
}

// downloads are the procedures that record themselves, as what they have sent is part of it.
var downloads = map[string]bool{pillionv1connect.DataServiceQueryProcedure: true, pillionv1connect.DataServiceExportProcedure: true}

// record audits a query or an export, and returns its error for the caller.
func (s *Server) record(ctx context.Context, procedure string, request proto.Message, rows int64, err error) error {
	var fault *connect.Error
	if err != nil {
		fault = s.fault(procedure, outcome(ctx, err))
	}
	change := s.change(callerOf(ctx), procedure, request, fault)
	change.Outcome += fmt.Sprintf("; %d rows, %d bytes sent", rows, sentBy(ctx))
	s.ledger.note(change, callerOf(ctx).remote, fault)
	if fault == nil {
		return nil
	}
	return fault
}

// change returns the audit record of a call.
func (s *Server) change(who caller, procedure string, request any, fault *connect.Error) event.Change {
	change := event.Change{
		Time: s.now(), Token: who.token, Role: who.role.String(), Remote: who.remote.String(),
		Method: procedure, Outcome: "ok",
	}
	if fault != nil {
		change.Outcome = validText(fault.Error())
	}
	if message, ok := request.(proto.Message); ok {
		change.Request = auditText(message)
	}
	return change
}

func auditText(message proto.Message) string {
	copied := proto.Clone(message)
	reflected := copied.ProtoReflect()
	for i := range reflected.Descriptor().Fields().Len() {
		if field := reflected.Descriptor().Fields().Get(i); secretFields[field.Name()] {
			reflected.Clear(field)
		}
	}
	text, err := protojson.Marshal(copied)
	if err != nil {
		return ""
	}
	if len(text) > auditBytes {
		text = append(text[:auditBytes], "..."...)
	}
	return validText(string(text))
}
