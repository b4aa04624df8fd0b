// Package validation finds out whether packets with a mark arrive at a destination, before
// a source marks packets to it and again while it does: path validation, as RFC 9000,
// section 13.4.2, has it for ECN.
//
// A Prober sends pairs of small UDP datagrams, one of which the source marks. Either is
// answered by a Responder, which an agent with a destination runs, or by an ICMP port
// unreachable of a host without Pillion. An encoding fails if datagrams without a mark are
// answered and marked ones are not, or if the mark does not arrive intact. Probes leave their
// checksum to the device, as other datagrams do; if only those with a checksum that the
// kernel computed arrive, the device computes it incorrectly. Where
// neither is answered nothing is known, and results hold for the port of the probes only:
// routers may treat other ports differently.
package validation

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"pillion.dev/probe/source"
	"pillion.dev/wire"
)

// State is what is known about a path.
type State string

// The states of a path.
const (
	// Pending: the first test is not over.
	Pending State = "pending"
	// Passed: marked packets arrive.
	Passed State = "passed"
	// Failed: packets arrive, but not with a mark.
	Failed State = "failed"
	// Altered: packets arrive, and their mark is missing or damaged.
	Altered State = "altered"
	// ChecksumFailed: packets arrive with a mark unless the device computes their checksum.
	ChecksumFailed State = "checksum"
	// Unanswered: nothing is answered, marked or not.
	Unanswered State = "unanswered"
	// Foreign: probes are answered, but not by the agent that is said to have the address.
	Foreign State = "foreign"
)

// Text says what the state means.
func (s State) Text() string {
	switch s {
	case Pending:
		return "path validation has not ended yet"
	case Passed:
		return "marked packets arrive"
	case Failed:
		return "path probes without a mark are answered, marked ones are not"
	case Altered:
		return "packets arrive, but their mark is missing, damaged or not read"
	case ChecksumFailed:
		return "marked packets arrive only if the kernel computes their checksum, the network card computes it incorrectly"
	case Foreign:
		return "path probes are answered, but not by the agent that is said to have the address"
	}
	return fmt.Sprintf("path probes to UDP port %d are not answered", wire.ProbePort)
}

// forSource is what a state means for the source.
func (s State) forSource() source.Validation {
	switch s {
	case Passed:
		return source.Passed
	case Failed, Altered, ChecksumFailed:
		return source.Failed
	}
	return source.Unknown
}

// Source is what a Prober needs of a source.
type Source interface {
	NextRequest() (source.Request, error)
	StopRequests() error
	SetValidation(source.Path, source.Validation) error
	ForgetPath(source.Path) error
	LimitPath(address netip.Addr, size int) error
	MTU() (int, error)
	// ProbeOverhead is the number of bytes that a mark adds to a probe.
	ProbeOverhead(wire.Encoding) int
	// Tagged reports whether any marks carry a tag.
	Tagged() bool
	PathsInUse(within time.Duration) (map[source.Path]bool, error)
}

const (
	// refreshLeast is how often a path in use is tested.
	refreshLeast = 10 * time.Second
	// testsPerSecond bounds the traffic of all probes; beyond it paths are tested less often.
	testsPerSecond = 100
	// retryFirst doubles with each failure up to retryMost.
	retryFirst = time.Second
	retryMost  = time.Minute
	// silentTime is how long a path that passed is used although no test is answered any
	// more. That both probes are lost says nothing about marks: during an outage packets
	// are marked, so that their loss is counted.
	silentTime = 30 * time.Second
	// retrySilent bounds the time between tests that are not answered.
	retrySilent = 10 * time.Second
	// unusedEvery is how often unused paths are forgotten, after unusedTime.
	unusedEvery = 30 * time.Second
	unusedTime  = 65 * time.Second
)

// Prober validates the paths of one source.
type Prober struct {
	source  Source
	sockets map[channel]*socket
	changed func(Path)
	proved  func(Proof)
	log     *slog.Logger
	most    int // paths

	mu     sync.Mutex
	peers  map[netip.Addr]Peer // of Expect
	paths  map[source.Path]*path
	behind map[source.Path]source.Path // of hosts behind edges, to those
	tests  map[source.Path]*test
	sizes  map[source.Path]*sizeTest
	budget budget
	swept  time.Time

	wake    chan struct{}
	settled *sync.Cond // a test is over
	ending  chan struct{}
	close   sync.Once
	ended   sync.WaitGroup
}

