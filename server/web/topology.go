package web

import (
	"context"
	"fmt"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
)

// paths is TopologyService.
type paths struct{ topology Topology }

// GetTopology gives the graph of all paths that were traced.
func (p *paths) GetTopology(_ context.Context, request *pillionv1.GetTopologyRequest) (*pillionv1.GetTopologyResponse, error) {
	graph := p.topology.Graph(request.GetSession())
	response := &pillionv1.GetTopologyResponse{Paths: pathMessages(graph.Paths)}
	for _, n := range graph.Nodes {
		response.Nodes = append(response.Nodes, &pillionv1.Node{Id: n.ID, Kind: n.Kind, Agent: n.Agent, Addresses: n.Addresses})
	}
	for _, e := range graph.Edges {
		response.Edges = append(response.Edges, &pillionv1.Edge{
			From: e.From, To: e.To, RttNs: e.RTT.Nanoseconds(), Seen: api.TimeMessage(e.Seen),
		})
	}
	return response, nil
}

// Trace traces one path now.
func (p *paths) Trace(ctx context.Context, request *pillionv1.TraceRequest) (*pillionv1.TraceResponse, error) {
	protocol := request.GetProtocol()
	if protocol == "" {
		protocol = "udp"
	}
	if protocol != "udp" && protocol != "icmp" {
		return nil, invalid("protocol", "read protocol %q: use udp or icmp", protocol)
	}
	traced, err := p.topology.Trace(ctx, request.GetSource(), request.GetDestination(), request.GetAddress(), protocol)
	if err != nil {
		return nil, fmt.Errorf("trace %s to %s: %w", request.GetSource(), request.GetDestination(), err)
	}
	return &pillionv1.TraceResponse{Paths: pathMessages(traced)}, nil
}

func pathMessages(all []Path) []*pillionv1.Path {
	var messages []*pillionv1.Path
	for _, p := range all {
		messages = append(messages, &pillionv1.Path{
			Source: p.Source, Destination: p.Destination, Address: p.Address, Protocol: p.Protocol,
			Nodes: p.Nodes, Reached: p.Reached, Time: api.TimeMessage(p.Time), Changed: api.TimeMessage(p.Changed),
			Hops: api.HopMessages(p.Hops),
		})
	}
	return messages
}
