package server_test

import (
	"bytes"
	cryptorand "crypto/rand"
	"crypto/tls"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/api/pillionv1"
	"pillion.dev/archive"
	_ "pillion.dev/archive/clickhouse" // registers clickhouse:
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/measuretest"
	"pillion.dev/server/traffic"
)

// sent is a batch of an agent.
type sent struct {
	agent string
	batch measure.Envelope
}

// measured are batches of flows, of paths and of a router, from that time on.
func measured(t *testing.T, begin time.Time) (all []sent) {
	t.Helper()
	at := func(second float64) time.Time { return begin.Add(time.Duration(second * 1e9)) }
	add := func(agent string, schema *measure.Schema, record arrow.RecordBatch) {
		e, err := measure.Encode(measure.Key{Stream: schema.Name, Epoch: 1}, record)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, sent{agent, e})
	}
	random := rand.New(rand.NewPCG(4, 2))
	for _, agent := range []string{"b", "c"} {
		var rows []flows.Row
		for i := range 1200 {
			rows = append(rows, flowAt(random, at(float64(i)/4), []string{"a", "c"}[i%2]))
		}
		add(agent, &measure.Flows, measuretest.Flows(t, rows...))
	}
	var hops, stages, queues, breaks []measuretest.Fields
	for i := range 60 {
		route := []string{"10.0.0.8", "10.0.0.9"}[i/30] // changes half way
		hops = append(hops, measuretest.Fields{"time": at(float64(i / 3 * 5)), "session": "x", "peer": "b", "src": "10.0.0.1", "dst": "10.0.0.2", "protocol": "udp",
			"ttl": i%3 + 1, "sent": 3, "answers": 3, "address": []string{"10.0.0.7", route, "10.0.0.2"}[i%3], "rtt_min_ns": 1000 * (i%3 + 1), "rtt_mean_ns": 1100 * (i%3 + 1)})
		when := at(float64(i))
		stages = append(stages, measuretest.Fields{"time": when, "session": "x", "input": "west", "output": "east", "stage": "processing", "interval_ns": time.Second, "packets": 5 + i,
			"delay_min_ns": 1000, "delay_mean_ns": 1100 + i, "delay_max_ns": 5000, "delay_bounds_ns": []int64{992, 1024}, "delay_counts": []uint64{uint64(i), 5}})
		queues = append(queues, measuretest.Fields{"time": when, "session": "x", "interface": "west", "side": "input", "interval_ns": time.Second, "depth_mean": float64(i) / 4, "kernel_depth": i,
			"sizes": []int64{1, 2}, "size_counts": []uint64{uint64(i), 3}, "gap_arrivals": []int64{0}, "gap_counts": []uint64{7}})
		breaks = append(breaks, measuretest.Fields{"time": when, "session": "x", "length_ns": time.Duration(i * 7919 % 60), "cause": "scheduled"})
	}
	add("a", &measure.Hops, measuretest.Record(t, &measure.Hops, hops...))
	add("r", &measure.Router, measuretest.Record(t, &measure.Router, stages...))
	add("r", &measure.RouterQueues, measuretest.Record(t, &measure.RouterQueues, queues...))
	add("r", &measure.RouterBreaks, measuretest.Record(t, &measure.RouterBreaks, breaks...))
	return all
}

// flowAt is a row of one of several flows, some without delays.
func flowAt(random *rand.Rand, end time.Time, source string) flows.Row {
	row := flows.Row{
		End: end.Add(time.Duration(random.Int64N(2e8))), Interval: time.Second, Session: []string{"x", "y"}[random.IntN(2)], Source: source,
		Flow: flows.Flow{Src: fmt.Sprintf("192.0.2.%d", random.IntN(5)), Dst: "2001:db8::1", Proto: []string{"udp", "tcp"}[random.IntN(2)], Sport: uint32(random.IntN(3)), Dport: 53},
		Sum: flows.Sum{Counts: flows.Counts{
			Packets: random.Uint64N(1000), Bytes: random.Uint64N(1e6), Expected: random.Uint64N(1100), Lost: random.Uint64N(9), Late: random.Uint64N(2),
		}},
		DestinationClock: flows.BoundOf(random.Int64N(1000)), SourceClock: flows.BoundOf(random.Int64N(1000)),
	}
	for range random.IntN(6) {
		row.Delay.Add(random.Int64N(1 << 30))
		row.IPDV.Add(random.Int64N(1<<20) - 1<<19)
	}
	return row
}

// scoped is the server for a user with a token of that scope.
func (s *target) scoped(t *testing.T, scope ...string) *target {
	t.Helper()
	name := strings.ToLower(cryptorand.Text())
	made, err := s.client(t, s.operator).Server.CreateToken(t.Context(), &pillionv1.CreateTokenRequest{Name: name, Role: "analyst", Scope: scope})
	if err != nil {
		t.Fatal(err)
	}
	limited := *s
	limited.operator = made.Secret
	return &limited
}

// store sends batches as the agents do.
func store(t *testing.T, s *target, batches []sent) {
	t.Helper()
	for _, name := range []string{"a", "b", "c", "r"} {
		agent := s.agent(t, name)
		for _, one := range batches {
			if one.agent == name {
				within(t, "the batch is stored", func() bool { return agent.Send(t.Context(), one.batch) == nil })
			}
		}
		agent.Close()
	}
}

