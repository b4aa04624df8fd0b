package web

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"pillion.dev/api/pillionv1"
	"pillion.dev/api/pillionv1/pillionv1connect"
)

// post makes a JSON call like curl.
func (s *site) post(t testing.TB, protocol, procedure, token, body string) (int, string) {
	t.Helper()
	client, url := s.client(t, protocol)
	request, err := http.NewRequest("POST", url+procedure, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return do(t, client, request)
}

func do(t testing.TB, client *http.Client, request *http.Request) (int, string) {
	t.Helper()
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// bearer adds a token to each call of a client.
func bearer(token string) connect.ClientOption {
	return connect.WithInterceptors(bearerToken(token))
}

type bearerToken string

func (b bearerToken) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		request.Header().Set("Authorization", "Bearer "+string(b))
		return next(ctx, request)
	}
}
func (b bearerToken) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		conn.RequestHeader().Set("Authorization", "Bearer "+string(b))
		return conn
	}
}
func (b bearerToken) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// kinds are the protocols over the transports that the port speaks.
var kinds = []struct {
	name, transport string
	options         []connect.ClientOption
}{
	{"connect over tls", "tls", nil},
	{"connect json over tls with http 1.1", "tls1", []connect.ClientOption{connect.WithProtoJSON()}},
	{"connect over loopback", "http1", nil},
	{"grpc over tls", "tls", []connect.ClientOption{connect.WithGRPC()}},
	{"grpc over loopback", "h2c", []connect.ClientOption{connect.WithGRPC()}},
	{"grpc-web over tls with http 1.1", "tls1", []connect.ClientOption{connect.WithGRPCWeb()}},
	{"grpc-web over loopback", "http1", []connect.ClientOption{connect.WithGRPCWeb()}},
}

func TestEveryProtocol(t *testing.T) {
	s := newSite(t)
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			client, url := s.client(t, kind.transport)
			sessions := pillionv1connect.NewSessionServiceClient(client, url, append(kind.options, bearer("operator"))...)
			created, err := sessions.CreateSession(t.Context(), &pillionv1.CreateSessionRequest{
				Spec: &pillionv1.SessionSpec{Name: "s1", Sources: []string{"a"}, Destinations: []string{"b"}},
			})
			if err != nil || created.Session.CreatedBy != "the-operator" || len(created.Warnings) != 1 {
				t.Fatalf("got %v, %v", created, err)
			}
			_, err = sessions.CreateSession(t.Context(), &pillionv1.CreateSessionRequest{Spec: &pillionv1.SessionSpec{}})
			checkProblems(t, err)
			rows := pillionv1connect.NewDataServiceClient(client, url, append(kind.options, bearer("analyst"))...)
			stream, err := rows.Query(t.Context(), &pillionv1.QueryRequest{Sql: "SELECT 1", Limit: 2000})
			if err != nil {
				t.Fatal(err)
			}
			checkQuery(t, stream)
			refused := pillionv1connect.NewDataServiceClient(client, url, append(kind.options, bearer("wrong"))...)
			stream, err = refused.Query(t.Context(), &pillionv1.QueryRequest{Sql: "SELECT 1"})
			if err == nil {
				stream.Receive()
				err = stream.Err()
			}
			if connect.CodeOf(err) != connect.CodeUnauthenticated || !strings.Contains(err.Error(), "unknown token") {
				t.Errorf("wrong token: got %v", err)
			}
		})
	}
}

func checkProblems(t *testing.T, err error) {
	t.Helper()
	fault, ok := err.(*connect.Error)
	if !ok || fault.Code() != connect.CodeInvalidArgument || len(fault.Details()) == 0 {
		t.Fatalf("got %v, want problems", err)
	}
	detail, err := fault.Details()[0].Value()
	if problem, ok := detail.(*pillionv1.Problem); err != nil || !ok || problem.Field != "name" {
		t.Errorf("got %v, %v; want a problem of name", detail, err)
	}
}

func checkQuery(t *testing.T, stream *connect.ServerStreamForClient[pillionv1.QueryResponse]) {
	t.Helper()
	columns, rows, truncated := 0, 0, false
	for stream.Receive() {
		columns += len(stream.Msg().Columns)
		rows += len(stream.Msg().Rows)
		truncated = truncated || stream.Msg().Truncated
	}
	if err := stream.Err(); err != nil || columns != len(numbers.Fields) || rows != 2000 || !truncated {
		t.Errorf("got %d columns, %d rows, truncated %v, %v", columns, rows, truncated, err)
	}
}

