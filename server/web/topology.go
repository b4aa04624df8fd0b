package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"connectrpc.com/connect"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/archive"
	"pillion.dev/server/dnsname"
	"pillion.dev/server/live"
	"pillion.dev/server/topology"
	"pillion.dev/session"
)

const (
	// tracesCompared is the number of traces searched for a path change.
	tracesCompared = 12
	breaksShown    = 200
)

// paths is TopologyService.
type paths struct {
	*data
	topology Topology
	control  Control
	sites    *live.Pairs
	names    *dnsname.Resolver
}

// GetTopology returns the graph of all traced paths, or of the paths of an agent or a pair.
func (p *paths) GetTopology(ctx context.Context, request *pillionv1.GetTopologyRequest) (*pillionv1.GetTopologyResponse, error) {
	of := topology.Selection{Session: request.GetSession(), Source: request.GetSource(), Destination: request.GetDestination()}
	siteOf := siteWithin(scopeOf(ctx), p.sites.SiteOf)
	graph := p.topology.Graph(of, scopeOf(ctx))
	if request.GetBySite() {
		graph = graph.BySite(siteOf, request.GetOpenSites())
	}
	response := &pillionv1.GetTopologyResponse{}
	for _, n := range graph.Nodes {
		var name string
		if scopeOf(ctx) == nil && n.Kind == topology.Router && len(n.Addresses) > 0 { // it can be the name of another one's host
			name = p.names.Name(n.Addresses[0])
		}
		response.Nodes = append(response.Nodes, &pillionv1.Node{
			Id: validText(n.ID), Kind: n.Kind, Agent: validText(n.Agent), Addresses: n.Addresses, Ioam: n.IOAM,
			Site: validText(cmp.Or(n.Site, siteOf(n.Agent))), Agents: small(int64(n.Agents)), Name: name,
		})
	}
	if request.GetColumns() {
		response.Columns = columnsOf(&graph, siteOf, p.now())
		return response, nil
	}
	for _, e := range graph.Edges {
		edge := &pillionv1.Edge{
			From: validText(e.From), To: validText(e.To), RttNs: e.RTT.Nanoseconds(), Measured: e.Measured,
			Seen: api.TimeMessage(e.Seen),
		}
		if e.OneWay.Packets > 0 {
			edge.OneWay, edge.OneWaySeen = api.Message[pillionv1.OneWay](e.OneWay), api.TimeMessage(e.OneWaySeen)
		}
		response.Edges = append(response.Edges, edge)
	}
	for _, path := range graph.Paths {
		response.Paths = append(response.Paths, pathMessage(path))
	}
	return response, nil
}

// GetPathChange returns the last change of a path until a time.
func (p *paths) GetPathChange(ctx context.Context, request *pillionv1.GetPathChangeRequest) (*pillionv1.GetPathChangeResponse, error) {
	question := archive.Traces{
		Source: request.GetSource(), Destination: request.GetDestination(), Address: request.GetAddress(), Protocol: request.GetProtocol(),
		Most: tracesCompared,
	}
	for _, text := range []struct{ field, value string }{
		{"source", question.Source}, {"destination", question.Destination}, {"address", question.Address}, {"protocol", question.Protocol},
	} {
		if err := checkText(text.field, text.value); err != nil {
			return nil, err
		}
	}
	var err error
	if question.Until, err = api.TimeOf(request.GetUntil()); err != nil {
		return nil, invalid("until", "read until: %w", err)
	}
	release, err := p.questions.take(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, flowTimeout)
	defer cancel()
	var traces topology.Traces
	if err := p.archive.Traces(ctx, question, traces.Read); err != nil {
		return nil, fmt.Errorf("read traces of the path from %s to %s: %w", question.Source, question.Destination, err)
	}
	var change topology.Change
	if scopeOf(ctx).HasPair(question.Source, question.Destination) {
		change = p.topology.ChangeIn(question.Source, &traces)
	}
	message := func(result *session.TraceResult) *pillionv1.Path {
		if result == nil {
			return nil
		}
		return pathMessage(pathOf(question.Source, question.Destination, *result))
	}
	return &pillionv1.GetPathChangeResponse{
		Before: message(change.Before), After: message(change.After), Current: change.Current, Reverted: change.Reverted,
	}, nil
}

