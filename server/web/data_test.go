package web

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/protobuf/types/known/durationpb"

	"pillion.dev/api/pillionv1"
	"pillion.dev/api/pillionv1/pillionv1connect"
	"pillion.dev/archive"
	"pillion.dev/internal/test/hang"
	"pillion.dev/measure"
)

func (s *site) rows(t testing.TB, token string) pillionv1connect.DataServiceClient {
	t.Helper()
	client, url := s.client(t, "tls")
	return pillionv1connect.NewDataServiceClient(client, url, bearer(token))
}

func publish(s *site, agent string, schema *measure.Schema, record arrow.RecordBatch) {
	s.live.publish(archive.Batch{Agent: agent, Key: measure.Key{Stream: schema.Name}, Schema: schema, Record: record})
	record.Release()
}

func TestTail(t *testing.T) {
	tests := []struct {
		name    string
		request *pillionv1.TailRequest
		columns []string
		rows    int
		first   string
	}{
		{"everything", &pillionv1.TailRequest{}, append([]string{"agent"}, names(numbers.Fields)...), 10, "a"},
		{"chosen columns in their order", &pillionv1.TailRequest{Streams: []string{"numbers"}, Columns: []string{"word", "nothing", "agent"}}, []string{"word", "agent"}, 10, "plain"},
		{"one word", &pillionv1.TailRequest{Where: map[string]string{"word": "with, comma"}, Columns: []string{"word"}}, []string{"word"}, 2, "with, comma"},
		{"one number", &pillionv1.TailRequest{Where: map[string]string{"port": "3", "agent": "a"}, Columns: []string{"agent"}}, []string{"agent"}, 1, "a"},
	}
	s := newSite(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream, err := s.rows(t, "viewer").Tail(ctx, test.request)
			if err != nil || !stream.Receive() {
				t.Fatalf("begin: %v, %v", err, stream.Err())
			}
			publish(s, "a", &numbers, numbersRecord(10))
			if !stream.Receive() {
				t.Fatal(stream.Err())
			}
			m := stream.Msg()
			var columns []string
			for _, c := range m.Columns {
				columns = append(columns, c.Name)
			}
			if m.Stream != "numbers" || !slices.Equal(columns, test.columns) || len(m.Rows) != test.rows {
				t.Errorf("got %d rows of %v, want %d of %v", len(m.Rows), columns, test.rows, test.columns)
			}
			if got := m.Rows[0].Values[0].GetText(); got != test.first {
				t.Errorf("got %q, want %q", got, test.first)
			}
			publish(s, "a", &numbers, numbersRecord(10))
			if !stream.Receive() || len(stream.Msg().Columns) != 0 {
				t.Errorf("columns were sent again: %v, %v", stream.Msg().Columns, stream.Err())
			}
		})
	}
	eventually(t, "readers leave", func() bool {
		s.live.mutex.Lock()
		defer s.live.mutex.Unlock()
		return len(s.live.readers) == 2 // metrics and pairs
	})
}

func names(fields []measure.Field) []string {
	var all []string
	for _, f := range fields {
		all = append(all, f.Name)
	}
	return all
}

// TestTailOfASlowReader: missed rows are counted, and nothing waits for the reader.
func TestTailOfASlowReader(t *testing.T) {
	s := newSite(t)
	stream, err := s.rows(t, "viewer").Tail(t.Context(), &pillionv1.TailRequest{})
	if err != nil || !stream.Receive() {
		t.Fatalf("begin: %v", err)
	}
	missed := func() uint64 {
		s.live.mutex.Lock()
		defer s.live.mutex.Unlock()
		var n uint64
		for r := range s.live.readers {
			n += r.missed
		}
		return n
	}
	record := numbersRecord(1000)
	defer record.Release()
	for missed() == 0 {
		record.Retain()
		publish(s, "a", &numbers, record)
	}
	for stream.Receive() {
		if stream.Msg().Missed > 0 {
			return
		}
		record.Retain()
		publish(s, "a", &numbers, record)
	}
	t.Errorf("the stream ended: %v", stream.Err())
}

