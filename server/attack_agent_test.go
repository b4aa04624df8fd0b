package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"pillion.dev/api/pillionv1"
	"pillion.dev/bus"
	"pillion.dev/measure"
	"pillion.dev/session"
)

// TestHostileAgent: a host with a valid certificate sends false data everywhere it can.
// Its rows are stored under its own name only, never in the server's streams, and other
// agents are not affected.
func TestHostileAgent(t *testing.T) {
	s := start(t, t.TempDir()+"/data")
	honest, hostile := s.agent(t, "honest"), s.agent(t, "hostile")
	client := s.client(t, s.operator)
	state := session.State{Agent: "honest", Instance: "one", Version: "good", Time: time.Now()}
	text, _ := json.Marshal(state)
	if err := honest.Report(text); err != nil {
		t.Fatal(err)
	}
	within(t, "the honest agent's report is processed", func() bool { return s.agentOf(t, "honest").Version == "good" })
	before := used(t)
	for _, lie := range lies() {
		if err := hostile.Report([]byte(lie)); err != nil && len(lie) < 1<<20 {
			t.Errorf("report: %v", err)
		}
	}
	serveLies(t, hostile)
	if _, err := client.Agents.CheckAgent(t.Context(), &pillionv1.CheckAgentRequest{Name: "hostile"}); err == nil {
		t.Log("the hostile agent's check was answered")
	}
	sendDamaged(t, hostile)
	word := measure.StringValue("honest")
	at := measure.TimeValue(time.Now())
	for name, e := range map[string]measure.Envelope{
		"events": batchOf(t, &measure.Events, 0, measure.Sample{at, word, word, word, word, word, word}),
		"audit":  batchOf(t, &measure.Audit, 0, measure.Sample{at, word, word, word, word, word, word}),
		"agent column": batchOf(t, &measure.Schema{Name: "forged", Fields: []measure.Field{measure.TimeField, {Name: "agent", Type: measure.String}}}, 0,
			measure.Sample{at, word}),
		"wrong types": batchOf(t, &measure.Schema{Name: "flows", Fields: []measure.Field{measure.TimeField, {Name: "packets", Type: measure.String}}}, 0,
			measure.Sample{at, word}),
	} {
		if err := hostile.Send(t.Context(), e); !errors.Is(err, bus.ErrRejected) {
			t.Errorf("%s: %v", name, err)
		}
	}
	odd := &measure.Schema{Name: "odd", Fields: []measure.Field{measure.TimeField, {Name: "x", Type: measure.Float64}, {Name: "y", Type: measure.Int64}}}
	for _, e := range []measure.Envelope{
		batchOf(t, odd, 0, measure.Sample{at, measure.Float64Value(math.NaN()), measure.Int64Value(math.MinInt64)},
			measure.Sample{measure.TimeValue(time.Unix(0, 1)), measure.Float64Value(math.Inf(-1)), measure.Int64Value(-1)}),
		batchOf(t, &measure.Hops, 0, hopOf("honest", "not-an-address", 4_000_000_000), hopOf("unknown", "10.0.0.1", 0)),
	} {
		if err := hostile.Send(t.Context(), e); err != nil {
			t.Errorf("send %s: %v", e.Stream, err)
		}
	}
	feed(t, honest, 0, 5)
	for sql, want := range map[string]int64{
		"SELECT count(*) FROM numbers WHERE agent = 'honest'":                        50,
		"SELECT count(*) FROM odd WHERE agent = 'hostile'":                           2,
		"SELECT count(*) FROM hops WHERE agent = 'hostile'":                          2,
		"SELECT count(*) FROM hops WHERE agent <> 'hostile'":                         0,
		"SELECT count(*) FROM events WHERE kind = 'honest'":                          0,
		"SELECT count(*) FROM events WHERE agent <> 'server'":                        0,
		"SELECT count(*) FROM audit WHERE agent <> 'server'":                         0,
		"SELECT count(*) FROM information_schema.tables WHERE table_name = 'forged'": 0,
	} {
		if n := number(t, client, sql); n != want {
			t.Errorf("%s: %d, want %d", sql, n, want)
		}
	}
	if a := s.agentOf(t, "honest"); a.Version != "good" || a.State != "connected" && a.State != "away" {
		t.Errorf("the honest agent is now %v", a)
	}
	settled(t, before)
}