// TestRoles calls every procedure that is not a stream with every token.
func TestRoles(t *testing.T) {
	s := newSite(t)
	client, url := s.client(t, "http1")
	for procedure, rule := range roles {
		needed := rule.role
		for _, token := range []string{"", "viewer", "analyst", "operator", "admin", "join"} {
			held, _ := parseRole(token)
			request, err := http.NewRequest("POST", url+procedure, strings.NewReader(`{"name":"a"`+"}"))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			if token != "" {
				request.Header.Set("Authorization", "Bearer "+token)
			}
			status, _ := do(t, client, request)
			refused := status == http.StatusUnauthorized || status == http.StatusForbidden
			streams := status == http.StatusUnsupportedMediaType // asked by a unary call
			byCertificate := strings.Contains(procedure, "EnrolService")
			if want := held < needed; refused != want && !byCertificate && !(streams && held >= viewer) {
				t.Errorf("%s with token %q: status %d, want refused: %v", procedure, token, status, want)
			}
		}
	}
}

func TestAudit(t *testing.T) {
	tests := []struct {
		name, procedure, token, body string
		role, outcome, request       string
	}{
		{"done", "SessionService/CreateSession", "operator", `{"spec":{"name":"x","sources":["a"],"destinations":["b"]}}`, "operator", "ok", `"x"`},
		{"faulty", "SessionService/CreateSession", "operator", `{"spec":{}}`, "operator", "invalid_argument", `"spec"`},
		{"no role", "SessionService/DeleteSession", "viewer", `{"name":"x"}`, "viewer", "permission_denied", `"x"`},
		{"no token", "AgentService/RevokeAgent", "", `{"name":"a"}`, "anyone", "unauthenticated", ""},
		{"wrong token", "AgentService/RevokeAgent", "guess", `{"name":"a"}`, "anyone", "unauthenticated", ""},
		{"join without its token", "EnrolService/Enrol", "", `{"token":"join","name":"h","certificateRequest":"AAAA"}`, "anyone", "ok", `{"name":"h"}`},
		{"panic", "AgentService/RevokeAgent", "admin", `{"name":"panic"}`, "admin", "internal", `"panic"`},
	}
	s := newSite(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, body := s.post(t, "http1", "/pillion.v1."+test.procedure, test.token, test.body)
			change := s.sink.last(t)
			compact := strings.ReplaceAll(change.Request, " ", "")
			if change.Role != test.role || !strings.HasPrefix(change.Outcome, test.outcome) || change.Remote != "127.0.0.1" ||
				!strings.HasSuffix(change.Method, test.procedure) || !strings.Contains(compact, test.request) ||
				strings.Contains(change.Request, "join") || strings.Contains(body, "secret of the server") {
				t.Errorf("got %+v, answer %s", change, body)
			}
		})
	}
	before := len(s.sink.changes)
	s.post(t, "http1", "/pillion.v1.AgentService/ListAgents", "viewer", "{}")
	s.post(t, "http1", "/pillion.v1.ServerService/ListTokens", "admin", "{}")
	if len(s.sink.changes) != before {
		t.Error("reading was recorded as a change")
	}
	if !strings.Contains(s.log.String(), "secret of the server") {
		t.Error("the panic is not in the log")
	}
}

func TestTooManyWrongTokens(t *testing.T) {
	s := newSite(t)
	status := 0
	for range invalidTokens + 1 {
		status, _ = s.post(t, "http1", "/pillion.v1.AgentService/ListAgents", "guess", "{}")
	}
	if status != http.StatusTooManyRequests {
		t.Errorf("got status %d, want %d", status, http.StatusTooManyRequests)
	}
	status, _ = s.post(t, "http1", "/pillion.v1.EnrolService/Enrol", "", `{"token":"guess","name":"h"}`)
	if status != http.StatusTooManyRequests {
		t.Errorf("enrol: got status %d, want %d", status, http.StatusTooManyRequests)
	}
	// Valid tokens from that address are still accepted.
	if status, _ = s.post(t, "http1", "/pillion.v1.EnrolService/Enrol", "", `{"token":"join","name":"h"}`); status != http.StatusOK {
		t.Errorf("valid join token: got status %d", status)
	}
	if status, _ = s.post(t, "http1", "/pillion.v1.AgentService/ListAgents", "viewer", "{}"); status != http.StatusOK {
		t.Errorf("valid token: got status %d", status)
	}
	if status, _ = s.post(t, "http1", "/pillion.v1.ServerService/Health", "", `{}`); status != http.StatusOK {
		t.Errorf("health: got status %d", status)
	}
}