func TestTailEndsWithTheServer(t *testing.T) {
	s := newSite(t)
	stream, err := s.rows(t, "viewer").Tail(t.Context(), &pillionv1.TailRequest{})
	if err != nil || !stream.Receive() {
		t.Fatalf("begin: %v", err)
	}
	closed := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), hang.Limit)
		defer cancel()
		closed <- s.Close(ctx)
	}()
	if stream.Receive() || connect.CodeOf(stream.Err()) != connect.CodeUnavailable {
		t.Errorf("got %v", stream.Err())
	}
	stream.Close()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func TestStreamsAndRetention(t *testing.T) {
	s := newSite(t)
	listed, err := s.rows(t, "viewer").ListStreams(t.Context(), &pillionv1.ListStreamsRequest{})
	if err != nil || len(listed.Streams) != 2 || listed.Streams[1].Name != "numbers" || listed.Streams[1].Rows != 4500 {
		t.Fatalf("got %v, %v", listed, err)
	}
	columns := listed.Streams[1].Columns
	if columns[0].Name != "agent" || columns[1].Type != "time" || columns[9].Type != "int64[]" || columns[4].Unit != "packets" {
		t.Errorf("got columns %v", columns)
	}
	set, err := s.rows(t, "admin").SetRetention(t.Context(), &pillionv1.SetRetentionRequest{
		Stream: "numbers", Retention: &pillionv1.Retention{Age: durationpb.New(time.Hour), Bytes: 1 << 30},
	})
	if err != nil || set.Stream.Retention.Age.AsDuration() != time.Hour || set.Stream.Retention.Bytes != 1<<30 {
		t.Errorf("got %v, %v", set, err)
	}
}

func TestSeries(t *testing.T) {
	s := newSite(t, func(o *Options) { o.Now = func() time.Time { return epoch } })
	response, err := s.rows(t, "viewer").Series(t.Context(), &pillionv1.SeriesRequest{
		Stream: "numbers", By: []string{"source"},
		Aggregates: []*pillionv1.Aggregate{{Column: "delay_ns", Function: "avg"}, {Column: "count"}},
	})
	if err != nil || len(response.Lines) != 1 {
		t.Fatalf("got %v, %v", response, err)
	}
	line := response.Lines[0]
	if response.Step.AsDuration() != 12*time.Second || line.Labels["source"] != "a" || line.TimesMs[0] != epoch.UnixMilli() ||
		len(line.Values) != 2 || line.Values[0].Values[0] != 1.5 || !math.IsNaN(line.Values[1].Values[0]) {
		t.Errorf("got %v", response)
	}
	got := s.archive.asked[0].(archive.Series)
	if !got.To.Equal(epoch) || !got.From.Equal(epoch.Add(-time.Hour)) || got.Points != 300 || got.Lines != 100 {
		t.Errorf("asked %+v", got)
	}
}

func TestQueryRefuses(t *testing.T) {
	s := newSite(t)
	tests := []struct {
		name, want string
		request    *pillionv1.QueryRequest
		code       connect.Code
	}{
		{"no statement", "empty statement", &pillionv1.QueryRequest{Sql: " "}, connect.CodeInvalidArgument},
		{"too many rows", "at most 1000000", &pillionv1.QueryRequest{Sql: "SELECT 1", Limit: 1_000_001}, connect.CodeInvalidArgument},
		{"negative limit", "at most", &pillionv1.QueryRequest{Sql: "SELECT 1", Limit: -1}, connect.CodeInvalidArgument},
		{"not a reading one", "only SELECT", &pillionv1.QueryRequest{Sql: "DROP TABLE x"}, connect.CodeInvalidArgument},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			stream, err := s.rows(t, "analyst").Query(t.Context(), test.request)
			if err != nil {
				t.Fatal(err)
			}
			for stream.Receive() {
			}
			if connect.CodeOf(stream.Err()) != test.code || !strings.Contains(stream.Err().Error(), test.want) {
				t.Errorf("got %v", stream.Err())
			}
		})
	}
}