// GetRouterDelays returns delays, queues and coffee breaks inside a router.
func (p *paths) GetRouterDelays(ctx context.Context, request *pillionv1.GetRouterDelaysRequest) (*pillionv1.GetRouterDelaysResponse, error) {
	question := archive.RouterDelays{
		Agent: request.GetAgent(), Sessions: request.GetSessions(), Input: request.GetInput(), Output: request.GetOutput(), Breaks: breaksShown,
	}
	if len(question.Sessions) > maxNames {
		return nil, invalid("sessions", "read %d sessions: use at most %d", len(question.Sessions), maxNames)
	}
	for i, text := range append([]string{question.Agent, question.Input, question.Output}, question.Sessions...) {
		if err := checkText([]string{"agent", "input", "output", "sessions"}[min(i, 3)], text); err != nil {
			return nil, err
		}
	}
	var err error
	if question.From, question.To, err = p.span(request.GetFrom(), request.GetTo()); err != nil {
		return nil, err
	}
	if question.Step, err = stepOf(request.GetStepMs()); err != nil {
		return nil, err
	}
	span := question.To.Sub(question.From)
	question.Step = max(cmp.Or(question.Step, archive.StepOf(span/defaultWindows)), time.Second) // rows are of a second
	if span/question.Step > maxWindows {
		return nil, invalid("step_ms", "read step %v: the range has more than %d windows", question.Step, maxWindows)
	}
	answer, err := answerOf(ctx, p.questions, p.archive.RouterDelays, question)
	if err != nil {
		return nil, fmt.Errorf("read delays of router %s: %w", question.Agent, err)
	}
	return routerMessage(answer, question.Step), nil
}

func routerMessage(answer archive.RouterDelaysAnswer, step time.Duration) *pillionv1.GetRouterDelaysResponse {
	response := &pillionv1.GetRouterDelaysResponse{Session: validText(answer.Session), StepMs: step.Milliseconds(), Sampled: small(answer.Sampled)}
	for _, w := range answer.Stages {
		response.Stages = append(response.Stages, &pillionv1.StageWindow{
			Stage: validText(w.Stage), StartMs: w.Start.UnixMilli(), Delay: distributionMessage(&w.Delay, false),
		})
	}
	for _, w := range answer.Queues {
		response.Queues = append(response.Queues, &pillionv1.QueueWindow{
			Interface: validText(w.Interface), Side: validText(w.Side), StartMs: w.Start.UnixMilli(), MeanDepth: w.Mean, KernelDepth: w.Kernel,
		})
	}
	for _, s := range answer.Sizes {
		response.Sizes = append(response.Sizes, &pillionv1.QueueSizes{
			Interface: validText(s.Interface), Side: validText(s.Side), Sizes: packetCounts(s.Sizes), Arrivals: packetCounts(s.Arrivals),
		})
	}
	for _, b := range answer.Breaks {
		response.Breaks = append(response.Breaks, &pillionv1.CoffeeBreak{
			Time: api.TimeMessage(b.Time), LengthNs: b.Length.Nanoseconds(), Cause: validText(b.Cause), Task: validText(b.Task), Depth: b.Depth,
		})
	}
	return response
}

func packetCounts(counts []archive.PacketCount) []*pillionv1.PacketCount {
	messages := make([]*pillionv1.PacketCount, len(counts))
	for i, c := range counts {
		messages[i] = &pillionv1.PacketCount{Packets: small(int64(c.Packets)), Count: c.Count}
	}
	return messages
}

// Trace makes the source trace each of the addresses and adds the paths to the graph.
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

// targets are the requested address of the peer, or one of each family.
func (p *paths) targets(request *pillionv1.TraceRequest) ([]string, error) {
	peer, err := p.control.Peer(request.GetDestination())
	if err != nil {
		return nil, err
	}
	if text := request.GetAddress(); text != "" {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return nil, invalid("address", "read address %q: use an IPv4 or IPv6 address", text)
		}
		if !slices.Contains(peer.Addresses, address.String()) {
			return nil, invalid("address", "trace to %s: %s is none of the addresses that only this agent has", peer.Agent, address)
		}
		return []string{address.String()}, nil
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
		return nil, connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("trace to %s: it has no address that no other agent has", peer.Agent))
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
	path := pathOf(source, task.Peer, result)
	for _, known := range p.topology.Graph(topology.Selection{Source: path.Source, Destination: path.Destination}, nil).Paths { // with its nodes
		if known.Address == path.Address && known.Protocol == path.Protocol {
			path.Nodes, path.Changed = known.Nodes, known.Changed
		}
	}
	return pathMessage(path), nil
}

func pathOf(source, destination string, result session.TraceResult) topology.Path {
	path := topology.Path{
		Source: source, Destination: destination, Address: result.Address, Protocol: result.Protocol, Kind: topology.Traceroute,
		Reached: result.Reached, Time: result.Time,
	}
	for _, hop := range result.Hops {
		path.Hops = append(path.Hops, topology.Hop{TraceHop: hop})
	}
	return path
}

func pathMessage(p topology.Path) *pillionv1.Path {
	return api.Message[pillionv1.Path](p)
}
