package pillion

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api/pillionv1"
	"pillion.dev/api/pillionv1/pillionv1connect"
)

// fake is a server with canned data, over real HTTP.
type fake struct {
	pillionv1connect.UnimplementedAgentServiceHandler
	pillionv1connect.UnimplementedAlarmServiceHandler
	pillionv1connect.UnimplementedSessionServiceHandler
	pillionv1connect.UnimplementedDataServiceHandler
	pillionv1connect.UnimplementedFlowServiceHandler
	pillionv1connect.UnimplementedTopologyServiceHandler
	pillionv1connect.UnimplementedServerServiceHandler

	mutex   sync.Mutex
	asked   []string // requests that change something, as text
	tails   int
	sent    bool // the canned rows of a tail were sent; then the session ends
	keep    bool // the session continues
	state   string
	started chan struct{} // an export has begun and will not end
}

const secret = "plt_0123456789abcdef"

func newFake(t *testing.T) (*fake, *httptest.Server) {
	t.Helper()
	f := &fake{state: "running", started: make(chan struct{}, 1)}
	mux := http.NewServeMux()
	guard := connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			switch r.Spec().Procedure {
			case pillionv1connect.ServerServiceHealthProcedure, pillionv1connect.ServerServiceBuildInfoProcedure:
				return next(ctx, r)
			}
			if r.Header().Get("Authorization") != "Bearer "+secret {
				return nil, connect.NewError(connect.CodeUnauthenticated, fmt.Errorf("no valid token"))
			}
			return next(ctx, r)
		}
	}))
	mux.Handle(pillionv1connect.NewAgentServiceHandler(f, guard))
	mux.Handle(pillionv1connect.NewAlarmServiceHandler(f, guard))
	mux.Handle(pillionv1connect.NewSessionServiceHandler(f, guard))
	mux.Handle(pillionv1connect.NewDataServiceHandler(f, guard))
	mux.Handle(pillionv1connect.NewFlowServiceHandler(f, guard))
	mux.Handle(pillionv1connect.NewTopologyServiceHandler(f, guard))
	mux.Handle(pillionv1connect.NewServerServiceHandler(f, guard))
	server := httptest.NewTLSServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return f, server
}

func (f *fake) note(format string, values ...any) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.asked = append(f.asked, fmt.Sprintf(format, values...))
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(noon.Add(d)) }

// seen is what tables show as 3d ago.
var seen = time.Now().Add(-73 * time.Hour)

func cannedAgents() []*pillionv1.Agent {
	return []*pillionv1.Agent{{
		Name: "north1", State: "connected", Labels: map[string]string{"site": "north", "role": "edge"}, Seen: timestamppb.New(seen),
		Enrolled: at(0), Started: at(time.Hour), Version: "v0.3.0", Kernel: "6.1.0", CertificateExpires: at(720 * time.Hour),
		Clock:      &pillionv1.Clock{Synchronised: true, MaxErrorNs: 35_000, OffsetNs: -1200, By: "chrony"},
		Spool:      &pillionv1.Spool{Batches: 2, Bytes: 3 << 20, LimitBytes: 1 << 30, SentRows: 12345, DroppedRows: 7},
		Interfaces: []*pillionv1.Interface{{Name: "eth0", Mtu: 1500, Up: true, Addresses: []string{"10.0.0.1/24", "2001:db8::1/64"}}},
		Tasks:      []*pillionv1.Task{{Session: "web", Role: "source", Device: "eth0", Running: true, Agent: "north1", Counters: map[string]uint64{"marked": 10, "errors": 0}}},
	}, {
		Name: "south\x1b[31m1", State: "away", Seen: timestamppb.New(seen), Clock: &pillionv1.Clock{},
	}}
}

func (f *fake) ListAgents(_ context.Context, r *pillionv1.ListAgentsRequest) (*pillionv1.ListAgentsResponse, error) {
	if r.Label != "" {
		return &pillionv1.ListAgentsResponse{}, nil
	}
	return &pillionv1.ListAgentsResponse{Agents: cannedAgents(), Ends: []string{"exchange1"}}, nil
}