// TestValuesOfQueries: types that occur in queries but not in columns.
func TestValuesOfQueries(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "date", Type: arrow.FixedWidthTypes.Date32}, {Name: "micros", Type: arrow.FixedWidthTypes.Timestamp_us},
		{Name: "tiny", Type: arrow.PrimitiveTypes.Int8}, {Name: "real", Type: arrow.PrimitiveTypes.Float32},
		{Name: "sum", Type: &arrow.Decimal128Type{Precision: 38}}, {Name: "none", Type: arrow.Null},
		{Name: "texts", Type: arrow.ListOf(arrow.BinaryTypes.String)},
	}, nil)
	record, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(
		`[{"date":"2026-03-01","micros":"2026-03-01T12:00:00.5","tiny":-3,"real":0.5,"sum":"12345678901234567890","none":null,"texts":["a","b"]}]`))
	if err != nil {
		t.Fatal(err)
	}
	defer record.Release()
	columns, described := allCells(record)
	values := rowOf(columns, 0).Values
	noon := time.Date(2026, 3, 1, 12, 0, 0, 5e8, time.UTC)
	if values[0].GetTime() != noon.Truncate(24*time.Hour).UnixNano() || values[1].GetTime() != noon.UnixNano() ||
		values[2].GetInt() != -3 || values[3].GetFloat() != 0.5 || values[4].GetUint() != 12345678901234567890 ||
		values[5].Kind != nil || values[6].GetText() != `["a","b"]` {
		t.Errorf("got %v", values)
	}
	if described[1].Type != "time" || described[4].Type == "" {
		t.Errorf("got %v", described)
	}
}

func TestEvents(t *testing.T) {
	s := newSite(t)
	b := array.NewRecordBuilder(memory.DefaultAllocator, measure.Events.Arrow())
	defer b.Release()
	for i := range 5 {
		b.Field(0).(*array.TimestampBuilder).Append(arrow.Timestamp(epoch.Add(time.Duration(i)).UnixNano()))
		for j, text := range []string{"agent-lost", "warning", "a", "", "message", "b"} {
			b.Field(j + 1).(*array.StringBuilder).Append(text + string(rune('0'+i)))
		}
	}
	s.archive.records["events"] = []arrow.RecordBatch{b.NewRecordBatch()}
	client, url := s.client(t, "tls")
	service := pillionv1connect.NewServerServiceClient(client, url, bearer("viewer"))
	response, err := service.ListEvents(t.Context(), &pillionv1.ListEventsRequest{Limit: 2, Kind: "agent-lost"})
	if err != nil || len(response.Events) != 2 {
		t.Fatalf("got %v, %v", response, err)
	}
	if e := response.Events[0]; e.Message != "message4" || e.Agent != "a4" || e.Peer != "b4" || !e.Time.AsTime().Equal(epoch.Add(4)) {
		t.Errorf("newest is %v", e)
	}
	if got := s.archive.asked[0].(archive.Export); got.Where["kind"] != "agent-lost" || got.From.IsZero() {
		t.Errorf("asked %+v", got)
	}
}

// hopRecord is a trace of one hop.
func hopRecord() arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, measure.Hops.Arrow())
	defer b.Release()
	b.Field(0).(*array.TimestampBuilder).Append(arrow.Timestamp(epoch.UnixNano()))
	for i, text := range []string{"s", "b", "192.0.2.1", "192.0.2.2", "udp"} {
		b.Field(1 + i).(*array.StringBuilder).Append(text)
	}
	b.Field(6).(*array.Uint32Builder).Append(1)
	b.Field(7).(*array.StringBuilder).Append("192.0.2.2")
	b.Field(8).(*array.Int64Builder).Append(5000)
	b.Field(9).(*array.Uint32Builder).Append(3)
	b.Field(10).(*array.Uint32Builder).Append(2)
	b.Field(11).(*array.BooleanBuilder).Append(true)
	return b.NewRecordBatch()
}

