package validation

import (
	"net/netip"
	"sync"
	"time"

	"pillion.dev/probe/source"
	"pillion.dev/wire"
)

const (
	// rounds of a test; each sends a probe without a mark and one with it.
	rounds = 3
	// plainLeast is how many probes without a mark must be answered if the lack of
	// answers to marked ones is to count.
	plainLeast = 2
)

var (
	// waitRound is how long each round waits for an answer to its marked probe; the last
	// waits longer.
	waitRound = [rounds]time.Duration{150 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond}
	// waitLast is added for long paths as long as nothing at all is answered.
	waitLast = 2 * time.Second
)

// test is one validation of a path.
type test struct {
	late  bool // nothing was answered until all rounds were over
	path  source.Path
	peer  Peer
	token uint64

	mu      sync.Mutex
	foreign bool // some answer was not from the peer
	plain   int  // answered probes without a mark
	unread  int  // answered marked probes whose mark no destination program read intact
	// complete counts answered marked probes whose checksum the kernel computed.
	complete int
	decided  chan struct{}
	once     sync.Once // of closing decided: a marked probe arrived
}

func newTest(path source.Path, peer Peer) *test {
	return &test{path: path, peer: peer, token: randomToken(), decided: make(chan struct{})}
}

// pass ends the test: a marked probe has arrived.
func (t *test) pass() { t.once.Do(func() { close(t.decided) }) }

func (t *test) count(n *int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*n++
}

// silent reports whether there was no answer.
func (t *test) silent() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.plain+t.unread+t.complete == 0 && !t.foreign
}

// result is what the answers say; none about marked probes has decided the test.
func (t *test) result() State {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.unread > 0:
		return Altered
	case t.plain+t.complete >= plainLeast && t.complete > 0:
		return ChecksumFailed
	case t.plain >= plainLeast && t.path.Encoding != proof:
		return Failed
	case t.foreign && t.plain+t.complete == 0:
		return Foreign
	}
	return Unanswered
}

// run sends probes until a marked one has arrived. It returns Pending if the prober is
// closed.
func (p *Prober) run(t *test) State {
	for round := range rounds {
		p.send(t, round)
		if state, over := p.wait(t, waitRound[round]); over {
			return state
		}
	}
	if t.silent() {
		t.late = true
		p.report(t)
		if state, over := p.wait(t, waitLast); over {
			return state
		}
	}
	return t.result()
}

func (p *Prober) wait(t *test, most time.Duration) (State, bool) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-t.decided:
		return Passed, true
	case <-p.ending:
		return Pending, true
	case <-timer.C:
		return "", false
	}
}

// send sends a pair. Its order alternates, since hosts limit the rate of ICMP errors. From
// the second on, a marked probe with a complete checksum follows, to find out whether it is
// the device that fails.
func (p *Prober) send(t *test, round int) {
	six := t.path.Address.Is6()
	marked := channel{six: six, marked: true, encoding: t.path.Encoding}
	probes := []channel{{six: six}, marked}
	if round%2 == 1 {
		probes[0], probes[1] = probes[1], probes[0]
	}
	if round > 0 {
		marked.complete = true
		probes = append(probes, marked)
	}
	if t.path.Encoding == proof {
		probes = []channel{{six: six}}
	}
	for _, c := range probes {
		s := p.sockets[c]
		if s == nil {
			continue
		}
		probe := wire.Probe{Marked: c.marked, Encoding: c.encoding, Round: uint16(round), Token: t.token}
		send := s.send
		if c.complete {
			send = s.sendComplete
		}
		if err := send(t.path.Address, t.peer.message(probe)); err != nil { // counts as lost
			p.log.Debug("send path probe", "to", t.path.Address, "error", err)
		}
	}
}

// answered handles an answer from a responder.
func (p *Prober) answered(c channel, from netip.Addr, probe wire.Probe, answer []byte) {
	if probe.Read == wire.ProbeMarkRead {
		p.sizeArrived(c, from, probe, answer)
	}
	for _, t := range p.testsOf(c, from) {
		switch {
		case probe.Token != t.token || probe.Marked != c.marked:
		case !t.peer.genuine(answer):
			t.disown()
		case t.path.Encoding == proof:
			t.pass()
		case !c.marked:
			t.count(&t.plain)
		case probe.Read == wire.ProbeMarkRead && c.complete:
			t.count(&t.complete)
		case probe.Read == wire.ProbeMarkRead:
			t.pass()
		default:
			t.count(&t.unread)
		}
	}
}

// unreachable handles an ICMP port unreachable that the destination sent about a probe, as
// far as it quotes it. Anyone could have sent it: a peer must answer with its seal.
func (p *Prober) unreachable(c channel, destination netip.Addr, quoted wire.Probe) {
	p.sizeArrived(c, destination, quoted, nil)
	for _, t := range p.testsOf(c, destination) {
		switch {
		case !t.peer.genuine(nil):
		case !c.marked:
			t.count(&t.plain)
		case c.complete:
			t.count(&t.complete)
		default:
			t.pass()
		}
	}
}

// disown records an answer that is not from the peer.
func (t *test) disown() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.foreign = true
}

// testsOf returns the running tests to which an answer on a channel may belong.
func (p *Prober) testsOf(c channel, destination netip.Addr) (tests []*test) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range append(wire.Encodings(), proof) {
		if t := p.tests[source.Path{Address: destination, Encoding: e}]; t != nil && (!c.marked || e == c.encoding) {
			tests = append(tests, t)
		}
	}
	return tests
}