// path is a Path and when it is tested.
type path struct {
	Path
	due      time.Time
	testing  bool
	kept     bool
	silent   time.Time // first test without an answer since the last that had one
	failures int
	late     bool // the last answers came after all rounds of a test
	// suspected is a fault that one test has found and the next must confirm; the source does not
	// mark meanwhile.
	suspected State
	doubted   int       // bytes; likewise a limit of the size, which the source applies, or 0
	sized     time.Time // last test of sizes
	passed    time.Time // last test that passed
	reported  bool      // an ICMP error or retransmissions say that packets were too big since then
	held      int       // bytes; the size that retransmissions limit packets to, or 0
}

// channel is what the probes of a socket have in common.
type channel struct {
	six      bool
	marked   bool
	encoding wire.Encoding
	// complete: the kernel computes the checksum, not the device.
	complete bool
}

// Options of a Prober.
type Options struct {
	Source Source
	// Device is the index of the source's device.
	Device    int
	Encodings wire.EncodingList
	// Paths is the size of the source's table of paths; 0 means source.DefaultPaths.
	Paths int
	// Changed is called when the state of a path has changed.
	Changed func(Path)
	// Proved is called when the proof of an address has changed, if it is not nil.
	Proved func(Proof)
	Log    *slog.Logger
}

// New starts a Prober in the network namespace of the calling thread.
func New(options Options) (*Prober, error) {
	p := &Prober{
		source: options.Source, changed: options.Changed, proved: options.Proved, log: options.Log, most: cmp.Or(options.Paths, source.DefaultPaths), sockets: map[channel]*socket{},
		paths: map[source.Path]*path{}, behind: map[source.Path]source.Path{}, tests: map[source.Path]*test{},
		sizes: map[source.Path]*sizeTest{}, swept: time.Now(),
		wake: make(chan struct{}, 1), ending: make(chan struct{}),
	}
	p.settled = sync.NewCond(&p.mu)
	if err := p.openSockets(options); err != nil {
		return nil, errors.Join(fmt.Errorf("validate paths: %w", err), p.closeSockets())
	}
	if err := p.watchRoutes(); err != nil {
		return nil, errors.Join(fmt.Errorf("validate paths: watch routes: %w", err), p.closeSockets())
	}
	for c, s := range p.sockets {
		p.ended.Go(func() {
			err := s.receive(func(from netip.Addr, probe wire.Probe, answer []byte) { p.answered(c, from, probe, answer) },
				func(from netip.Addr, quoted wire.Probe) { p.unreachable(c, from, quoted) })
			if err != nil && !errors.Is(err, os.ErrClosed) && !p.isEnding() {
				p.log.Warn("receive answers to path probes", "error", err)
			}
		})
	}
	p.ended.Go(p.listen)
	p.ended.Go(p.schedule)
	return p, nil
}

// tested returns the encodings of the list that paths of a family are tested in: those that
// a path probe, which is a UDP datagram, can be marked in.
func tested(list wire.EncodingList, six bool) (encodings []wire.Encoding) {
	family := wire.ClassIPv4
	if six {
		family = wire.ClassIPv6
	}
	for _, e := range list {
		if e.Applies(family | wire.ClassUDP) {
			encodings = append(encodings, e)
		}
	}
	return encodings
}

// PathsTo returns the paths to an address that are tested: one for each encoding of the
// list that a path probe can be marked in.
func PathsTo(address netip.Addr, list wire.EncodingList) (paths []source.Path) {
	for _, e := range tested(list, address.Is6()) {
		paths = append(paths, source.Path{Address: address, Encoding: e})
	}
	return paths
}

// openSockets opens the sockets of both families; a host may lack one.
func (p *Prober) openSockets(options Options) error {
	var failed error
	for _, six := range []bool{false, true} {
		marks := map[channel]uint32{{six: six}: source.ProbeMark}
		for _, e := range tested(options.Encodings, six) {
			marks[channel{six: six, marked: true, encoding: e}] = source.PathProbeMark(e)
			marks[channel{six: six, marked: true, encoding: e, complete: true}] = source.PathProbeMark(e)
		}
		for c, mark := range marks {
			s, err := openSocket(six, mark, options.Device)
			if err != nil {
				failed = errors.Join(failed, err)
				break
			}
			p.sockets[c] = s
		}
	}
	if len(p.sockets) == 0 {
		return failed
	}
	return nil
}

