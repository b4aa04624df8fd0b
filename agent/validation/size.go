package validation

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"

	"pillion.dev/probe/source"
	"pillion.dev/wire"
)

// sizeEvery is how often the size of packets on a path that passes is tested.
const sizeEvery = time.Minute

// plateaus are path MTUs to expect: from RFC 1191, section 7.1, and of tunnels.
var plateaus = []int{9000, 4352, 2002, 1500, 1492, 1480, 1460, 1440, 1420, 1400, 1380, 1360, 1320, 1280, 1006, 576}

// sizeMax is the largest packet that is tested.
const sizeMax = 9000

// sizeTest finds the largest marked packet that arrives, where routers do not report it: a
// packet may have the size of such a path before it is marked, and is lost once it is. As in
// packetization layer path MTU discovery (RFC 8899), only what arrives counts.
type sizeTest struct {
	path  source.Path
	peer  Peer
	token uint64
	sizes []int // of IP packets, the largest first
	// urgent: connections may be waiting for the result.
	urgent bool

	mu      sync.Mutex
	best    int           // index of the largest that arrived; len(sizes): none
	largest chan struct{} // closed when the first of sizes has arrived
}

// newSizeTest tests the plateaus up to the MTU, and other sizes.
func newSizeTest(path source.Path, peer Peer, mtu int, others ...int) *sizeTest {
	mtu = min(mtu, sizeMax)
	sizes := []int{mtu}
	least := 68 // RFC 791
	if path.Address.Is6() {
		least = 1280 // RFC 8200
	}
	for _, size := range append(others, plateaus...) {
		if size < mtu && size >= least {
			sizes = append(sizes, size)
		}
	}
	slices.SortFunc(sizes, func(a, b int) int { return b - a })
	sizes = slices.Compact(sizes)
	return &sizeTest{path: path, peer: peer, token: randomToken(), sizes: sizes, best: len(sizes), largest: make(chan struct{})}
}

// arrived records the arrival of a probe by its index in sizes.
func (t *sizeTest) arrived(index int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if index < 0 || index >= t.best {
		return
	}
	t.best = index
	if index == 0 {
		close(t.largest)
	}
}

// some reports whether any size has arrived.
func (t *sizeTest) some() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.best < len(t.sizes)
}

// limit returns the size of the largest packet that arrived if larger ones did not.
func (t *sizeTest) limit() (size int, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch t.best {
	case 0:
		return 0, true
	case len(t.sizes):
		return 0, false
	}
	return t.sizes[t.best], true
}

// testSize tests the sizes of a path that has just passed, and has the source limit packets
// to the address if it must. A lower limit than before holds at once, and is reported if the next test confirms it.
func (p *Prober) testSize(key source.Path) {
	if key.Encoding == proof {
		return
	}
	mtu, err := p.source.MTU()
	if err != nil {
		p.log.Warn("test sizes of packets", "error", err)
		return
	}
	p.mu.Lock()
	known := p.paths[key]
	if known == nil || known.State != Passed || time.Since(known.sized) < sizeEvery || p.sizes[key] != nil {
		p.mu.Unlock()
		return
	}
	known.sized = time.Now()
	reported, held := known.reported, known.held
	known.reported, known.held = false, 0
	t := newSizeTest(key, p.peers[key.Address], mtu, held, held+p.source.ProbeOverhead(key.Encoding), known.doubted)
	t.urgent = reported
	p.sizes[key] = t
	p.mu.Unlock()
	completed := p.runSizes(t)
	size, found := t.limit()
	p.mu.Lock()
	delete(p.sizes, key)
	known = p.paths[key]
	if known == nil || !completed || !found {
		p.mu.Unlock()
		return
	}
	before := known.MTU
	p.limitSize(known, size, reported)
	after := known.Path
	p.mu.Unlock()
	if after.MTU != before {
		p.changed(after)
	}
}

