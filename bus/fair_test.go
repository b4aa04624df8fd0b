package bus

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"pillion.dev/internal/quota"
	"pillion.dev/measure"
)

func delivery(agent string, number, size int) Delivery {
	return Delivery{Agent: agent, Envelope: measure.Envelope{Key: measure.Key{Stream: "s", Sequence: uint64(number)}, Payload: make([]byte, size)}}
}

// TestFloodDoesNotStarveOthers: an agent that keeps the queue full is refused, others are
// queued and their turn comes.
func TestFloodDoesNotStarveOthers(t *testing.T) {
	q := newFairQueue(8<<20, 4<<20)
	refusedOf := map[string]int{}
	put := func(d Delivery) {
		refused, _ := q.put(d)
		for _, one := range refused {
			refusedOf[one.Agent]++
		}
	}
	for n := range 5000 {
		for _, evil := range []string{"evil1", "evil2", "evil3"} {
			put(delivery(evil, n, 10<<10))
		}
		if n%100 == 99 {
			put(delivery(fmt.Sprint("good", n%7), n, 20<<10))
		}
		if w := q.waiting(); w > 8<<20 {
			t.Fatalf("%d bytes are queued", w)
		}
	}
	for name, n := range refusedOf {
		if name[:4] == "good" {
			t.Errorf("%d batches of %s were refused", n, name)
		}
	}
	order := map[string]int{}
	for n := 0; ; n++ {
		d, found := q.pop()
		if !found {
			break
		}
		order[d.Agent] = n
	}
	for n := range 7 {
		if at := order[fmt.Sprint("good", n)]; at > 700 {
			t.Errorf("good%d had to wait for %d batches", n, at)
		}
	}
	if q.waiting() != 0 || len(q.lanes) != 0 {
		t.Errorf("%d bytes are left, %d lanes", q.waiting(), len(q.lanes))
	}
}

// TestQueueKeepsOrder: batches of one agent stay in order, and large ones come through.
func TestQueueKeepsOrder(t *testing.T) {
	q := newFairQueue(100<<20, 100<<20)
	for n := range 10 {
		q.put(delivery("a", n, 7<<20))
		q.put(delivery("b", n, 10))
	}
	next := map[string]uint64{}
	for {
		d, found := q.pop()
		if !found {
			break
		}
		if d.Sequence != next[d.Agent] {
			t.Errorf("%s: %d before %d", d.Agent, d.Sequence, next[d.Agent])
		}
		next[d.Agent]++
	}
	if next["a"] != 10 || next["b"] != 10 {
		t.Errorf("received %v", next)
	}
}

// TestStateFloodDelaysOnlyItself: of an agent that floods states some are dropped, with an
// error; others' states are handled although the handler is slow.
func TestStateFloodDelaysOnlyItself(t *testing.T) {
	handled := map[string]int{}
	s := newStates(4, func(agent string, _ []byte) { handled[agent]++ })
	now := time.Unix(1_800_000_000, 0)
	refused := 0
	for second := range 30 {
		for n := range 1000 {
			if err := s.put("evil", make([]byte, 100), now.Add(time.Duration(n)*time.Millisecond)); err != nil {
				refused++
				if q := quota.Of(err); q == nil || q.Quota != "states" {
					t.Fatal(err)
				}
			}
			if n%500 == 0 {
				if err := s.put(fmt.Sprint("good", n), nil, now); err != nil {
					t.Error(err)
				}
			}
		}
		done := make(chan struct{})
		s.handler = func(agent string, _ []byte) {
			if handled[agent]++; len(s.turns) == 0 {
				close(done)
			}
		}
		s.run(done)
		if handled["good0"] != second+1 || handled["good500"] != second+1 {
			t.Fatalf("second %d: handled %v", second, handled)
		}
		now = now.Add(time.Second)
	}
	if handled["evil"] > 31 || refused < 29_000 {
		t.Errorf("handled %v, refused %d", handled, refused)
	}
	// Large states count by their size.
	large := 0
	for n := range 40 {
		if s.put("large", make([]byte, 1<<20), now.Add(time.Duration(n)*500*time.Millisecond)) == nil {
			large++
		}
	}
	if large > 8 {
		t.Errorf("%d MiB of states were accepted in 20 s", large)
	}
}

// TestFloodingAgentIsSuspended: an agent that ignores refusals loses its connection for a
// while and is told why; others stay connected.
func TestFloodingAgentIsSuspended(t *testing.T) {
	p := newPKI(t)
	e := startEmbedded(t, p)
	refusals := make(chan error, 1)
	s := connectServer(t, ServerOptions{InProcess: e, Exceeded: func(agent string, err error) {
		select {
		case refusals <- fmt.Errorf("%s: %w", agent, err):
		default:
		}
	}})
	if err := s.ServeStates(func(string, []byte) {}); err != nil {
		t.Fatal(err)
	}
	evil, told := dialAgent(t, url(e), "evil", p.agent("evil"))
	good := connectAgent(t, p, e, "good")
	eventually(t, "the agent is told", func() bool {
		for range 1000 {
			_ = evil.Report(make([]byte, 100))
		}
		return told.refusal() != nil
	})
	if reason := told.refusal().Error(); !strings.Contains(reason, "4 state reports per second") || !strings.Contains(reason, "suspended until") {
		t.Errorf("it is told %q", reason)
	}
	if err := <-refusals; quota.Of(err) == nil {
		t.Errorf("reported: %v", err)
	}
	if !good.Connected() || s.Stats().Exceeded == 0 {
		t.Errorf("another agent is connected: %v; counts %+v", good.Connected(), s.Stats())
	}
}

// TestConnectionsPerSource: a source that opens connections without an agent's certificate
// is bounded, and agents stay connected and can connect again.
func TestConnectionsPerSource(t *testing.T) {
	p := newPKI(t)
	exceeded := make(chan string, 1000)
	e := startEmbedded(t, p, func(o *EmbeddedOptions) {
		o.Source = 20
		o.Exceeded = func(source string, err error) {
			if quota.Of(err) != nil {
				select {
				case exceeded <- source:
				default:
				}
			}
		}
	})
	s := connectServer(t, ServerOptions{InProcess: e})
	if err := s.ServeData(func(d Delivery) { d.Answer(nil) }); err != nil {
		t.Fatal(err)
	}
	good := connectAgent(t, p, e, "good")
	var idle []net.Conn
	for range 200 {
		conn, err := net.Dial("tcp", e.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		idle = append(idle, conn)
	}
	eventually(t, "idle connections are closed", func() bool { return e.server.NumClients() <= 20+4 })
	if from := await(t, "the source is reported", exceeded); from != "address 127.0.0.1" {
		t.Errorf("reported %q", from)
	}
	if err := good.Send(within(t), batch(0, "x")); err != nil {
		t.Errorf("a connected agent: %v", err)
	}
	for _, conn := range idle {
		conn.Close()
	}
	for range 100 { // handshakes
		conn, err := tls.Dial("tcp", e.Addr().String(), p.agent("x"))
		if err == nil {
			conn.Close()
		}
	}
	connectAgent(t, p, e, "late")
}
