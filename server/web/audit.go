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
// changes, including refused ones.
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
		if audited(procedure) {
			w.audit(callerOf(ctx), procedure, request.Any(), fault)
		}
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
		if err == nil {
			err = outcome(ctx, next(ctx, endingConn{conn, ctx, w.permits}))
		}
		if err != nil {
			return w.fault(procedure, err)
		}
		return nil
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

// audit records a change, or the attempt. Refused calls without a valid token are
// rate-limited, so that they cannot fill the archive; the excess is counted.
func (s *Server) audit(who caller, procedure string, request any, fault *connect.Error) {
	if who.token == "" && fault != nil {
		if s.unauthenticated.blocked(who.remote) {
			s.unrecorded.Add(1)
			return
		}
		s.unauthenticated.failed(who.remote)
	}
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
	s.events.Change(change)
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