// TestRefusedCallsDoNotFillTheAudit: of those that are alike, the first of a minute is recorded, and the number of the others.
func TestRefusedCallsDoNotFillTheAudit(t *testing.T) {
	var minutes atomic.Int64
	s := newSite(t, func(o *Options) {
		o.Now = func() time.Time { return epoch.Add(time.Duration(minutes.Load()) * time.Minute) }
	})
	for range 30 {
		s.post(t, "http1", "/pillion.v1.AgentService/RevokeAgent", "", `{"name":"a"}`)
		s.post(t, "http1", "/pillion.v1.SessionService/DeleteSession", "viewer", `{"name":"a"}`)
		s.get(t, "http1", "/export?stream=numbers", "")
	}
	minutes.Store(1)
	eventually(t, "the number of the others is recorded", func() bool { return len(s.sink.all()) == 6 })
	got := map[string]int{}
	for _, c := range s.sink.all() {
		got[strings.Join([]string{c.Method, c.Token, c.Role, c.Remote, c.Outcome}, " ")]++
	}
	for _, want := range []string{
		"/pillion.v1.AgentService/RevokeAgent  anyone 127.0.0.1 unauthenticated: 29 more calls like it within a minute",
		"/pillion.v1.SessionService/DeleteSession the-viewer viewer 127.0.0.1 permission_denied: 29 more calls like it within a minute",
		"GET /export  anyone 127.0.0.1 unauthenticated: 29 more calls like it within a minute",
	} {
		if got[want] != 1 {
			t.Errorf("not recorded: %s; got %v", want, got)
		}
	}
	if _, body := s.get(t, "http1", "/metrics", "viewer"); !strings.Contains(body, `pillion_http_refused_calls_total{code="unauthenticated"} 60`) {
		t.Error("refused calls are not counted")
	}
	s.post(t, "http1", "/pillion.v1.EnrolService/Enrol", "", `{"token":"join","name":"h"}`)
	if c := s.sink.last(t); c.Outcome != "ok" || !strings.HasSuffix(c.Method, "Enrol") {
		t.Errorf("a successful change is not recorded: %+v", c)
	}
}

func TestMalformed(t *testing.T) {
	s := newSite(t)
	create := "/pillion.v1.SessionService/CreateSession"
	tests := []struct {
		name, procedure, token, body string
		status                       int
	}{
		{"not JSON", create, "operator", "}{", 400},
		{"wrong type", create, "operator", `{"spec":{"name":7}}`, 400},
		{"unknown field", create, "operator", `{"spek":{}}`, 400},
		{"interval out of range", create, "operator", `{"spec":{"interval":"315576000000s"}}`, 400},
		{"bytes that are no text", create, "operator", "{\"spec\":{\"name\":\"\xff\xfe\"}}", 400},
		{"deep nesting", create, "operator", strings.Repeat(`{"spec":`, 20_000), 400},
		{"nothing", create, "operator", "", 400},
		{"huge", create, "operator", `{"spec":{"name":"` + strings.Repeat("x", bodyBytes) + `"}}`, 429},
		{"large, unauthenticated", "/pillion.v1.EnrolService/Enrol", "", strings.Repeat(" ", unauthenticatedBodyBytes+1), 429},
		{"unknown procedure", "/pillion.v1.SessionService/Nothing", "admin", "{}", 404},
		{"unknown service", "/pillion.v1.Nothing/Nothing", "admin", "{}", 404},
		{"path out of the tree", "/pillion.v1.SessionService/../../etc/passwd", "admin", "{}", 404},
		{"points beyond", "/pillion.v1.DataService/Series", "viewer", `{"stream":"numbers","points":4294967295,"aggregates":[{"column":"count"}]}`, 400},
		{"stream that is no name", "/pillion.v1.DataService/Series", "viewer", `{"stream":"a;drop","aggregates":[{"column":"count"}]}`, 400},
		{"unknown stream", "/pillion.v1.DataService/SetRetention", "admin", `{"stream":"nothing"}`, 404},
		{"negative retention", "/pillion.v1.DataService/SetRetention", "admin", `{"stream":"numbers","retention":{"rows":"-1"}}`, 400},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			status, body := s.post(t, "tls", test.procedure, test.token, test.body)
			if status != test.status {
				t.Errorf("got %d %.300s, want %d", status, body, test.status)
			}
		})
	}
}

// FuzzCreate sends arbitrary bytes as JSON: the server answers with 200 or 400, and can
// return what it accepted.
func FuzzCreate(f *testing.F) {
	f.Add([]byte(`{"spec":{"name":"a","sources":["*"],"destinations":["*"],"interval":"1s"}}`))
	f.Add([]byte(`{"spec":{"name":"a","samplingFor":{"x":{"every":1}},"cron":"* * * * *","start":"2026-01-01T00:00:00Z"}}`))
	f.Add([]byte(`{"spec":{"interval":"-1s","trace":"9223372036s","start":"0001-01-01T00:00:00Z"}}`))
	s := newSite(f)
	client, url := s.client(f, "http1")
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, procedure := range []string{"CreateSession", "PlanSession", "ListSessions"} {
			if procedure == "ListSessions" {
				body = []byte("{}")
			}
			request, err := http.NewRequest("POST", url+"/pillion.v1.SessionService/"+procedure, bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Authorization", "Bearer operator")
			status, answer := do(t, client, request)
			if (status != 200 && status != 400) || !json.Valid([]byte(answer)) {
				t.Errorf("%s: got %d %s", procedure, status, answer)
			}
		}
	})
}