func (f *fake) GetAgent(_ context.Context, r *pillionv1.GetAgentRequest) (*pillionv1.GetAgentResponse, error) {
	for _, g := range cannedAgents() {
		if g.Name == r.Name {
			return &pillionv1.GetAgentResponse{Agent: g}, nil
		}
	}
	return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("no agent %q", r.Name))
}

func (f *fake) ApproveAgent(_ context.Context, r *pillionv1.ApproveAgentRequest) (*pillionv1.ApproveAgentResponse, error) {
	f.note("approve %s %s %s, not %s", r.Name, pairsText(r.Labels), strings.Join(r.Addresses, " "), strings.Join(r.Withdraw, " "))
	return &pillionv1.ApproveAgentResponse{Agent: &pillionv1.Agent{Name: r.Name, ApprovedLabels: r.Labels, Labels: r.Labels, ApprovedAddresses: r.Addresses}}, nil
}

func (f *fake) SetLabels(_ context.Context, r *pillionv1.SetLabelsRequest) (*pillionv1.SetLabelsResponse, error) {
	f.note("labels %s %s", r.Name, pairsText(r.Labels))
	return &pillionv1.SetLabelsResponse{Agent: &pillionv1.Agent{Name: r.Name, Labels: r.Labels}}, nil
}

func (f *fake) RevokeAgent(context.Context, *pillionv1.RevokeAgentRequest) (*pillionv1.RevokeAgentResponse, error) {
	return nil, connect.NewError(connect.CodePermissionDenied, fmt.Errorf("the role operator may not revoke"))
}

func (f *fake) CheckAgent(_ context.Context, r *pillionv1.CheckAgentRequest) (*pillionv1.CheckAgentResponse, error) {
	if r.Name != "north1" {
		return nil, connect.NewError(connect.CodeUnavailable, fmt.Errorf("agent %q is away", r.Name))
	}
	return &pillionv1.CheckAgentResponse{Checks: []*pillionv1.Check{
		{Name: "kernel", Level: "ok", Found: "6.1.0"},
		{Name: "clock", Level: "warning", Found: "not synchronised", Advice: "install chrony"},
	}}, nil
}

func cannedSession(state string) *pillionv1.Session {
	return &pillionv1.Session{
		Spec: &pillionv1.SessionSpec{
			Name: "web", Sources: []string{"north1"}, Destinations: []string{"site=south"}, Both: true, Modules: []string{"delay", "loss"},
			Encoding: "udp", Filters: []string{"proto=tcp dport=443"}, Sampling: &pillionv1.Sampling{Every: 10},
			Interval: durationpb.New(time.Second), Granularity: "flow", Duration: durationpb.New(36 * time.Hour),
		},
		State: state, Created: at(0), CreatedBy: "operator", Started: at(time.Minute), Revision: 3,
		Pairs: []*pillionv1.Pair{{Source: "north1", Destination: "south1"}, {Source: "south1", Destination: "north1"}},
		Tasks: []*pillionv1.Task{
			{Session: "web", Agent: "south1", Role: "destination", Device: "eth0", Running: true},
			{Session: "web", Agent: "south1", Role: "source", Device: "eth0", Error: "device eth0 has no BPF hook"},
		},
	}
}

func (f *fake) session() *pillionv1.Session {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.sent {
		return cannedSession("ended")
	}
	return cannedSession(f.state)
}

func (f *fake) ListSessions(context.Context, *pillionv1.ListSessionsRequest) (*pillionv1.ListSessionsResponse, error) {
	return &pillionv1.ListSessionsResponse{Sessions: []*pillionv1.Session{f.session()}}, nil
}

func (f *fake) GetSession(_ context.Context, r *pillionv1.GetSessionRequest) (*pillionv1.GetSessionResponse, error) {
	if r.Name != "web" {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("no session %q", r.Name))
	}
	return &pillionv1.GetSessionResponse{Session: f.session(), Runs: cannedRuns(), Reasons: []*pillionv1.Reason{{
		Where: "south1", Name: "source", Level: "error", Found: "source on south1: device eth0 has no BPF hook", Advice: "update the kernel", Agent: "south1", Session: "web",
	}}}, nil
}

