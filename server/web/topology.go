package web

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"connectrpc.com/connect"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/server/topology"
	"pillion.dev/session"
)

// paths is TopologyService.
type paths struct {
	topology Topology
	control  Control
}

// GetTopology gives the graph of all paths that were traced.
func (p *paths) GetTopology(_ context.Context, request *pillionv1.GetTopologyRequest) (*pillionv1.GetTopologyResponse, error) {
	graph := p.topology.Graph(request.GetSession())
	response := &pillionv1.GetTopologyResponse{}
	for _, n := range graph.Nodes {
		response.Nodes = append(response.Nodes, &pillionv1.Node{
			Id: validText(n.ID), Kind: n.Kind, Agent: validText(n.Agent), Addresses: n.Addresses,
		})
	}
	for _, e := range graph.Edges {
		response.Edges = append(response.Edges, &pillionv1.Edge{
			From: validText(e.From), To: validText(e.To), RttNs: e.RTT.Nanoseconds(), Measured: e.Measured,
			Seen: api.TimeMessage(e.Seen),
		})
	}
	for _, path := range graph.Paths {
		response.Paths = append(response.Paths, pathMessage(path))
	}
	return response, nil
}

// Trace lets the source trace to each of the addresses, and puts the paths into
// the graph.
func (p *paths) Trace(ctx context.Context, request *pillionv1.TraceRequest) (*pillionv1.TraceResponse, error) {
	protocol := request.GetProtocol()
	if protocol == "" {
		protocol = "udp"
	}
	if protocol != "udp" && protocol != "icmp" {
		return nil, invalid("protocol", "read protocol %q: use udp or icmp", protocol)
	}
	targets, err := p.targets(request)
	if err != nil {
		return nil, err
	}
	response := &pillionv1.TraceResponse{}
	for _, target := range targets {
		task := session.TraceTask{Peer: request.GetDestination(), Address: target, Protocol: protocol}
		path, err := p.trace(ctx, request.GetSource(), task)
		if err != nil {
			return nil, fmt.Errorf("trace %s to %s: %w", request.GetSource(), target, err)
		}
		response.Paths = append(response.Paths, path)
	}
	return response, nil
}

// targets are the address that was asked for, or one of each family.
func (p *paths) targets(request *pillionv1.TraceRequest) ([]string, error) {
	if text := request.GetAddress(); text != "" {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return nil, invalid("address", "read address %q: use an IPv4 or IPv6 address", text)
		}
		return []string{address.String()}, nil
	}
	peer, err := p.control.Peer(request.GetDestination())
	if err != nil {
		return nil, err
	}
	var found []string
	for _, is4 := range []bool{true, false} {
		for _, text := range peer.Addresses {
			if address, err := netip.ParseAddr(text); err == nil && address.Is4() == is4 {
				found = append(found, text)
				break
			}
		}
	}
	if len(found) == 0 {
		return nil, connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("trace to %s: it has no address that is its alone; name one", peer.Agent))
	}
	return found, nil
}

func (p *paths) trace(ctx context.Context, source string, task session.TraceTask) (*pillionv1.Path, error) {
	reply, err := p.control.Ask(ctx, source, session.Request{Trace: &task})
	if err != nil {
		return nil, answered(err)
	}
	if reply.Trace == nil {
		return nil, answered(errors.New("the agent's reply has no path"))
	}
	result := *reply.Trace
	if result.Error != "" {
		return nil, answered(errors.New(result.Error))
	}
	if err := p.topology.Add(source, task.Peer, "", result); err != nil {
		return nil, err
	}
	path := topology.Path{
		Source: source, Destination: task.Peer, Address: result.Address, Protocol: result.Protocol,
		Reached: result.Reached, Time: result.Time, Hops: result.Hops,
	}
	for _, known := range p.topology.Graph("").Paths { // it knows the nodes
		if known.Source == path.Source && known.Destination == path.Destination &&
			known.Address == path.Address && known.Protocol == path.Protocol {
			path.Nodes, path.Changed = known.Nodes, known.Changed
		}
	}
	return pathMessage(path), nil
}

func pathMessage(p topology.Path) *pillionv1.Path {
	return api.Message[pillionv1.Path](p)
}