func TestOtherCalls(t *testing.T) {
	s := newSite(t)
	s.archive.records["hops"] = []arrow.RecordBatch{hopRecord()}
	tests := []struct{ name, procedure, token, body, want string }{
		{"agents by label", "AgentService/ListAgents", "viewer", `{"label":"site=north"}`, `{"agents":[{"name":"a",`},
		{"agents of no label", "AgentService/ListAgents", "viewer", `{"label":"site=south"}`, `{}`},
		{"first page of agents", "AgentService/ListAgents", "viewer", `{"pageSize":1}`, `"nextPageToken":"`},
		{"next page of agents", "AgentService/ListAgents", "viewer", `{"pageSize":1,"pageToken":"` + cursor{After: "a"}.token() + `"}`, `{"agents":[{"name":"b",`},
		{"page of other agents", "AgentService/ListAgents", "viewer", `{"label":"site=north","pageToken":"` + cursor{After: "a"}.token() + `"}`, `"invalid_argument"`},
		{"next page of tokens", "ServerService/ListTokens", "admin", `{"pageSize":1,"pageToken":"` + cursor{After: "y"}.token() + `"}`, `{"tokens":[{"name":"z"}]}`},
		{"unknown agent", "AgentService/GetAgent", "viewer", `{"name":"x"}`, `"not_found"`},
		{"labels", "AgentService/SetLabels", "operator", `{"name":"a","labels":{"k":"v"}}`, `"agent":{"name":"a"`},
		{"check", "AgentService/CheckAgent", "operator", `{"name":"a","peers":["b"]}`, `{"name":"kernel","level":"ok"`},
		{"check of the clock", "AgentService/CheckAgent", "operator", `{"name":"a","peers":["b"]}`, `{"name":"clockandserver","level":"ok"`},
		{"check of one that is away", "AgentService/CheckAgent", "operator", `{"name":"b"}`, `"unavailable"`},
		{"check that fails", "AgentService/CheckAgent", "operator", `{"name":"c"}`, `noright`},
		{"description", "AgentService/DescribeAgent", "operator", `{"name":"a","devices":["eth0"]}`, `{"facts":{"device":"eth0","kernel":"6.1"}}`},
		{"description of an unknown agent", "AgentService/DescribeAgent", "operator", `{"name":"x"}`, `"not_found"`},
		{"description of many devices", "AgentService/DescribeAgent", "operator", `{"name":"a","devices":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"]}`, `"invalid_argument"`},
		{"plan", "SessionService/PlanSession", "viewer", `{"spec":{"name":"s","sources":["a"],"destinations":["b"]}}`, `"costs":["16bytes"]`},
		{"runs", "SessionService/ListRuns", "viewer", `{}`, `"planned"`},
		{"runs of an age", "SessionService/ListRuns", "viewer", `{"from":"2000-01-01T00:00:00Z","to":"2026-01-01T00:00:00Z"}`, `"invalid_argument"`},
		{"unknown session", "SessionService/StopSession", "operator", `{"name":"x"}`, `"not_found"`},
		{"graph", "TopologyService/GetTopology", "viewer", `{}`, `"rttNs":"-1","measured":true`},
		{"one-way delay of an edge", "TopologyService/GetTopology", "viewer", `{}`, `"from":"n","to":"ioam:0x000101","oneWay":{"packets":"5","p50Ns":"-3"},"oneWaySeen":"2026-03-01T12:00:00.123456789Z"`},
		{"path in packets", "TopologyService/GetTopology", "viewer", `{}`, `"protocol":"ioam","hops":[{"ttl":1,"oneWay":{"packets":"5","p50Ns":"-3","uncertaintyNs":"1000","clockErrorNs":"7","clockKnown":true},"skipped":2,"stages":[{"stage":"transit","packets":"4","meanNs":"9"}],"input":"eth0","output":"eth1","stagesUnknown":true}],"kind":"ioam","oneWay":{"packets":"5"},"intervalNs":"1000000000","otherPackets":"6","overflowed":"7"`},
		{"node of a trace", "TopologyService/GetTopology", "viewer", `{}`, `{"id":"ioam:0x000101","kind":"router","ioam":"0x000101"}`},
		{"change of a path", "TopologyService/GetPathChange", "viewer", `{"source":"a","destination":"b","address":"192.0.2.2","protocol":"udp"}`,
			`{"after":{"source":"a","destination":"b","address":"192.0.2.2","protocol":"udp","reached":true,"time":"2026-03-01T12:00:00.123456789Z","hops":[{"ttl":1,"address":"192.0.2.2","rttNs":"5000","sent":3,"answers":2}],"kind":"traceroute"}}`},
		{"change until no time", "TopologyService/GetPathChange", "viewer", `{"until":"0000-01-01T00:00:00Z"}`, `"invalid_argument"`},
		{"delays of a router", "TopologyService/GetRouterDelays", "viewer", `{"agent":"a","sessions":["s"]}`,
			`"stages":[{"stage":"processing","startMs":"1772366400123","delay":{"count":"7",`},
		{"queues of a router", "TopologyService/GetRouterDelays", "viewer", `{"agent":"a"}`, `"queues":[{"interface":"eth0","side":"input","startMs":"1772366400123","meanDepth":1.5,"kernelDepth":2}]`},
		{"distributions of its queues", "TopologyService/GetRouterDelays", "viewer", `{"agent":"a"}`, `"sizes":[{"interface":"eth0","side":"input","sizes":[{"packets":2,"count":"9"}],"arrivals":[{"count":"4"}]}]`},
		{"too many windows", "TopologyService/GetRouterDelays", "viewer", `{"from":"2026-01-01T00:00:00Z","to":"2026-03-01T00:00:00Z","stepMs":1000}`, `"invalid_argument"`},
		{"trace", "TopologyService/Trace", "operator", `{"source":"a","destination":"b"}`, `"address":"2001:db8::2"`},
		{"trace to no address", "TopologyService/Trace", "operator", `{"source":"a","destination":"b","address":"x"}`, `"invalid_argument"`},
		{"trace from one that is away", "TopologyService/Trace", "operator", `{"source":"b","destination":"a"}`, `"unavailable"`},
		{"trace by tcp", "TopologyService/Trace", "operator", `{"source":"a","destination":"b","protocol":"tcp"}`, `"invalid_argument"`},
		{"who", "ServerService/WhoAmI", "operator", `{}`, `{"name":"the-operator","role":"operator"}`},
		{"build", "ServerService/BuildInfo", "", `{}`, `"go":"go1`},
		{"health", "ServerService/Health", "", `{}`, `"status":"ok"`},
		{"token", "ServerService/CreateToken", "admin", `{"name":"t","role":"viewer"}`, `"secret":"s3cret"`},
		{"token of no role", "ServerService/CreateToken", "admin", `{"name":"t","role":"root"}`, `"invalid_argument"`},
		{"tokens", "ServerService/ListTokens", "admin", `{}`, `[{"name":"y"},{"name":"z"}]`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, body := s.post(t, "http1", "/pillion.v1."+test.procedure, test.token, test.body)
			if got := strings.ReplaceAll(body, " ", ""); !strings.Contains(got, test.want) {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	const limit = 3
	s := newSite(t, func(o *Options) {
		o.MetricsPairs = limit
		o.Figures = func() []Figure {
			return []Figure{{Name: "pillion_ingest_rows_total", Help: "Rows.", Value: 42}, {Name: "not a name", Value: 1}}
		}
	})
	b := array.NewRecordBuilder(memory.DefaultAllocator, measure.Flows.Arrow())
	defer b.Release()
	for i := range 10 {
		for j, field := range measure.Flows.Fields {
			switch field.Name {
			case "time":
				b.Field(j).(*array.TimestampBuilder).Append(arrow.Timestamp(epoch.UnixNano()))
			case "source":
				b.Field(j).(*array.StringBuilder).Append("source-" + string(rune('0'+i)) + "\"\n\xff" + strings.Repeat("x", 100))
			case "session":
				b.Field(j).(*array.StringBuilder).Append("s")
			case "lost", "delay_count":
				b.Field(j).(*array.Uint64Builder).Append(4)
			case "delay_min_ns", "delay_mean_ns", "delay_max_ns":
				b.Field(j).(*array.Int64Builder).Append(2_000_000)
			case "delay_bounds_ns":
				b.Field(j).(*array.ListBuilder).Append(true)
				b.Field(j).(*array.ListBuilder).ValueBuilder().(*array.Int64Builder).AppendValues([]int64{-70, 15_000, 20_000_000_000}, nil)
			case "delay_counts":
				b.Field(j).(*array.ListBuilder).Append(true)
				b.Field(j).(*array.ListBuilder).ValueBuilder().(*array.Uint64Builder).AppendValues([]uint64{1, 2, 1}, nil)
			default:
				b.Field(j).AppendNull()
			}
		}
	}
	eventually(t, "metrics follow", func() bool {
		s.live.mutex.Lock()
		defer s.live.mutex.Unlock()
		return len(s.live.readers) == 2
	})
	publish(s, "d", &measure.Flows, b.NewRecordBatch())
	var text string
	eventually(t, "rows are summed", func() bool {
		var status int
		status, text = s.get(t, "http1", "/metrics", "viewer")
		return status == http.StatusOK && strings.Contains(text, "pillion_pairs_overflow_rows_total 7")
	})
	for _, want := range []string{
		`pillion_lost_packets_total{destination="other",session="other",source="other"} 28`,
		`source="source-0\"\n`, `le="0"} 1`, `le="1e-05"} 1`, `le="2e-05"} 3`, `le="10"} 3`, `le="+Inf"} 4`,
		`pillion_delay_seconds_sum{destination="other",session="other",source="other"} 0.056`,
		"pillion_ingest_rows_total 42", "pillion_archive_bytes 12345", `pillion_agents{state="connected"} 1`,
		"pillion_agent_spool_dropped_rows 7", "go_goroutines",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if n := strings.Count(text, "pillion_lost_packets_total{"); n != limit+1 {
		t.Errorf("%d pairs, want %d", n, limit+1)
	}
}

// TestMetricsAfterMalformedBatches: a list whose offsets exceed its values does no harm.
func TestMetricsAfterMalformedBatches(t *testing.T) {
	s := newSite(t)
	values := array.NewInt64Builder(memory.DefaultAllocator)
	values.Append(1)
	inner := values.NewArray()
	counts := array.NewUint64Builder(memory.DefaultAllocator)
	counts.Append(1)
	innerCounts := counts.NewArray()
	offsets := memory.NewBufferBytes(arrow.Int32Traits.CastToBytes([]int32{0, 1 << 20}))
	list := func(kind arrow.DataType, inner arrow.Array) arrow.Array {
		return array.NewListData(array.NewData(arrow.ListOf(kind), 1, []*memory.Buffer{nil, offsets}, []arrow.ArrayData{inner.Data()}, 0, 0))
	}
	schema := measure.Schema{Name: "flows", Fields: []measure.Field{
		{Name: "delay_bounds_ns", Type: measure.Int64List}, {Name: "delay_counts", Type: measure.Uint64List},
	}}
	record := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{
		{Name: "delay_bounds_ns", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64)},
		{Name: "delay_counts", Type: arrow.ListOf(arrow.PrimitiveTypes.Uint64)},
	}, nil), []arrow.Array{list(arrow.PrimitiveTypes.Int64, inner), list(arrow.PrimitiveTypes.Uint64, innerCounts)}, 1)
	eventually(t, "metrics follow", func() bool {
		s.live.mutex.Lock()
		defer s.live.mutex.Unlock()
		return len(s.live.readers) == 2
	})
	publish(s, "d", &schema, record)
	eventually(t, "the row is counted as missed", func() bool {
		_, text := s.get(t, "http1", "/metrics", "viewer")
		return strings.Contains(text, "pillion_metrics_missed_rows_total 1")
	})
}