func cannedRuns() []*pillionv1.Run {
	return []*pillionv1.Run{
		{Session: "web", Start: at(-24 * time.Hour), End: at(-23 * time.Hour), State: "missed", Reason: "the server was down"},
		{Session: "web", Start: at(0), End: at(time.Hour), State: "planned"},
	}
}

func (f *fake) ListRuns(context.Context, *pillionv1.ListRunsRequest) (*pillionv1.ListRunsResponse, error) {
	return &pillionv1.ListRunsResponse{Runs: cannedRuns()}, nil
}

func (f *fake) PlanSession(_ context.Context, r *pillionv1.PlanSessionRequest) (*pillionv1.PlanSessionResponse, error) {
	answer := &pillionv1.PlanSessionResponse{
		Spec: r.Spec, Pairs: []*pillionv1.Pair{{Source: "north1", Destination: "south1"}},
		Steps: []*pillionv1.Step{
			{Agent: "south1", Action: "start-destination", Description: "read marks on eth0"},
			{Agent: "north1", Action: "start-source", Description: "mark packets on eth0"},
		},
		Starts: []*timestamppb.Timestamp{at(0)}, Costs: []string{"28 bytes a packet"}, Warnings: []string{"north1's clock is not synchronised"},
	}
	if len(r.Spec.Destinations) == 0 {
		answer.Problems = twoProblems
	}
	return answer, nil
}

var twoProblems = []*pillionv1.Problem{{Field: "destinations", Message: "none given"}, {Field: "filters[0]", Message: "no port 70000"}}

// refusal is an error with problems in the form of the server's.
func refusal(message string, problems ...*pillionv1.Problem) error {
	refusal := connect.NewError(connect.CodeInvalidArgument, errors.New(message))
	for _, problem := range problems {
		detail, err := connect.NewErrorDetail(problem)
		if err != nil {
			return err
		}
		refusal.AddDetail(detail)
	}
	return refusal
}

func (f *fake) CreateSession(_ context.Context, r *pillionv1.CreateSessionRequest) (*pillionv1.CreateSessionResponse, error) {
	if len(r.Spec.Destinations) == 0 {
		return nil, refusal("2 problems", twoProblems...)
	}
	f.note("create %s", jsonText(messageValue(r.Spec.ProtoReflect())))
	return &pillionv1.CreateSessionResponse{Session: &pillionv1.Session{Spec: r.Spec, State: "starting"}, Warnings: []string{"mind the gap"}}, nil
}

func (f *fake) ChangeSession(_ context.Context, r *pillionv1.ChangeSessionRequest) (*pillionv1.ChangeSessionResponse, error) {
	f.note("change %s", jsonText(messageValue(r.Spec.ProtoReflect())))
	if r.Spec.GetSampling().GetEvery() == 666 {
		return nil, refusal("1 problem", &pillionv1.Problem{Field: "sampling.every", Message: "too many"})
	}
	return &pillionv1.ChangeSessionResponse{Session: &pillionv1.Session{Spec: r.Spec, State: "running"}}, nil
}

func (f *fake) StopSession(_ context.Context, r *pillionv1.StopSessionRequest) (*pillionv1.StopSessionResponse, error) {
	return &pillionv1.StopSessionResponse{Session: cannedSession("stopping")}, nil
}