// limitSize has the source limit packets on a path to the size that arrived; 0: the largest has. A limit is renewed before it
// expires. The caller holds the lock.
func (p *Prober) limitSize(known *path, size int, reported bool) {
	before, doubted := known.MTU, known.doubted
	if known.doubted = 0; size != 0 && doubted == 0 && (before == 0 || size < before) { // another test must confirm it
		known.doubted, known.reported, known.sized, known.due = size, reported, time.Time{}, time.Now().Add(p.confirmAfter(known.Address))
		p.reschedule()
	} else {
		if size != 0 {
			size = max(size, doubted) // whatever has arrived once
		}
		known.MTU = size
	}
	if before = cmp.Or(doubted, before); reported || before != 0 && (size == 0 || size > before) {
		p.limit(known.Path.Path, 0) // what was reported does not count any more, only what arrived
	}
	if size != 0 {
		p.limit(known.Path.Path, size)
	}
}

// confirmAfter is how long after a test of sizes the next one follows. A host without Pillion answers with ICMP errors, of
// which Linux sends a few at once, and then one a second.
func (p *Prober) confirmAfter(address netip.Addr) time.Duration {
	if p.peers[address].Key == nil {
		return refreshLeast
	}
	return retryFirst
}

// runSizes sends the largest size first, and all if it does not arrive; all at once if the test
// is urgent, for two rounds unless nothing arrives. It returns false if the prober is closed.
func (p *Prober) runSizes(t *sizeTest) bool {
	counts := []int{1, len(t.sizes)}
	if t.urgent {
		counts = counts[1:]
	}
	for _, count := range counts {
		for round := range rounds {
			if t.urgent && round == 2 && t.some() {
				return true
			}
			for i := range count {
				p.sendSize(t, i)
			}
			timer := time.NewTimer(waitRound[round])
			select {
			case <-t.largest:
				timer.Stop()
				return true
			case <-p.ending:
				timer.Stop()
				return false
			case <-timer.C:
			}
		}
	}
	return true
}

// sendSize sends a marked probe that makes an IP packet of this size.
func (p *Prober) sendSize(t *sizeTest, index int) {
	six := t.path.Address.Is6()
	s := p.sockets[channel{six: six, marked: true, encoding: t.path.Encoding}]
	if s == nil {
		return
	}
	headers := 20 + 8
	if six {
		headers = 40 + 8
	}
	length := (t.sizes[index] - headers - p.source.ProbeOverhead(t.path.Encoding)) &^ 1 // UDP options pad odd lengths
	probe := wire.Probe{Marked: true, Encoding: t.path.Encoding, Round: sizeRounds + uint16(index), Token: t.token}
	message := t.peer.message(probe)
	if length < len(message) {
		return
	}
	if err := s.send(t.path.Address, append(message, make([]byte, length-len(message))...)); err != nil { // counts as lost
		p.log.Debug("send path probe", "to", t.path.Address, "size", t.sizes[index], "error", err)
	}
}

// sizeRounds is the number of the pair in probes of the largest size; smaller ones follow.
const sizeRounds = rounds

// sizeArrived handles what answers a marked probe.
func (p *Prober) sizeArrived(c channel, from netip.Addr, probe wire.Probe, answer []byte) {
	p.mu.Lock()
	t := p.sizes[source.Path{Address: from, Encoding: c.encoding}]
	p.mu.Unlock()
	if t != nil && c.marked && probe.Token == t.token && t.peer.genuine(answer) {
		t.arrived(int(probe.Round) - sizeRounds)
	}
}

// reportedEvery bounds how often ICMP errors have sizes tested, since anybody can send some.
const reportedEvery = 5 * time.Second

// sizeReported has the sizes of the paths to an address tested again: an ICMP error claims
// that packets are too big, or retransmissions limit them to the size held. What the test finds
// counts, not the claim. The caller holds the lock.
func (p *Prober) sizeReported(address netip.Addr, held int) {
	for key, known := range p.paths {
		if key.Address == address && known.State == Passed && time.Since(known.sized) >= reportedEvery {
			known.due, known.sized, known.reported, known.held = time.Now(), time.Time{}, true, held
		}
	}
}

// forgetSizes has the sizes of all paths tested again. The caller holds the lock.
func (p *Prober) forgetSizes() {
	for _, known := range p.paths {
		known.sized = time.Time{}
	}
}