func (p *Prober) closeSockets() error {
	var err error
	for _, s := range p.sockets {
		err = errors.Join(err, s.Close())
	}
	return err
}

// listen adds the paths that flows want to use.
func (p *Prober) listen() {
	for {
		request, err := p.source.NextRequest()
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil {
			p.log.Warn("read paths to validate", "error", err)
			continue
		}
		p.mu.Lock()
		if request.TooBig {
			if edge, ok := p.edgeOf(request.Address); ok {
				request.Address = edge
			}
			p.sizeReported(request.Address, request.Held)
		} else if p.follow(request.Path) {
			// the path to the edge is tested in its place
		} else if known := p.add(request.Path); known.applied() != Pending { // the source's table was full
			p.set(request.Path, known.applied())
		}
		p.mu.Unlock()
		p.reschedule()
	}
}

// add returns the path, which is tested at once if it is new.
func (p *Prober) add(key source.Path) *path {
	known := p.paths[key]
	if known == nil {
		known = &path{Path: Path{Path: key, State: Pending, Since: time.Now(), Tagged: p.source.Tagged()}}
		if len(p.paths) < p.most {
			p.paths[key] = known
		}
	}
	return known
}

// reschedule wakes schedule, since tests may be due.
func (p *Prober) reschedule() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Await waits until no kept path is pending, or for this time at most.
func (p *Prober) Await(most time.Duration) {
	over := false
	timer := time.AfterFunc(most, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		over = true
		p.settled.Broadcast()
	})
	defer timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !over && p.isPending() {
		p.settled.Wait()
	}
}

// Pending reports whether some expected path or address has not been tested yet.
func (p *Prober) Pending() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isPending()
}

func (p *Prober) isEnding() bool {
	select {
	case <-p.ending:
		return true
	default:
		return false
	}
}

func (p *Prober) isPending() bool {
	if p.isEnding() {
		return false
	}
	for key, known := range p.paths {
		if known.kept && known.State == Pending && !p.blocked(key) {
			return true
		}
	}
	return false
}

// Recheck tests every path again, since routes or devices have changed.
func (p *Prober) Recheck() {
	p.mu.Lock()
	now := time.Now()
	for _, known := range p.paths {
		known.due = now
	}
	p.forgetSizes()
	p.mu.Unlock()
	p.reschedule()
}

// Doubt tests the paths to an address again that have passed, and the size of packets on
// them, since there are signs that marked packets no longer arrive there.
func (p *Prober) Doubt(address netip.Addr) {
	p.mu.Lock()
	now := time.Now()
	for key, known := range p.paths {
		if key.Address == address && known.State == Passed {
			known.due, known.sized = now, time.Time{}
		}
	}
	p.mu.Unlock()
	p.reschedule()
}

// Paths returns what is known, ordered by destination and encoding.
func (p *Prober) Paths() []Path {
	p.mu.Lock()
	defer p.mu.Unlock()
	var paths []Path
	for key, known := range p.paths {
		if key.Encoding != proof {
			paths = append(paths, known.Path)
		}
	}
	slices.SortFunc(paths, func(a, b Path) int {
		return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.Encoding, b.Encoding))
	})
	return paths
}

