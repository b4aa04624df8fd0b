package api_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"connectrpc.com/connect"

	"pillion.dev/api/pillionv1"
	"pillion.dev/api/pillionv1/pillionv1connect"
)

// exampleServer answers the calls of the examples in this process.
type exampleServer struct {
	pillionv1connect.UnimplementedAgentServiceHandler
	pillionv1connect.UnimplementedDataServiceHandler
	pillionv1connect.UnimplementedFlowServiceHandler
	pillionv1connect.UnimplementedSessionServiceHandler

	http *httptest.Server
	// address and authority are those that clients of a real server are given.
	address   string
	authority []byte
}

const exampleToken = "plt_example"

func startServer() *exampleServer {
	s := &exampleServer{}
	mux := http.NewServeMux()
	mux.Handle(pillionv1connect.NewAgentServiceHandler(s))
	mux.Handle(pillionv1connect.NewDataServiceHandler(s))
	mux.Handle(pillionv1connect.NewFlowServiceHandler(s))
	mux.Handle(pillionv1connect.NewSessionServiceHandler(s))
	s.http = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+exampleToken {
			_ = connect.NewErrorWriter().Write(w, r, connect.NewError(connect.CodeUnauthenticated, fmt.Errorf("no valid token")))
			return
		}
		mux.ServeHTTP(w, r)
	}))
	s.address = s.http.URL
	s.authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
	return s
}

func (s *exampleServer) stop() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// ListAgents returns one agent a page.
func (s *exampleServer) ListAgents(_ context.Context, r *pillionv1.ListAgentsRequest) (*pillionv1.ListAgentsResponse, error) {
	if r.PageToken == "" {
		return &pillionv1.ListAgentsResponse{Agents: []*pillionv1.Agent{{Name: "north1", State: "connected"}}, NextPageToken: "north1"}, nil
	}
	return &pillionv1.ListAgentsResponse{Agents: []*pillionv1.Agent{{Name: "south1", State: "away"}}}, nil
}

func (s *exampleServer) CreateSession(_ context.Context, r *pillionv1.CreateSessionRequest) (*pillionv1.CreateSessionResponse, error) {
	if len(r.Spec.Destinations) == 0 {
		refusal := connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("1 problem"))
		if detail, err := connect.NewErrorDetail(&pillionv1.Problem{Field: "destinations", Message: "none given"}); err == nil {
			refusal.AddDetail(detail)
		}
		return nil, refusal
	}
	return &pillionv1.CreateSessionResponse{Session: &pillionv1.Session{Spec: r.Spec, State: "starting"}}, nil
}

// WatchPairs sends two seconds and ends.
func (s *exampleServer) WatchPairs(_ context.Context, r *pillionv1.WatchPairsRequest, to *connect.ServerStream[pillionv1.WatchPairsResponse]) error {
	for second, lost := range []uint32{0, 3} {
		m := &pillionv1.WatchPairsResponse{StartMs: 1000 * int64(second+1), Sources: []uint32{0}, Destinations: []uint32{1},
			Packets: []uint32{1000 - lost}, Expected: []uint32{1000}, Lost: []uint32{lost}, P50Ns: []float32{5.1e6}}
		if second == 0 {
			m.Agents = []string{"north1", "south1"}
		}
		if err := to.Send(m); err != nil {
			return err
		}
	}
	return nil
}

func (s *exampleServer) Query(_ context.Context, r *pillionv1.QueryRequest, to *connect.ServerStream[pillionv1.QueryResponse]) error {
	row := func(agent string, packets int64) *pillionv1.Row {
		return &pillionv1.Row{Values: []*pillionv1.Value{{Kind: &pillionv1.Value_Text{Text: agent}}, {Kind: &pillionv1.Value_Int{Int: packets}}}}
	}
	columns := []*pillionv1.Column{{Name: "agent", Type: "string"}, {Name: "packets", Type: "int64"}}
	if err := to.Send(&pillionv1.QueryResponse{Columns: columns, Rows: []*pillionv1.Row{row("north1", 120)}}); err != nil {
		return err
	}
	return to.Send(&pillionv1.QueryResponse{Rows: []*pillionv1.Row{row("south1", 80)}})
}

func (s *exampleServer) Export(_ context.Context, r *pillionv1.ExportRequest, to *connect.ServerStream[pillionv1.ExportResponse]) error {
	for _, piece := range []string{"time,agent,lost\r\n", time.Unix(0, 0).UTC().Format(time.RFC3339) + ",south1,3\r\n"} {
		if err := to.Send(&pillionv1.ExportResponse{Data: []byte(piece)}); err != nil {
			return err
		}
	}
	return nil
}