// asked are questions by name.
func asked(begin time.Time) map[string]func(*testing.T, *target) string {
	to := begin.Add(301 * time.Second)
	all := map[string]func(*testing.T, *target) string{
		"streams": func(t *testing.T, s *target) string {
			var answer struct{ Streams []map[string]any }
			if err := json.Unmarshal(s.post(t, "DataService/ListStreams", nil), &answer); err != nil {
				t.Fatal(err)
			}
			answer.Streams = slices.DeleteFunc(answer.Streams, func(one map[string]any) bool { // those of the server itself
				return !slices.Contains([]any{"flows", "hops", "router", "router_queues", "router_breaks"}, one["name"])
			})
			return text(t, answer)
		},
		"query": func(t *testing.T, s *target) string {
			rows, err := query(t.Context(), s.client(t, s.operator), "SELECT agent, source, min(delay_min_ns) AS least FROM flows GROUP BY agent, source ORDER BY agent, source")
			if err != nil {
				t.Fatal(err)
			}
			return text(t, rows)
		},
	}
	span := map[string]any{"from": begin, "to": to}
	post := func(name, method string, more map[string]any) {
		question := map[string]any{}
		for _, from := range []map[string]any{span, more} {
			for key, value := range from {
				question[key] = value
			}
		}
		all[name] = func(t *testing.T, s *target) string { return canonical(t, s.post(t, method, question)) }
	}
	for name, selection := range map[string]map[string]any{
		"all": {}, "a pair": {"source": "a", "destination": "b"}, "a session": {"session": "x"}, "a flow": {"src": "192.0.2.1", "proto": "udp", "dport": 53},
	} {
		post("windows of "+name, "FlowService/Windows", map[string]any{"selection": selection, "points": 30, "histograms": true})
		for _, granularity := range []string{"flow", "host-port", "host", "pair"} {
			post("flows of "+name+" by "+granularity, "FlowService/ListFlows", map[string]any{"selection": selection, "granularity": granularity, "order": "p99"})
		}
		for _, granularity := range traffic.Granularities {
			post("matrix of "+name+" by "+granularity, "FlowService/TrafficMatrix", map[string]any{"selection": selection, "granularity": granularity, "byProtocol": granularity != traffic.ByPair})
		}
	}
	post("series", "DataService/Series", map[string]any{"stream": "flows", "by": []string{"source", "agent"}, "points": 20, "aggregates": []map[string]any{
		{"column": "delay_mean_ns", "function": "avg", "weight": "delay_count"}, {"column": "packets", "function": "sum"}, {"column": "delay_mean_ns", "function": "p99"},
	}})
	post("rows", "DataService/ListRows", map[string]any{"stream": "flows", "where": map[string]string{"source": "a"}, "limit": 50,
		"columns": []string{"time", "agent", "source", "src", "packets", "lost", "delay_mean_ns", "delay_counts", "sport"}})
	post("routers", "TopologyService/GetRouterDelays", map[string]any{"agent": "r", "sessions": []string{"x"}, "stepMs": 10_000})
	delete(span, "from")
	delete(span, "to")
	post("a change of path", "TopologyService/GetPathChange", map[string]any{"source": "a", "destination": "b", "address": "10.0.0.2", "protocol": "udp", "until": to})
	for _, stream := range []string{"flows", "hops", "router", "router_queues", "router_breaks"} {
		all["export of "+stream] = func(t *testing.T, s *target) string { return s.exported(t, stream) }
	}
	return all
}

// get does a request of an operator.
func (s *target) get(t *testing.T, request *http.Request) []byte {
	t.Helper()
	request.Header.Set("Authorization", "Bearer "+s.operator)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.roots}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: patience}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", request.URL, response.Status, err, body)
	}
	return body
}

// post asks the API in JSON.
func (s *target) post(t *testing.T, method string, question map[string]any) []byte {
	t.Helper()
	body := text(t, question)
	if question == nil {
		body = "{}"
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+s.welcome.HTTP+"/pillion.v1."+method, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	return s.get(t, request)
}

// exported is a stream as CSV, without the arrival of rows.
func (s *target) exported(t *testing.T, stream string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.welcome.HTTP+"/export?"+url.Values{"stream": {stream}, "format": {"csv"}}.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(bytes.NewReader(s.get(t, request))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	arrival := slices.Index(lines[0], archive.ArrivalColumn)
	var all []string
	for _, line := range lines {
		if arrival >= 0 {
			line = slices.Delete(line, arrival, arrival+1)
		}
		all = append(all, strings.Join(line, ","))
	}
	slices.Sort(all[1:]) // rows of the same time come in any order
	return strings.Join(all, "\n")
}

func text(t *testing.T, value any) string {
	t.Helper()
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// canonical is JSON with its keys in order, one to a line, and fractions rounded: archives add up floats in orders of
// their own.
func canonical(t *testing.T, body []byte) string {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return text(t, rounded(value))
}

func rounded(value any) any {
	switch v := value.(type) {
	case json.Number:
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".e") {
			return strconv.FormatFloat(f, 'g', 12, 64)
		}
	case []any:
		for i := range v {
			v[i] = rounded(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = rounded(v[key])
		}
	}
	return value
}

// difference shows where two texts begin to differ.
func difference(one, other string) string {
	a, b := strings.Split(one, "\n"), strings.Split(other, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			around := func(lines []string) string { return strings.Join(lines[max(0, i-8):min(len(lines), i+8)], "\n") }
			return fmt.Sprintf("line %d\nDuckDB\n%s\nClickHouse\n%s", i, around(a), around(b))
		}
	}
	return fmt.Sprintf("%d and %d lines", len(a), len(b))
}
