package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api"
	"pillion.dev/api/level"
	"pillion.dev/api/pillionv1"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/measuretest"
	"pillion.dev/server/web"
)

// rivals are the words of another customer: their names, session, stream and addresses, but not arrival.
var rivals = regexp.MustCompile(`(^|[^r])rival|203\.0\.113\.`)

// wording stands for words in requests: those of something, or of nothing that exists.
type wording map[string][2]string

// names are of the other customer.
var names = wording{
	"R1": {"rival1", "absent1"}, "R2": {"rival2", "absent2"}, "RSESSION": {"rivals-only", "absents-only"}, "RSTREAM": {"rival_app", "absent_app"},
	"RADDRESS": {"203.0.113.7", "198.51.100.7"}, "RWORD": {"rivalword", "absentword"}, "RLABEL": {"customer=rival", "customer=absent"},
}

// worded fills in the words, and unworded takes them out again, with all numbers and ids, which differ from call to call.
func (w wording) worded(text string, which int) string {
	for name, words := range w {
		text = strings.ReplaceAll(text, name, words[which])
	}
	return text
}

var varying = regexp.MustCompile(`[0-9]+`)

func (w wording) unworded(text string, which int) string {
	for name, words := range w {
		text = strings.ReplaceAll(text, words[which], name)
	}
	return varying.ReplaceAllString(text, "0")
}

// applications is a stream of an application of the other customer.
var applications = measure.Schema{Name: "rival_app", Fields: []measure.Field{measure.TimeField, {Name: "rival_column", Type: measure.String}}}

// firstRows is the time of the first rows, in a minute that is over: reports have whole ones.
func firstRows() time.Time { return time.Now().Add(-2 * time.Minute) }

