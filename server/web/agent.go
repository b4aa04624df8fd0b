package web

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/server/control"
	"pillion.dev/session"
)

// agents implements AgentService.
type agents struct{ control Control }

// ListAgents returns agents, sorted by name.
func (a *agents) ListAgents(ctx context.Context, request *pillionv1.ListAgentsRequest) (*pillionv1.ListAgentsResponse, error) {
	size, after, err := readPage(request, request.GetLabel())
	if err != nil {
		return nil, err
	}
	response := &pillionv1.ListAgentsResponse{}
	if after == "" && request.GetLabel() == "" {
		response.Ends = scopeOf(ctx).Ends()
	}
	page, more := scopedAgentsAfter(a.control, scopeOf(ctx), after, request.GetLabel(), size)
	for _, agent := range page {
		response.Agents = append(response.Agents, agentMessage(agent))
	}
	if more {
		response.NextPageToken = cursor{page[len(page)-1].Name, request.GetLabel()}.token()
	}
	return response, nil
}

// GetAgent returns one agent.
func (a *agents) GetAgent(ctx context.Context, request *pillionv1.GetAgentRequest) (*pillionv1.GetAgentResponse, error) {
	if !scopeOf(ctx).HasAgent(request.GetName()) { // the same whether there is one or not
		return nil, fmt.Errorf("agent %q %w", request.GetName(), control.ErrNotFound)
	}
	agent, err := a.control.Agent(request.GetName())
	if scopeOf(ctx) != nil {
		agent = scopedAgent(agent)
	}
	return &pillionv1.GetAgentResponse{Agent: agentMessage(agent)}, err
}

// SetLabels replaces an agent's labels.
func (a *agents) SetLabels(_ context.Context, request *pillionv1.SetLabelsRequest) (*pillionv1.SetLabelsResponse, error) {
	if err := a.control.SetLabels(request.GetName(), request.GetLabels()); err != nil {
		return nil, err
	}
	agent, err := a.control.Agent(request.GetName())
	return &pillionv1.SetLabelsResponse{Agent: agentMessage(agent)}, err
}

// ApproveAgent approves what an agent says of itself.
func (a *agents) ApproveAgent(_ context.Context, request *pillionv1.ApproveAgentRequest) (*pillionv1.ApproveAgentResponse, error) {
	if err := a.control.Approve(request.GetName(), request.GetLabels(), request.GetAddresses(), request.GetWithdraw()); err != nil {
		return nil, err
	}
	agent, err := a.control.Agent(request.GetName())
	return &pillionv1.ApproveAgentResponse{Agent: agentMessage(agent)}, err
}

// RevokeAgent revokes an agent's certificate.
func (a *agents) RevokeAgent(_ context.Context, request *pillionv1.RevokeAgentRequest) (*pillionv1.RevokeAgentResponse, error) {
	return &pillionv1.RevokeAgentResponse{}, a.control.Revoke(request.GetName())
}

// DeleteAgent deletes a revoked agent.
func (a *agents) DeleteAgent(_ context.Context, request *pillionv1.DeleteAgentRequest) (*pillionv1.DeleteAgentResponse, error) {
	return &pillionv1.DeleteAgentResponse{}, a.control.DeleteAgent(request.GetName())
}

// CheckAgent runs an agent's checks of its host.
func (a *agents) CheckAgent(ctx context.Context, request *pillionv1.CheckAgentRequest) (*pillionv1.CheckAgentResponse, error) {
	names := request.GetPeers()
	if len(names) == 0 {
		for _, agent := range a.control.Agents() {
			if agent.State == control.Connected {
				names = append(names, agent.Name)
			}
		}
	}
	doctor := &session.Doctor{}
	for _, name := range names {
		if name == request.GetName() {
			continue
		}
		peer, err := a.control.Peer(name)
		if err != nil {
			return nil, err
		}
		doctor.Peers = append(doctor.Peers, peer)
	}
	reply, err := a.control.Ask(ctx, request.GetName(), session.Request{Doctor: doctor})
	if err != nil {
		return nil, answered(err)
	}
	checks := append(reply.Doctor, a.control.Checks(request.GetName())...)
	return &pillionv1.CheckAgentResponse{Checks: api.Messages[pillionv1.Check](checks)}, nil
}

// DescribeAgent returns the facts of an agent's host.
func (a *agents) DescribeAgent(ctx context.Context, request *pillionv1.DescribeAgentRequest) (*pillionv1.DescribeAgentResponse, error) {
	if len(request.GetDevices()) > devicesMax {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("describe agent: %d devices, limit %d", len(request.GetDevices()), devicesMax))
	}
	facts, err := a.control.Describe(ctx, request.GetName(), request.GetDevices())
	if err != nil {
		return nil, answered(err)
	}
	return &pillionv1.DescribeAgentResponse{Facts: facts}, nil
}

const devicesMax = 16

func agentMessage(a control.Agent) *pillionv1.Agent { return api.Message[pillionv1.Agent](a) }
