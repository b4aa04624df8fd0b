package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"pillion.dev/api/pillionv1"
	"pillion.dev/api/pillionv1/pillionv1connect"
	"pillion.dev/server/authority"
)

// enrolment implements EnrolService, whose callers have no bearer token.
type enrolment struct {
	*Server
	control Control
	bus     string
}

// Enrol issues a certificate to a host with a join token.
func (e *enrolment) Enrol(ctx context.Context, request *pillionv1.EnrolRequest) (*pillionv1.EnrolResponse, error) {
	from := callerOf(ctx).remote
	certificate, authority, err := e.authority.Enrol(request.GetToken(), request.GetName(), request.GetCertificateRequest())
	if err != nil {
		if code, _ := codeOf(err); code == connect.CodeUnauthenticated {
			if err := e.failedToken(from); err != nil {
				return nil, err
			}
		}
		return nil, err
	}
	return &pillionv1.EnrolResponse{Certificate: certificate, Authority: authority, Bus: e.bus}, nil
}

// Renew issues a new certificate to an enrolled host.
func (e *enrolment) Renew(ctx context.Context, request *pillionv1.RenewRequest) (*pillionv1.RenewResponse, error) {
	agent, err := e.agentOf(ctx)
	if err != nil {
		return nil, err
	}
	certificate, err := e.authority.Renew(agent, request.GetCertificateRequest())
	if err != nil {
		return nil, fmt.Errorf("renew certificate of %s: %w", agent, err)
	}
	return &pillionv1.RenewResponse{Certificate: certificate, Bus: e.bus}, nil
}

// Standing reports whether the server accepts this host. A refusal is not an error.
func (e *enrolment) Standing(ctx context.Context, request *pillionv1.StandingRequest) (*pillionv1.StandingResponse, error) {
	if err := e.learn(ctx, request.GetRevocations()); err != nil {
		return nil, err
	}
	if _, err := e.agentOf(ctx); err != nil {
		fault := e.fault(pillionv1connect.EnrolServiceStandingProcedure, err)
		if fault.Code() == connect.CodeInternal {
			return nil, fault
		}
		return &pillionv1.StandingResponse{Reason: fault.Message()}, nil
	}
	return &pillionv1.StandingResponse{Welcome: true, Revocations: e.authority.Revocations()}, nil
}

// learn merges the revocations that an agent carries. A list that this authority did not
// sign is ignored.
func (e *enrolment) learn(ctx context.Context, carried []byte) error {
	state := callerOf(ctx).tls
	if len(carried) == 0 || state == nil || len(state.PeerCertificates) == 0 || bytes.Equal(carried, e.authority.Revocations()) {
		return nil
	}
	agents, err := e.authority.MergeRevocations(carried)
	if errors.Is(err, authority.ErrRevocations) {
		e.log.Warn("ignored list of revocations", "remote", callerOf(ctx).remote, "error", err)
		return nil
	}
	if err == nil {
		err = e.control.ApplyRevocations(agents)
	}
	if err != nil {
		return fmt.Errorf("merge revocations: %w", err)
	}
	return nil
}

// agentOf returns the agent authenticated by the connection's certificate.
func (e *enrolment) agentOf(ctx context.Context) (string, error) {
	state := callerOf(ctx).tls
	if state == nil || len(state.PeerCertificates) == 0 {
		return "", connect.NewError(connect.CodeUnauthenticated, errors.New("no client certificate; connect with TLS and the agent's certificate"))
	}
	return e.authority.Authorize(*state)
}