func (f *fake) GetTopology(context.Context, *pillionv1.GetTopologyRequest) (*pillionv1.GetTopologyResponse, error) {
	hops := []*pillionv1.Hop{{Ttl: 1, Address: "10.0.0.254", RttNs: 210_000, Sent: 3, Answers: 3}, {Ttl: 2, Sent: 3}, {Ttl: 3, Address: "10.9.0.2", RttNs: 1_500_000, Sent: 3, Answers: 2}}
	return &pillionv1.GetTopologyResponse{
		Nodes: []*pillionv1.Node{
			{Id: "a:north1", Kind: "agent", Agent: "north1"}, {Id: "r:1", Kind: "router", Addresses: []string{"10.0.0.254"}, Name: "r1.example.net"},
			{Id: "u:1", Kind: "unknown"}, {Id: "ioam:0x000101", Kind: "router", Ioam: "0x000101"}, {Id: "a:south1", Kind: "agent", Agent: "south1"}, {Id: `odd"\`, Kind: "router"},
		},
		Edges: []*pillionv1.Edge{{From: "a:north1", To: "r:1", RttNs: 210_000}, {From: "r:1", To: "u:1", RttNs: -40},
			{From: "a:north1", To: "ioam:0x000101", OneWay: &pillionv1.OneWay{Packets: 10, P50Ns: 1_200_000}}},
		Paths: []*pillionv1.Path{
			{Source: "north1", Destination: "south1", Address: "10.9.0.2", Protocol: "udp", Reached: true, Time: at(0), Nodes: []string{"a:north1", "r:1", "u:1", "a:south1"}, Hops: hops},
			{Source: "north1", Destination: "west1", Address: "10.7.0.2", Protocol: "icmp", Time: at(0), Nodes: []string{"a:north1", "r:1"}, Hops: hops[:1]},
			{Source: "north1", Destination: "south1", Address: "fd00::2", Protocol: "ioam", Kind: "ioam", Reached: true, Time: at(0),
				Nodes: []string{"agent:north1", "ioam:0x000101", "agent:r2", "agent:south1"}, Hops: []*pillionv1.Hop{
					{Ttl: 1, OneWay: &pillionv1.OneWay{Packets: 10, P50Ns: 1_200_000, UncertaintyNs: 1000}},
					{Ttl: 2, Stages: []*pillionv1.HopStage{{Stage: "transit", P50Ns: 7000}}},
					{Ttl: 3, OneWay: &pillionv1.OneWay{Packets: 10, P50Ns: 300_000, UncertaintyNs: 1000, ClockErrorNs: 50_000, ClockKnown: true}},
				}, OneWay: &pillionv1.OneWay{Packets: 10, P50Ns: 1_500_000, UncertaintyNs: 1, ClockKnown: true}},
		},
	}, nil
}

func cannedColumns() []*pillionv1.Column {
	return []*pillionv1.Column{{Name: "time", Type: "time"}, {Name: "agent", Type: "string"}, {Name: "delay_p50_ns", Type: "int64", Unit: "ns"}, {Name: "load", Type: "float64"}, {Name: "counts", Type: "uint64[]"}}
}

func cannedRow(agent string, delay int64) *pillionv1.Row {
	row := &pillionv1.Row{Values: []*pillionv1.Value{
		{Kind: &pillionv1.Value_Time{Time: noon.UnixNano()}}, {Kind: &pillionv1.Value_Text{Text: agent}}, {Kind: &pillionv1.Value_Int{Int: delay}},
		{Kind: &pillionv1.Value_Float{Float: 0.25}}, {Kind: &pillionv1.Value_List{List: &pillionv1.List{Values: []int64{1, 2}}}},
	}}
	if delay == 0 {
		row.Values[2] = &pillionv1.Value{}
	}
	return row
}

func (f *fake) ListStreams(context.Context, *pillionv1.ListStreamsRequest) (*pillionv1.ListStreamsResponse, error) {
	return &pillionv1.ListStreamsResponse{Streams: []*pillionv1.Stream{
		{Name: "flows", Doc: "delay and loss", Rows: 1000, First: at(-time.Hour), Last: at(0), Columns: cannedColumns(), Retention: &pillionv1.Retention{Age: durationpb.New(90 * 24 * time.Hour)}},
		{Name: "events", Doc: "what happened"},
	}, RollUps: []*pillionv1.Stream{
		{Name: "flows_1m", Doc: "sums of flows", Rows: 60, First: at(-time.Hour), Last: at(0), Retention: &pillionv1.Retention{Age: durationpb.New(31 * 24 * time.Hour)}},
	}}, nil
}

func (f *fake) SetRetention(_ context.Context, r *pillionv1.SetRetentionRequest) (*pillionv1.SetRetentionResponse, error) {
	return &pillionv1.SetRetentionResponse{Stream: &pillionv1.Stream{Name: r.Stream, Retention: r.Retention}}, nil
}

func (f *fake) Query(_ context.Context, r *pillionv1.QueryRequest, s *connect.ServerStream[pillionv1.QueryResponse]) error {
	if r.Sql == "SELEC" {
		return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("syntax error at \"SELEC\""))
	}
	if err := s.Send(&pillionv1.QueryResponse{Columns: cannedColumns(), Rows: []*pillionv1.Row{cannedRow("north1", 412_345)}}); err != nil {
		return err
	}
	return s.Send(&pillionv1.QueryResponse{Rows: []*pillionv1.Row{cannedRow("so,\"uth\"", 0)}, Truncated: r.Limit == 2})
}

func (f *fake) Export(ctx context.Context, r *pillionv1.ExportRequest, s *connect.ServerStream[pillionv1.ExportResponse]) error {
	head := []byte("time,agent\r\n")
	if r.Stream == "oml_tables" {
		return s.Send(&pillionv1.ExportResponse{Data: omlTablesOf("busy", "t", "endless", "bad", "t", "broken"), Rows: 2})
	}
	if r.Format == "arrow" && r.Stream != "flows" {
		head = nil
	}
	if err := s.Send(&pillionv1.ExportResponse{Data: head}); err != nil {
		return err
	}
	switch r.Stream {
	case "endless":
		f.started <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	case "broken":
		return connect.NewError(connect.CodeInternal, fmt.Errorf("disk error"))
	}
	return s.Send(&pillionv1.ExportResponse{Data: []byte("2026-03-01T12:00:00Z," + r.Format + "\r\n"), Rows: 1})
}

// Tail fails once, so that the client reconnects, and then sends the canned rows.
func (f *fake) Tail(ctx context.Context, r *pillionv1.TailRequest, s *connect.ServerStream[pillionv1.TailResponse]) error {
	f.mutex.Lock()
	f.tails++
	first := f.tails == 1
	f.mutex.Unlock()
	if first {
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the server is shutting down"))
	}
	message := &pillionv1.TailResponse{Stream: "clock", Columns: cannedColumns(), Rows: []*pillionv1.Row{cannedRow("north1", 5), cannedRow("south1", 60_000)}}
	if r.Where["session"] == "web" {
		message = flowRows()
	}
	if err := s.Send(message); err != nil {
		return err
	}
	f.mutex.Lock()
	f.sent = !f.keep
	f.mutex.Unlock()
	<-ctx.Done()
	return nil
}

func (f *fake) Health(context.Context, *pillionv1.HealthRequest) (*pillionv1.HealthResponse, error) {
	return &pillionv1.HealthResponse{Status: "failing", Parts: []*pillionv1.Part{{Name: "archive", Ok: true, Detail: "3 GiB"}, {Name: "disk", Detail: "full"}}}, nil
}

func (f *fake) BuildInfo(context.Context, *pillionv1.BuildInfoRequest) (*pillionv1.BuildInfoResponse, error) {
	return &pillionv1.BuildInfoResponse{Version: "v0.3.0", Revision: "abc", Go: "go1.26", Started: at(0)}, nil
}

func (f *fake) WhoAmI(context.Context, *pillionv1.WhoAmIRequest) (*pillionv1.WhoAmIResponse, error) {
	return &pillionv1.WhoAmIResponse{Name: "me", Role: "operator"}, nil
}

func (f *fake) ListEvents(context.Context, *pillionv1.ListEventsRequest) (*pillionv1.ListEventsResponse, error) {
	return &pillionv1.ListEventsResponse{Events: []*pillionv1.Event{
		{Time: at(time.Minute), Kind: "agent-lost", Level: "error", Agent: "south1", Message: "no contact for 10 s"},
		{Time: at(0), Kind: "session-started", Level: "info", Session: "web"},
	}}, nil
}

func (f *fake) CreateToken(_ context.Context, r *pillionv1.CreateTokenRequest) (*pillionv1.CreateTokenResponse, error) {
	return &pillionv1.CreateTokenResponse{Token: &pillionv1.Token{Name: r.Name, Role: r.Role, MaxUses: r.GetMaxUses(), Agents: r.Agents, Labels: r.Labels, Scope: r.Scope}, Secret: "plt_new"}, nil
}

func (f *fake) ListTokens(context.Context, *pillionv1.ListTokensRequest) (*pillionv1.ListTokensResponse, error) {
	return &pillionv1.ListTokensResponse{Tokens: []*pillionv1.Token{{Name: "me", Role: "admin", Created: at(0)}, {Name: "old", Role: "join", Created: at(0), Revoked: true},
		{Name: "rack7", Role: "join", Created: at(0), MaxUses: 40, Uses: 12, Agents: "rack7-*", Labels: map[string]string{"rack": "7"}},
		{Name: "spent", Role: "join", Created: at(0), MaxUses: 1, Uses: 1}, {Name: "stale", Role: "join", Created: at(0), Expires: at(0)}}}, nil
}

func (f *fake) RevokeToken(context.Context, *pillionv1.RevokeTokenRequest) (*pillionv1.RevokeTokenResponse, error) {
	return &pillionv1.RevokeTokenResponse{}, nil
}

func (f *fake) ServiceLevels(_ context.Context, r *pillionv1.ServiceLevelsRequest, to *connect.ServerStream[pillionv1.ServiceLevelsResponse]) error {
	f.note("levels of %v from %v, availability %v, outage %v, loss %v, p%v %v", r.Scope, r.From.AsTime().Format(time.DateOnly), r.Availability, r.Outage, r.Loss, 100*r.Quantile, time.Duration(r.DelayNs))
	nan := math.NaN()
	for _, level := range []*pillionv1.ServiceLevel{
		nil,
		{Source: "acme1", Destination: "acme2", StepMs: 60_000, Up: 38_773, Down: 107, Silent: 4320, Availability: 0.997248, AvailabilityVerdict: "missed", Expected: 3_888_000, Lost: 10_550,
			Loss: 0.0027135, LossLow: 0.0000741, LossHigh: 0.014703, LossVerdict: "undecided", Delays: 3_877_450, DelayNs: 12_300_000, DelayLowNs: 11_900_000, DelayHighNs: 12_800_000,
			DelayVerdict: "met", ClockErrorNs: 35_000, Blocks: 27, BlockMs: 86_400_000, Sampled: 1},
		{Source: "acme2", Destination: "exchange", StepMs: 3_600_000, Up: 60, Silent: 43_140, Availability: 1, AvailabilityVerdict: "met", Expected: 7, Loss: 0, LossLow: nan, LossHigh: nan,
			LossVerdict: "undecided", Delays: 7, DelayNs: 900_000, DelayLowNs: nan, DelayHighNs: nan, DelayVerdict: "undecided", ClockUnknown: 1, Blocks: 1, BlockMs: 3_600_000, Sampled: 2},
	} {
		message := &pillionv1.ServiceLevelsResponse{To: at(0), Found: 2, Level: level}
		if level == nil {
			message.Limits = []string{"customer=acme", "customer=acme:exchange"}
		}
		if err := to.Send(message); err != nil {
			return err
		}
	}
	return nil
}

func (f *fake) ListFlows(_ context.Context, r *pillionv1.ListFlowsRequest) (*pillionv1.ListFlowsResponse, error) {
	total := &pillionv1.Window{
		StartMs: noon.UnixMilli(), Packets: 200, Bytes: 20_000, Expected: 202, Lost: 2, ClockErrorNs: 35_000,
		Delay: &pillionv1.Distribution{Count: 200, MinNs: 400_000, MeanNs: 550_000.5, P50Ns: 507_852, P90Ns: 604_296, P99Ns: 798_720, MaxNs: 900_001},
		Ipdv:  &pillionv1.Distribution{Count: 198, MinNs: -20_000, MaxNs: 20_000, P50Ns: -19_000, P90Ns: 19_500, P99Ns: 20_000},
	}
	nan := math.NaN()
	none := &pillionv1.Distribution{MinNs: nan, MeanNs: nan, P50Ns: nan, P90Ns: nan, P99Ns: nan, MaxNs: nan}
	flows := []*pillionv1.Flow{
		{Src: "10.0.0.1", Dst: "10.9.0.2", Proto: "tcp", Sport: 40000, Dport: 443, Total: total, Last: at(time.Second)},
		{Src: "2001:db8::1", Dst: "2001:db8::2", Proto: "udp", Dport: 53, Total: &pillionv1.Window{Delay: none, Ipdv: none, ClockErrorNs: nan}, Last: at(0)},
	}
	if r.GetSelection().GetSession() == "pods" {
		flows[0].SrcPod = &pillionv1.Pod{Namespace: "shop", Name: "cart-5d9c7b6f4-x2x9k", Node: "w1", Seen: at(0), Held: true}
		flows[0].DstPod = &pillionv1.Pod{Namespace: "shop", Name: "db-0", Node: "w2", Seen: at(-time.Hour)}
		flows[1].DstPod = &pillionv1.Pod{Namespace: "kube-system", Name: "coredns-7c65d6cfc9-5h7gl", Node: "w2", Seen: at(0), Held: true}
	}
	if r.Search != "" {
		found := slices.DeleteFunc(flows, func(f *pillionv1.Flow) bool { return !strings.Contains(f.GetDstPod().GetName(), r.Search) })
		return &pillionv1.ListFlowsResponse{Found: uint32(len(found)), Flows: found}, nil
	}
	return &pillionv1.ListFlowsResponse{Found: 3, Flows: flows}, nil
}

func (f *fake) TrafficMatrix(_ context.Context, r *pillionv1.TrafficMatrixRequest) (*pillionv1.TrafficMatrixResponse, error) {
	volumes := []*pillionv1.TrafficVolume{
		{Src: "north1", Dst: "south1", Packets: 200, Bytes: 20_000, Scaling: "scaled", EstimatedPackets: 2000, PacketsError: 263, EstimatedBytes: 200_000, BytesError: 101_845},
		{Src: "south1", Dst: "north1", Packets: 70, Bytes: 9000, Scaling: "measured", EstimatedPackets: 70, EstimatedBytes: 9000},
	}
	total := &pillionv1.TrafficVolume{Packets: 270, Bytes: 29_000, Scaling: "scaled", EstimatedPackets: 2070, PacketsError: 263, EstimatedBytes: 209_000, BytesError: 101_845}
	switch r.Granularity {
	case "label":
		volumes[0].Src, volumes[0].Dst, volumes[1].Src, volumes[1].Dst = "north", "", "", "north"
	case "host-port":
		volumes = []*pillionv1.TrafficVolume{{Src: "2001:db8::1", Dst: "2001:db8::2", Proto: "tcp", Dport: 443, Packets: 9, Bytes: 900, Scaling: "lower_bound", EstimatedPackets: 9, EstimatedBytes: 900}}
		return &pillionv1.TrafficMatrixResponse{Volumes: volumes, Total: volumes[0], Found: 7, UnreadPackets: 3}, nil
	}
	return &pillionv1.TrafficMatrixResponse{Volumes: volumes, Total: total, Found: 2, Label: r.Label}, nil
}

func (f *fake) SiteMatrix(_ context.Context, r *pillionv1.SiteMatrixRequest) (*pillionv1.SiteMatrixResponse, error) {
	nan := math.NaN()
	worst := &pillionv1.HostFigures{Source: "north1", Destination: "south1", Packets: 180, Expected: 200, Lost: 20, P50Ns: 507_852, P99Ns: 798_720, WorstP99Ns: 1_798_720}
	none := &pillionv1.HostFigures{Source: "north2", Destination: "south1", P50Ns: nan, P99Ns: nan, WorstP99Ns: nan}
	answer := &pillionv1.SiteMatrixResponse{
		Label: "site", Sites: []*pillionv1.Site{{Agents: 1}, {Name: "north", Agents: 2}, {Name: "south", Agents: 1}},
		Pairs: []*pillionv1.SiteFigures{
			{Destination: "south", Pairs: 1, Total: &pillionv1.Window{Delay: &pillionv1.Distribution{P50Ns: nan, P90Ns: nan, P99Ns: nan}, ClockErrorNs: nan}, Worst: none},
			{Source: "north", Destination: "south", Pairs: 2, Worst: worst, Total: &pillionv1.Window{
				Packets: 12_345, Bytes: 2_000_000, Expected: 12_365, Lost: 20, ClockErrorNs: 35_000,
				Delay: &pillionv1.Distribution{Count: 12_345, P50Ns: 507_852, P90Ns: 604_296, P99Ns: 798_720},
			}},
		},
	}
	if r.Hosts != nil {
		answer.Hosts = []*pillionv1.HostFigures{worst, none}
	}
	return answer, nil
}

// PairClocks: the clock of south1 is 450 µs ahead at noon, and gains 10 µs each second.
func (f *fake) PairClocks(context.Context, *pillionv1.PairClocksRequest) (*pillionv1.PairClocksResponse, error) {
	return &pillionv1.PairClocksResponse{Clocks: []*pillionv1.PairClock{{
		Source: "north1", Destination: "south1", Segment: at(-time.Minute), Since: at(-time.Minute), Until: at(0),
		OffsetNs: 450_000, OffsetBoundNs: 60_000, SkewPpb: 10_000, SkewBoundPpb: 200, DriftNs: 5_000, Points: 118,
	}}}, nil
}

// flowRows are two windows of two flows between one pair.
func flowRows() *pillionv1.TailResponse {
	m := &pillionv1.TailResponse{Stream: "flows"}
	for _, name := range flowColumns {
		m.Columns = append(m.Columns, &pillionv1.Column{Name: name})
	}
	for second := range int64(2) {
		for flow := range int64(2) {
			row := &pillionv1.Row{}
			values := map[string]*pillionv1.Value{
				"time": timeValue(noon.Add(time.Duration(second) * time.Second)), "agent": textValue("south1"), "source": textValue("north1"),
				"src": textValue("10.0.0.1"), "dst": textValue("10.9.0.2"), "proto": textValue("tcp"), "sport": intValue(40000 + flow), "dport": intValue(443),
				"interval_ns": intValue(1e9), "packets": intValue(100), "expected": intValue(101), "lost": intValue(1), "delay_count": intValue(100),
				"delay_min_ns": intValue(400_000), "delay_mean_ns": intValue(550_000), "delay_max_ns": intValue(900_000 + second),
				"ipdv_count": intValue(99), "ipdv_min_ns": intValue(-20_000), "ipdv_mean_ns": intValue(0), "ipdv_max_ns": intValue(20_000),
				"ipdv_bounds_ns": listValue(-20_000, 20_000), "ipdv_counts": listValue(50, 49),
				"clock_error_ns": intValue(30_000), "source_clock_error_ns": intValue(5_000),
				"delay_bounds_ns": listValue(400_000, 500_000, 600_000, 800_000), "delay_counts": listValue(10, 40, 45, 5),
			}
			for _, name := range flowColumns {
				row.Values = append(row.Values, values[name])
			}
			m.Rows = append(m.Rows, row)
		}
	}
	return m
}

func timeValue(t time.Time) *pillionv1.Value {
	return &pillionv1.Value{Kind: &pillionv1.Value_Time{Time: t.UnixNano()}}
}
func textValue(s string) *pillionv1.Value {
	return &pillionv1.Value{Kind: &pillionv1.Value_Text{Text: s}}
}
func intValue(n int64) *pillionv1.Value { return &pillionv1.Value{Kind: &pillionv1.Value_Int{Int: n}} }
func listValue(n ...int64) *pillionv1.Value {
	return &pillionv1.Value{Kind: &pillionv1.Value_List{List: &pillionv1.List{Values: n}}}
}