// sendDamaged sends damaged batches concurrently. One that is still a valid batch is
// stored under the hostile agent's name.
func sendDamaged(t *testing.T, agent *bus.Agent) {
	t.Helper()
	good := batchOf(t, &numbers, 0, sampleOf(1))
	var senders sync.WaitGroup
	for sender := range 100 {
		senders.Go(func() {
			r := rand.New(rand.NewPCG(3, uint64(sender)))
			for i := range 20 {
				e := good
				e.Sequence, e.Payload = uint64(20*sender+i+1), damage(r, e.Payload)
				if i%2 == 0 {
					e.Checksum = measure.Checksum(e.Payload)
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				err := agent.Send(ctx, e)
				cancel()
				// Damage with a correct checksum can look like the format of a later version.
				if err != nil && !errors.Is(err, bus.ErrRejected) && !(i%2 == 0 && errors.Is(err, bus.ErrUnsupported)) {
					t.Errorf("damaged batch %d: %v", e.Sequence, err)
					return
				}
			}
		})
	}
	senders.Wait()
}

func (s *target) agentOf(t *testing.T, name string) *pillionv1.Agent {
	t.Helper()
	answer, err := s.client(t, s.operator).Agents.GetAgent(t.Context(), &pillionv1.GetAgentRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Agent
}

func sampleOf(n int64) measure.Sample {
	return measure.Sample{measure.TimeValue(time.Now()), measure.Int64Value(n), measure.StringValue("word")}
}

func hopOf(peer, address string, ttl uint32) measure.Sample {
	text := measure.StringValue
	return measure.Sample{
		measure.TimeValue(time.Now()), text("s"), text(peer), text("10.0.0.1"), text(address), text("udp"), measure.Uint32Value(ttl),
		text(address), measure.Int64Value(-5), measure.Uint32Value(0), measure.Uint32Value(math.MaxUint32), measure.BoolValue(true),
	}
}

// lies returns states that the hostile agent reports.
func lies() []string {
	return []string{
		"", "{", "null", "[]", `{"agent":"honest","instance":"two","version":"bad"}`, `{"agent":"hostile","instance":""}`,
		`{"agent":"hostile","instance":"x","tasks":[` + strings.Repeat("{},", 300_000) + `{}]}`,
		`{"agent":"hostile","instance":"x","tasks":[` + strings.Repeat("{},", 1_000_000) + `{}]}`,
		`{"agent":"hostile","instance":"x","clock":{"max_error_ns":NaN}}`, `{"agent":"hostile","instance":"x","revision":-1}`,
		`{"agent":"hostile","instance":"x","spool":{"bytes":-9223372036854775808,"dropped_rows":-1},"clock":{"max_error_ns":-1}}`,
		`{"agent":"hostile","instance":"x","kernel":"` + strings.Repeat("k", 900_000) + `"}`,
		`{"agent":"hostile","instance":"x","labels":{"../../etc":"passwd"}}`,
		`{"agent":"hostile","instance":"x","interfaces":[{"name":"../../x","mtu":-1,"addresses":["999.0.0.1/99"]}]}`,
		`{"agent":"hostile","instance":"x","time":"0000-01-01T00:00:00Z","started":"9999-12-31T00:00:00Z"}`,
		`{"agent":"hostile","instance":"x","tasks":[{"session":"s","role":"source","counters":{"a":18446744073709551615}}]}`,
		strings.Repeat("[", 1<<19),
	}
}

// serveLies answers control requests with invalid replies.
func serveLies(t *testing.T, agent *bus.Agent) {
	t.Helper()
	answers := []string{"", "{", `{"tasks":null,"doctor":[{"level":"\u0000"}]}`, strings.Repeat("x", 5<<20), `{"trace":{"hops":[{"ttl":-1,"address":"x"}]}}`}
	next := make(chan string, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case next <- answers[i%len(answers)]:
			case <-t.Context().Done():
				return
			}
		}
	}()
	if err := agent.Serve(func(context.Context, []byte) ([]byte, error) { return []byte(<-next), nil }); err != nil {
		t.Fatal(err)
	}
}

// TestAgentsStayOnTheirSubjects: NATS itself confines agents with a valid certificate.
func TestAgentsStayOnTheirSubjects(t *testing.T) {
	s := start(t, t.TempDir()+"/data")
	s.enrol(t, "honest")
	config := s.enrol(t, "hostile").Clone()
	config.ServerName = "localhost"
	bare, err := net.Dial("tcp", s.welcome.Bus)
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	bare.SetDeadline(time.Now().Add(patience))
	if _, err := bare.Read(make([]byte, 8192)); err != nil {
		t.Fatal(err)
	}
	conn := tls.Client(bare, config)
	said := bufio.NewReader(conn)
	// ask sends a line and returns what the server sends up to its PONG.
	ask := func(line string) string {
		t.Helper()
		if _, err := fmt.Fprintf(conn, "%s\r\nPING\r\n", line); err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for {
			text, err := said.ReadString('\n')
			if err != nil {
				t.Fatalf("%s: %v after %q", line, err, all.String())
			}
			if strings.HasPrefix(text, "PONG") {
				return all.String()
			}
			all.WriteString(text)
		}
	}
	ask(`CONNECT {"verbose":false,"name":"hostile x","lang":"go","version":"1","protocol":1,"headers":true,"no_responders":true}`)
	for i, row := range []struct {
		line    string
		allowed bool
	}{
		{"PUB pillion.state.hostile 2\r\n{}", true},
		{"PUB pillion.state.honest 2\r\n{}", false},
		{"PUB pillion.data.honest.flows 1\r\nx", false},
		{"PUB pillion.control.honest 1\r\nx", false},
		{"PUB pillion.pulse.honest 1\r\nx", false},
		{"PUB pillion.pulse.hostile 1\r\nx", false},
		{"PUB _INBOX._server.x 1\r\nx", false},
		{"PUB _INBOX.honest.x 1\r\nx", false},
		{"PUB pillion.welcome.1 1\r\nx", false},
		{"PUB $SYS.REQ.SERVER.PING 1\r\nx", false},
		{"SUB pillion.control.hostile %d", true},
		{"SUB pillion.control.honest %d", false},
		{"SUB pillion.data.*.* %d", false},
		{"SUB pillion.state.> %d", false},
		{"SUB pillion.> %d", false},
		{"SUB > %d", false},
		{"SUB _INBOX.> %d", false},
		{"SUB _INBOX.honest.> %d", false},
		{"SUB $SYS.> %d", false},
	} {
		line := strings.ReplaceAll(row.line, "%d", fmt.Sprint(i))
		if refused := strings.Contains(ask(line), "Permissions Violation"); refused == row.allowed {
			t.Errorf("%q: refused %v", line, refused)
		}
	}
}