// schedule starts the tests that are due, until the prober is closed.
func (p *Prober) schedule() {
	var tests sync.WaitGroup
	defer tests.Wait()
	for {
		p.mu.Lock()
		next := p.startDue(&tests)
		p.forgetUnused()
		p.mu.Unlock()
		timer := time.NewTimer(time.Until(next))
		select {
		case <-p.ending:
			timer.Stop()
			return
		case <-p.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// startDue starts tests as the budget allows, and returns when the next is due.
func (p *Prober) startDue(tests *sync.WaitGroup) time.Time {
	now := time.Now()
	next := now.Add(unusedEvery)
	for key, known := range p.paths {
		switch {
		case known.testing || p.blocked(key):
		case known.due.After(now):
			if known.due.Before(next) {
				next = known.due
			}
		case !p.budget.take(now, testsPerSecond):
			return now.Add(time.Second / testsPerSecond)
		default:
			known.testing = true
			t := newTest(key, p.peers[key.Address])
			p.tests[key] = t
			tests.Go(func() {
				p.settle(t, p.run(t))
				p.testSize(key)
			})
		}
	}
	return next
}

// settle applies the result of a test to the state of its path.
func (p *Prober) settle(t *test, result State) {
	p.mu.Lock()
	if p.tests[t.path] != t { // another agent has the address since
		p.mu.Unlock()
		return
	}
	delete(p.tests, t.path)
	known := p.paths[t.path]
	if known == nil || result == Pending { // forgotten, or interrupted
		p.settled.Broadcast()
		p.mu.Unlock()
		return
	}
	before, applied := known.Found(), known.applied()
	known.take(result, time.Now(), p.refresh())
	known.late = t.late && (result == Passed || known.late)
	after := known.Path
	if now := known.applied(); now != applied && t.path.Encoding != proof {
		p.set(t.path, now)
	}
	p.settled.Broadcast()
	p.mu.Unlock()
	p.reschedule()
	if after.Found() != before {
		p.notify(after)
	}
}

// report says soon that nothing is answered on a path that passed.
func (p *Prober) report(t *test) {
	p.mu.Lock()
	known := p.paths[t.path]
	if known == nil || p.tests[t.path] != t || known.State != Passed || known.Silent || known.late || t.path.Encoding == proof {
		p.mu.Unlock()
		return
	}
	known.Silent = true
	after := known.Path
	p.mu.Unlock()
	p.notify(after)
}

// refresh is how long a result holds.
func (p *Prober) refresh() time.Duration {
	return max(refreshLeast, time.Duration(len(p.paths))*2*time.Second/testsPerSecond)
}

// applied is the state that the source acts on.
func (known *path) applied() State { return cmp.Or(known.suspected, known.State) }

// isFault reports whether a state blames the path or a device.
func (s State) isFault() bool { return s.forSource() == source.Failed }

// take decides about the state, and when the path is tested again.
func (known *path) take(result State, now time.Time, refresh time.Duration) {
	known.testing = false
	before := known.State
	if result != Unanswered {
		known.silent = time.Time{}
	} else if known.silent.IsZero() {
		known.silent = now
	}
	known.Silent = result == Unanswered && before == Passed && known.Encoding != proof
	suspected := known.suspected
	known.suspected = ""
	switch {
	case result.isFault() && result != suspected && result != before:
		known.suspected, known.due = result, now.Add(retryFirst)
	case result == Passed:
		known.State, known.failures, known.passed = Passed, max(0, known.failures-1), now
		known.due = now.Add(refresh)
	case result == Unanswered && before == Passed && known.tolerates(now, refresh):
		known.due = now.Add(retryFirst)
	default:
		known.Silent = false
		most := retryMost
		if result == Unanswered || result == Foreign {
			most = retrySilent
		}
		known.State = result
		known.due = now.Add(min(retryFirst<<min(known.failures, 10), most))
		known.failures++
	}
	if known.State != before {
		known.Since = now
	}
}

// tolerates reports whether a path that passed is used although no test is answered.
func (known *path) tolerates(now time.Time, refresh time.Duration) bool {
	if known.Encoding == proof {
		return now.Sub(known.passed) < max(ProofLife, 3*refresh)
	}
	return now.Sub(known.silent) < silentTime
}

// forgetUnused stops tests of paths that no flow uses.
func (p *Prober) forgetUnused() {
	if time.Since(p.swept) < unusedEvery {
		return
	}
	p.swept = time.Now()
	used, err := p.source.PathsInUse(unusedTime)
	if err != nil {
		p.log.Warn("list paths in use", "error", err)
		return
	}
	p.forgetBehind(func(path source.Path) bool { return used[path] })
	for key, known := range p.paths {
		if used[key] || known.kept || known.testing || time.Since(known.Since) < unusedTime {
			continue
		}
		delete(p.paths, key)
		if err := p.source.ForgetPath(key); err != nil {
			p.log.Warn("forget path", "error", err)
		}
	}
}

// randomToken returns an unpredictable token.
func randomToken() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.NativeEndian.Uint64(b[:])
}

// Close stops the tests. The source keeps its last validations.
func (p *Prober) Close() error {
	if p == nil {
		return nil
	}
	var err error
	p.close.Do(func() {
		close(p.ending)
		p.mu.Lock()
		p.settled.Broadcast()
		p.mu.Unlock()
		err = errors.Join(p.source.StopRequests(), p.closeSockets())
		p.ended.Wait()
	})
	return err
}