// tenants starts a server with the rows of two customers.
func tenants(t *testing.T) (s *target, send func(sequence uint64)) {
	t.Helper()
	s = start(t, t.TempDir()+"/data")
	admin := s.client(t, s.operator)
	agents := map[string]func(measure.Envelope){}
	for _, name := range []string{"own1", "own2", "rival1", "rival2"} {
		agent := s.agent(t, name)
		agents[name] = func(e measure.Envelope) {
			within(t, "the batch is stored", func() bool { return agent.Send(t.Context(), e) == nil })
		}
		customer := strings.TrimRight(name, "12")
		label := map[string]string{"customer": customer, "site": customer + "-depot"}
		if _, err := admin.Agents.SetLabels(t.Context(), &pillionv1.SetLabelsRequest{Name: name, Labels: label}); err != nil {
			t.Fatal(err)
		}
	}
	for name, ends := range map[string][2][]string{"rivals-only": {{"rival1"}, {"rival2"}}, "mixed": {{"own1", "rival1"}, {"own2", "rival2"}}} {
		_, err := admin.Sessions.CreateSession(t.Context(), &pillionv1.CreateSessionRequest{Spec: &pillionv1.SessionSpec{
			Name: name, Sources: ends[0], Destinations: ends[1], Start: timestamppb.New(time.Now().Add(time.Hour)),
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	encode := func(schema *measure.Schema, sequence uint64, rows ...measuretest.Fields) measure.Envelope {
		e, err := measure.Encode(measure.Key{Stream: schema.Name, Epoch: 1, Sequence: sequence}, measuretest.Record(t, schema, rows...))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	send = func(n uint64) {
		now := time.Now()
		if n == 0 {
			now = firstRows()
		}
		flow := func(source, session, src string) flows.Row {
			row := flows.Row{End: now, Interval: time.Second, Session: session, Source: source, Flow: flows.Flow{Src: src, Dst: src, Proto: "udp", Dport: 53},
				Sum: flows.Sum{Counts: flows.Counts{Packets: 5, Bytes: 500, Expected: 6, Lost: 1}}}
			row.Delay.Add(1e6)
			return row
		}
		measured := func(agent string, rows ...flows.Row) {
			e, err := measure.Encode(measure.Key{Stream: "flows", Epoch: 1, Sequence: n}, measuretest.Flows(t, rows...))
			if err != nil {
				t.Fatal(err)
			}
			agents[agent](e)
		}
		measured("rival2", flow("rival1", "rivals-only", "203.0.113.7"))
		for _, name := range []string{"rival1", "own1"} {
			peer := strings.Replace(name, "1", "2", 1)
			address := map[string]string{"rival1": "203.0.113.8", "own1": "192.0.2.8"}[name]
			agents[name](encode(&measure.Clock, n, measuretest.Fields{"time": now, "by": name}))
			agents[name](encode(&measure.Hops, n, measuretest.Fields{"time": now, "peer": peer, "src": address, "dst": address, "protocol": "udp", "ttl": 1, "address": address, "reached": true}))
		}
		agents["rival1"](encode(&applications, n, measuretest.Fields{"time": now, "rival_column": "rivalword"}))
		measured("own2", flow("own1", "mixed", "192.0.2.7"), flow("rival1", "rivals-only", "203.0.113.9"))
	}
	send(0)
	return s, send
}

// leaks reports words of the other customer in a text, from which those of the request were taken.
func leaks(t *testing.T, what, text string) {
	t.Helper()
	if at := rivals.FindStringIndex(text); at != nil {
		t.Errorf("%s tells %q", what, text[max(0, at[0]-200):min(len(text), at[1]+200)])
	}
}

// guesses are requests about the other customer, by procedure.
var guesses = map[string][]string{
	"AgentService/ListAgents":     {`{}`, `{"label":"RLABEL"}`, `{"label":"customer"}`, `{"pageSize":1}`, `{"pageToken":"eyJhZnRlciI6Im93bjIifQ"}`},
	"AgentService/GetAgent":       {`{"name":"R1"}`, `{"name":"R2"}`},
	"AlarmService/ListAlarms":     {`{}`, `{"active":true}`},
	"AlarmService/ListAlarmRules": {`{}`},
	"AlarmService/ListSilences":   {`{}`},
	"SessionService/ListSessions": {`{}`, `{"pageSize":1}`},
	"SessionService/GetSession":   {`{"name":"RSESSION"}`, `{"name":"mixed"}`},
	"SessionService/ListRuns":     {`{}`, `{"session":"RSESSION"}`, `{"session":"mixed"}`},
	"DataService/ListStreams":     {`{}`},
	"DataService/Series": {`{"stream":"flows","aggregates":[{"column":"packets","function":"sum"}],"by":["agent","source","session","src"]}`,
		`{"stream":"flows","aggregates":[{"column":"packets","function":"sum"}],"where":{"agent":"R2"},"by":["src"]}`,
		`{"stream":"events","aggregates":[{"column":"kind","function":"count"}],"by":["about","message"]}`,
		`{"stream":"audit","aggregates":[{"column":"token","function":"count"}],"by":["request"]}`,
		`{"stream":"RSTREAM","aggregates":[{"column":"agent","function":"count"}],"by":["agent"]}`},
	"DataService/ListRows": {`{"stream":"flows"}`, `{"stream":"flows","where":{"source":"R1"}}`, `{"stream":"flows","where":{"src":"RADDRESS"}}`, `{"stream":"hops"}`,
		`{"stream":"clock"}`, `{"stream":"clock","where":{"agent":"R1"}}`, `{"stream":"events"}`, `{"stream":"audit"}`, `{"stream":"RSTREAM"}`, `{"stream":"oml_tables"}`},
	"FlowService/Windows": {`{}`, `{"selection":{"source":"R1","destination":"R2"},"histograms":true}`, `{"selection":{"source":"R1","destination":"R2"},"corrected":true}`,
		`{"selection":{"session":"RSESSION"}}`, `{"selection":{"src":"RADDRESS"}}`, `{"selection":{"source":"R1","destination":"own2"}}`},
	"FlowService/ListFlows": {`{}`, `{"granularity":"pair"}`, `{"search":"RADDRESS"}`, `{"selection":{"session":"RSESSION"}}`, `{"order":"p99","granularity":"host"}`},
	"FlowService/TrafficMatrix": {`{}`, `{"granularity":"label","label":"customer"}`, `{"granularity":"label","label":"RLABEL"}`, `{"granularity":"host","selection":{"src":"RADDRESS"}}`,
		`{"selection":{"session":"RSESSION"}}`, `{"granularity":"flow","byProtocol":true}`, `{"selection":{"source":"R1","destination":"own2"}}`},
	"FlowService/SiteMatrix":          {`{}`, `{"hosts":{"source":"","destination":""}}`, `{"session":"RSESSION","hosts":{}}`},
	"FlowService/PairClocks":          {`{}`, `{"source":"R1","destination":"R2"}`},
	"TopologyService/GetTopology":     {`{}`, `{"session":"RSESSION"}`, `{"bySite":true}`, `{"source":"R1","destination":"R2"}`, `{"columns":true,"source":"R1"}`},
	"TopologyService/GetPathChange":   {`{"source":"R1","destination":"R2","address":"RADDRESS","protocol":"udp"}`},
	"TopologyService/GetRouterDelays": {`{"agent":"R1"}`, `{"agent":"R1","sessions":["RSESSION"]}`},
	"ServerService/ListEvents":        {`{}`, `{"kind":"agent-connected"}`},
	"ServerService/WhoAmI":            {`{}`}, "ServerService/Health": {`{}`}, "ServerService/BuildInfo": {`{}`},
	"SessionService/ListPoints":  {`{}`},
	"SessionService/ExplainPair": {`{"source":"R1","destination":"R2"}`, `{"source":"own1","destination":"R2"}`, `{"source":"own1","destination":"own2","session":"RSESSION"}`},
}

// TestScopeIsNotLeft: a viewer who may see the agents of one customer tries every procedure for those of another. No answer says
// anything of them, and an answer about them is that about names that do not exist.
func TestScopeIsNotLeft(t *testing.T) {
	s, _ := tenants(t)
	limited := s.scoped(t, "customer=own")
	tried := 0
	for procedure, method := range procedures(t) {
		bodies, within := guesses[strings.TrimPrefix(procedure, "/pillion.v1.")]
		service, _, _ := strings.Cut(strings.TrimPrefix(procedure, "/pillion.v1."), "/")
		if service == "EnrolService" {
			continue
		}
		if method.IsStreamingServer() {
			tried += s.tryStream(t, limited, strings.TrimPrefix(procedure, "/pillion.v1."))
			continue
		}
		if !within {
			if status, text := s.call(t, procedure, limited.operator, `{"name":"own1"}`); status != http.StatusForbidden {
				t.Errorf("%s: %d %s", procedure, status, text)
			}
			continue
		}
		for _, body := range bodies {
			tried++
			var answers [2]string
			for which := range answers {
				status, text := s.call(t, procedure, limited.operator, names.worded(body, which))
				answers[which] = fmt.Sprint(status, " ", names.unworded(text, which))
			}
			leaks(t, procedure+" "+body, answers[0])
			if answers[0] != answers[1] {
				t.Errorf("%s %s: of another customer\n%s\nof nobody\n%s", procedure, body, answers[0], answers[1])
			}
		}
	}
	if tried < 40 {
		t.Errorf("tried %d requests", tried)
	}
	checkOwn(t, s, limited)
}

// streamed are requests about the other customer, by the procedure that streams its answer; nil: TestScopeOfStreams and TestScopeOfSQL try it.
var streamed = map[string]func(ctx context.Context, client *api.Client, word func(string) string) (text string, err error){
	"DataService/Query": nil, "DataService/Tail": nil, "FlowService/WatchPairs": nil, "FlowService/WatchWindows": nil,
	"DataService/Export": func(ctx context.Context, client *api.Client, word func(string) string) (text string, err error) {
		for _, stream := range []string{"flows", "hops", "events", "audit", word("RSTREAM")} {
			parts, err := client.Data.Export(ctx, &pillionv1.ExportRequest{Stream: stream, Format: "csv"})
			if err != nil {
				return text, err
			}
			for parts.Receive() {
				text += string(parts.Msg().Data)
			}
			text += fmt.Sprintln(stream, parts.Err())
		}
		return text, nil
	},
	"FlowService/ServiceLevels": func(ctx context.Context, client *api.Client, word func(string) string) (text string, err error) {
		now := time.Now()
		for _, scope := range [][]string{nil, {"*"}, {word("R1")}, {word("RLABEL")}, {word("R1:R2")}, {"customer=own:" + word("R2")}} {
			levels, err := client.Flows.ServiceLevels(ctx, &pillionv1.ServiceLevelsRequest{
				From: timestamppb.New(now.Add(-time.Hour)), To: timestamppb.New(now.Add(time.Hour)), Scope: scope, Outage: 0.2, Quantile: 0.99, Session: map[bool]string{true: word("RSESSION")}[scope == nil],
			})
			if err != nil {
				return text, err
			}
			for levels.Receive() {
				text += fmt.Sprintln(levels.Msg().Found, levels.Msg().Level)
			}
			text += fmt.Sprintln(scope, levels.Err())
		}
		return text, nil
	},
}

// tryStream reads the streams of a procedure, and reports how many requests were tried.
func (s *target) tryStream(t *testing.T, limited *target, procedure string) int {
	t.Helper()
	read, declared := streamed[procedure]
	if !declared {
		t.Errorf("%s: declare how it is tried within a scope", procedure)
	}
	if read == nil {
		return 0
	}
	var answers [2]string
	for which := range answers {
		text, err := read(t.Context(), limited.client(t, limited.operator), func(word string) string { return names.worded(word, which) })
		answers[which] = fmt.Sprint(names.unworded(text, which), err)
	}
	leaks(t, procedure, answers[0])
	if answers[0] != answers[1] {
		t.Errorf("%s: of another customer\n%s\nof nobody\n%s", procedure, answers[0], answers[1])
	}
	return 1
}

// checkOwn: what is in the scope is shown.
func checkOwn(t *testing.T, s, limited *target) {
	t.Helper()
	for procedure, want := range map[string][]string{
		"AgentService/ListAgents": {"own1", "own2"}, "SessionService/ListSessions": {"mixed"}, "DataService/ListStreams": {`"flows"`, `"clock"`},
		"FlowService/ListFlows": {"192.0.2.7", `"packets":"5"`}, "TopologyService/GetTopology": {"agent:own1", "agent:own2"}, "FlowService/TrafficMatrix": {"own1", "own2"}, "ServerService/WhoAmI": {"customer=own"},
		"SessionService/ListRuns": {"mixed"}, "FlowService/Windows": {`"lost":"1"`},
	} {
		_, text := s.call(t, "/pillion.v1."+procedure, limited.operator, `{}`)
		for _, word := range want {
			if !strings.Contains(text, word) {
				t.Errorf("%s does not show %s: %s", procedure, word, text)
			}
		}
	}
	tokens, err := s.client(t, s.operator).Server.ListTokens(t.Context(), &pillionv1.ListTokensRequest{})
	if err != nil || !strings.Contains(fmt.Sprint(tokens), "customer=own") {
		t.Errorf("listed %v, %v", tokens, err)
	}
	admin := s.client(t, s.operator)
	within(t, "the audit log has the scope", func() bool {
		return number(t, admin, "SELECT count(*) FROM audit WHERE method LIKE '%CreateToken' AND request LIKE '%customer=own%'") == 1
	})
}

// plainGuesses are requests about the other customer, by the path that is no procedure.
var plainGuesses = map[string][]string{
	"/": {"/", "/index.html"}, "/healthz": {"/healthz"}, "/openapi.json": {"/openapi.json"}, "/metrics": {"/metrics"},
	"/export": {"/export?stream=flows", "/export?stream=flows&where.source=R1", "/export?stream=flows&format=arrow", "/export?stream=events", "/export?stream=hops&where.peer=R2",
		"/export?stream=clock", "/export?stream=audit", "/export?stream=RSTREAM", "/export?stream=flows&columns=agent,source&limit=1&where.agent=R2"},
	"/service-levels": {"/service-levels?month=MONTH", "/service-levels?month=MONTH&format=csv&scope=*", "/service-levels?month=MONTH&format=csv&scope=RLABEL",
		"/service-levels?month=MONTH&format=csv&scope=R1:R2", "/service-levels?month=MONTH&format=csv&session=RSESSION"},
}

// TestScopeOfFiles: every path that is no procedure, among them exports, service levels and metrics.
func TestScopeOfFiles(t *testing.T) {
	s, _ := tenants(t)
	limited := s.scoped(t, "customer=own")
	get := func(path, token string) (int, string) {
		request, err := http.NewRequest("GET", "http://"+s.welcome.HTTP+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	within(t, "the metrics have both customers", func() bool {
		_, text := get("/metrics", s.operator)
		return strings.Contains(text, "rival1") && strings.Contains(text, "own1")
	})
	for _, pattern := range web.PlainPaths() {
		guessed := plainGuesses[strings.TrimPrefix(pattern, "GET ")]
		if guessed == nil {
			t.Errorf("%s: declare how it is tried within a scope", pattern)
		}
		for _, path := range guessed {
			path = strings.ReplaceAll(path, "MONTH", firstRows().UTC().Format(level.MonthForm))
			var answers [2]string
			for which := range answers {
				status, text := get(names.worded(path, which), limited.operator)
				answers[which] = fmt.Sprint(status, " ", names.unworded(text, which))
			}
			leaks(t, path, answers[0])
			if answers[0] != answers[1] && !strings.Contains(path, "arrow") { // which is binary
				t.Errorf("%s: of another customer\n%s\nof nobody\n%s", path, answers[0], answers[1])
			}
		}
	}
	month := firstRows().UTC().Format(level.MonthForm)
	for path, want := range map[string]string{"/metrics": `source="own1"`, "/service-levels?format=csv&month=" + month: "own1,own2,", "/export?stream=flows&columns=agent,source,packets": "own2,own1,5"} {
		if _, text := get(path, limited.operator); !strings.Contains(text, want) || strings.Contains(text, "pillion_agents") {
			t.Errorf("%s: %s", path, text)
		}
	}
}

// TestScopeOfSQL: the process that runs a statement never gets a row beyond the scope.
func TestScopeOfSQL(t *testing.T) {
	s, _ := tenants(t)
	limited := s.scoped(t, "customer=own")
	client := limited.client(t, limited.operator)
	statements := []string{
		"SELECT * FROM flows", "SELECT * FROM flows -- WHERE agent = 'own2'", "/* x */ SELECT * FROM flows WHERE agent = 'R2' OR 1 = 1",
		"WITH f AS (SELECT * FROM flows) SELECT * FROM f UNION ALL FROM flows", "WITH flows AS (FROM main.flows) FROM flows", "SELECT (SELECT max(source) FROM flows), (SELECT min(src) FROM flows)",
		"SELECT * FROM hops", "SELECT * FROM clock", "SELECT * FROM events", "SELECT * FROM audit", "SELECT * FROM RSTREAM", "SELECT * FROM main.RSTREAM", "DESCRIBE RSTREAM", "SHOW TABLES",
		"SHOW ALL TABLES", "SELECT * FROM duckdb_tables()", "SELECT * FROM duckdb_views()", "SELECT * FROM duckdb_columns()", "SELECT * FROM information_schema.tables", "SELECT * FROM sqlite_master",
		"SELECT * FROM pragma_table_info('RSTREAM')", "SELECT * FROM pragma_storage_info('RSTREAM')", "FROM query('FROM flows')", "FROM query_table('RSTREAM')", "SUMMARIZE flows", "EXPLAIN ANALYZE FROM flows",
		"SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM read_csv('" + s.folder + "/agents.json')", "SELECT * FROM read_text('" + s.folder + "/*')", "SELECT * FROM glob('" + s.folder + "/*')",
		"SELECT * FROM '" + s.folder + "/archive'", "ATTACH '" + s.folder + "/archive' AS x", "COPY flows TO '/tmp/x'", "SELECT getenv('HOME')", "SELECT * FROM duckdb_settings()",
		"SELECT count(*) FROM flows a, flows b WHERE a.source != b.source", "SELECT source FROM flows ORDER BY source DESC LIMIT 1", "SELECT * FROM flows FULL JOIN hops ON true",
		"SELECT list(agent) FROM flows; SELECT * FROM audit", "SELECT * FROM stream_rows(-1)",
	}
	for i := range 40 {
		statements = append(statements, fmt.Sprintf("SELECT * FROM stream_rows(%d)", i))
	}
	for _, sql := range statements {
		answer := func(which int) string {
			rows, err := query(t.Context(), client, names.worded(sql, which))
			text, _, _ := strings.Cut(fmt.Sprint(rows, err), "Did you mean") // whichever name is similar
			return names.unworded(text, which)
		}
		first := answer(0)
		leaks(t, sql, first)
		if !strings.Contains(sql, "RSTREAM") { // only answers that name it are compared
			continue
		}
		if second := answer(1); first != second {
			t.Errorf("%s: of another customer\n%s\nof nobody\n%s", sql, first, second)
		}
	}
	if n := number(t, client, "SELECT count(*) FROM flows"); n != 1 {
		t.Errorf("%d rows of flows", n)
	}
	if n := number(t, client, "SELECT sum(packets)::BIGINT FROM flows WHERE source = 'own1'"); n != 5 {
		t.Errorf("%d packets", n)
	}
}

// TestScopeOfStreams: what is open when the scope changes ends before it sends more.
func TestScopeOfStreams(t *testing.T) {
	s, send := tenants(t)
	limited := s.scoped(t, "customer=own")
	client, admin := limited.client(t, limited.operator), s.client(t, s.operator)
	tail, err := client.Data.Tail(t.Context(), &pillionv1.TailRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	pairs, err := client.Flows.WatchPairs(t.Context(), &pillionv1.WatchPairsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer pairs.Close()
	other, err := client.Flows.WatchWindows(t.Context(), &pillionv1.WatchWindowsRequest{Selection: &pillionv1.Selection{Source: "rival1", Destination: "rival2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if !tail.Receive() || !pairs.Receive() || !other.Receive() {
		t.Fatal(tail.Err(), pairs.Err(), other.Err())
	}
	send(1)
	received := func(message fmt.Stringer) string {
		leaks(t, "a stream", message.String())
		return message.String()
	}
	for !strings.Contains(received(tail.Msg()), "own1") || tail.Msg().Stream != "flows" {
		if !tail.Receive() {
			t.Fatal(tail.Err())
		}
	}
	for !strings.Contains(received(pairs.Msg()), "own1") {
		if !pairs.Receive() {
			t.Fatal(pairs.Err())
		}
	}
	if !other.Receive() || len(other.Msg().Windows) > 0 {
		t.Errorf("windows of another customer: %v, %v", other.Msg(), other.Err())
	}
	// own2 moves to the other customer.
	if _, err := admin.Agents.SetLabels(t.Context(), &pillionv1.SetLabelsRequest{Name: "own2", Labels: map[string]string{"customer": "rival"}}); err != nil {
		t.Fatal(err)
	}
	within(t, "the scope has changed", func() bool {
		_, text := s.call(t, "/pillion.v1.AgentService/ListAgents", limited.operator, `{}`)
		return !strings.Contains(text, "own2")
	})
	send(2)
	for tail.Receive() {
		if received(tail.Msg()); len(tail.Msg().Rows) > 0 && tail.Msg().Stream == "flows" {
			t.Errorf("sent after the change: %v", tail.Msg())
		}
	}
	for pairs.Receive() {
	}
	for name, err := range map[string]error{"tail": tail.Err(), "pairs": pairs.Err()} {
		if connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(err.Error(), "have changed") {
			t.Errorf("%s ends with %v", name, err)
		}
	}
	if _, text := s.call(t, "/pillion.v1.FlowService/ListFlows", limited.operator, `{}`); strings.Contains(text, "192.0.2.7") {
		t.Errorf("rows of a former agent: %s", text)
	}
}
