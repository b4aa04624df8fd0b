package validation

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pillion.dev/probe/source"
	"pillion.dev/session"
	"pillion.dev/wire"
)

// TestStates: what a sequence of results, 10 s apart, says about a path.
func TestStates(t *testing.T) {
	for _, row := range []struct {
		name    string
		results []State
		want    State
	}{
		{"first test passes", []State{Passed}, Passed},
		{"first test fails: another must confirm it", []State{Failed}, Pending},
		{"two tests fail", []State{Failed, Failed}, Failed},
		{"two tests differ", []State{ChecksumFailed, Failed}, Pending},
		{"a fault of the card that is not found again", []State{ChecksumFailed, Passed}, Passed},
		{"no answer at first", []State{Unanswered}, Unanswered},
		{"one failure is not confirmed", []State{Passed, Failed}, Passed},
		{"a confirmed failure", []State{Passed, Failed, Failed}, Failed},
		{"an altered mark", []State{Passed, Altered, Altered}, Altered},
		{"failures with a pass in between", []State{Passed, Failed, Passed, Failed}, Passed},
		{"lost probes do not", []State{Passed, Unanswered, Unanswered, Unanswered}, Passed},
		{"unless for a long time", []State{Passed, Unanswered, Unanswered, Unanswered, Unanswered}, Unanswered},
		{"answers in between", []State{Passed, Unanswered, Unanswered, Unanswered, Passed, Unanswered, Unanswered, Unanswered}, Passed},
		{"a path recovers", []State{Failed, Failed, Passed}, Passed},
		{"a failed path without answers", []State{Failed, Failed, Unanswered}, Unanswered},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := &path{Path: Path{State: Pending}}
			now := time.Now()
			for _, r := range row.results {
				p.take(r, now, refreshLeast)
				now = now.Add(10 * time.Second)
			}
			if p.State != row.want {
				t.Errorf("got %s, want %s", p.State, row.want)
			}
			if n := len(row.results); p.Silent != (p.State == Passed && row.results[n-1] == Unanswered) {
				t.Errorf("silent %t: %s", p.Silent, p.Text())
			}
		})
	}
}

// TestSuspectedPathIsNotMarked: the source stops marking at the first failure, and resumes if
// the next test does not confirm it.
func TestSuspectedPathIsNotMarked(t *testing.T) {
	key := source.Path{Address: netip.MustParseAddr("192.0.2.1"), Encoding: wire.UDP}
	probes := &fakeSource{states: map[source.Path]source.Validation{}}
	var reported []State
	known := &path{Path: Path{Path: key, State: Pending}}
	p := &Prober{source: probes, paths: map[source.Path]*path{key: known}, tests: map[source.Path]*test{}, wake: make(chan struct{}, 1),
		changed: func(path Path) { reported = append(reported, path.State) }}
	p.settled = sync.NewCond(&p.mu)
	for _, row := range []struct {
		result State
		want   source.Validation
	}{{Passed, source.Passed}, {ChecksumFailed, source.Failed}, {Passed, source.Passed}, {Failed, source.Failed}, {Failed, source.Failed}} {
		one := newTest(key, Peer{})
		p.tests[key] = one
		p.settle(one, row.result)
		if got := probes.states[key]; got != row.want {
			t.Errorf("after %s the source has %v, want %v", row.result, got, row.want)
		}
	}
	if !slices.Equal(reported, []State{Passed, Failed}) {
		t.Errorf("reported %v", reported)
	}
}

// TestSilentPathIsReported: a path on which nothing is answered any more is marked, but reported as one that is not
// reachable before the test has ended, once, and when it is again; one on which answers take long is not.
func TestSilentPathIsReported(t *testing.T) {
	key := source.Path{Address: netip.MustParseAddr("192.0.2.1"), Encoding: wire.UDP}
	probes := &fakeSource{states: map[source.Path]source.Validation{}}
	var reported []string
	known := &path{Path: Path{Path: key, State: Pending}}
	p := &Prober{source: probes, paths: map[source.Path]*path{key: known}, tests: map[source.Path]*test{}, wake: make(chan struct{}, 1),
		changed: func(path Path) { reported = append(reported, session.NotReachable.In(path.Text())) }}
	p.settled = sync.NewCond(&p.mu)
	for _, row := range []struct {
		late   bool
		result State
		during int // reports so far
	}{{false, Passed, 0}, {true, Unanswered, 2}, {true, Unanswered, 2}, {false, Passed, 2}, {true, Passed, 4}, {true, Passed, 5}} {
		one := newTest(key, Peer{})
		p.tests[key] = one
		if one.late = row.late; row.late {
			p.report(one)
		}
		if len(reported) != row.during {
			t.Errorf("before %s reported %q", row.result, reported)
		}
		p.settle(one, row.result)
		if got := probes.states[key]; got != source.Passed {
			t.Errorf("after %s the source has %v", row.result, got)
		}
	}
	const silent = "not reachable: path to 192.0.2.1, encoding udp: unanswered: path probes to UDP port 25253 are not answered"
	if want := []string{"", silent, "", silent, ""}; !slices.Equal(reported, want) {
		t.Errorf("reported %q, want %q", reported, want)
	}
}

// TestRetries: a path that fails is tested less and less often, one that passes regularly.
func TestRetries(t *testing.T) {
	now := time.Now()
	for result, intervals := range map[State][]time.Duration{
		Failed: {1, 1, 2, 4, 8, 16, 32, 60, 60}, Unanswered: {1, 2, 4, 8, 10, 10},
	} {
		p := &path{}
		for i, want := range intervals {
			if p.take(result, now, refreshLeast); p.due.Sub(now) != want*time.Second {
				t.Errorf("%s %d: next test after %v, want %v s", result, i, p.due.Sub(now), int(want))
			}
		}
		if p.take(Passed, now, refreshLeast); p.due.Sub(now) != refreshLeast {
			t.Errorf("next test of a path that passed after %v", p.due.Sub(now))
		}
	}
}

// TestDoubt: doubts about an address make the test of its paths due, unless it failed.
func TestDoubt(t *testing.T) {
	due := time.Now().Add(time.Hour)
	doubted, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	p := &Prober{most: source.DefaultPaths, paths: map[source.Path]*path{}, wake: make(chan struct{}, 1)}
	for key, state := range map[source.Path]State{
		{Address: doubted, Encoding: wire.UDPOption}: Passed,
		{Address: doubted, Encoding: wire.UDP}:       Failed,
		{Address: other, Encoding: wire.UDPOption}:   Passed,
	} {
		p.paths[key] = &path{Path: Path{Path: key, State: state}, due: due, sized: due}
	}
	p.Doubt(doubted)
	for key, known := range p.paths {
		want := key.Address == doubted && known.State == Passed
		if due, sized := known.due.Before(due), known.sized.IsZero(); due != want || sized != want {
			t.Errorf("%v, %s: due %v, sized %v", key, known.State, known.due, known.sized)
		}
	}
	select {
	case <-p.wake:
	default:
		t.Error("the tests are not scheduled again")
	}
}

// TestResult: what the answers of a test say.
func TestResult(t *testing.T) {
	for _, row := range []struct {
		name          string
		plain, unread int
		complete      int
		want          State
	}{
		{"none", 0, 0, 0, Unanswered},
		{"one without a mark: the other may be lost", 1, 0, 0, Unanswered},
		{"those without a mark", 2, 0, 0, Failed},
		{"marked ones that no destination read", 3, 1, 0, Altered},
		{"only marked ones that no destination read", 0, 3, 0, Altered},
		{"marked ones with a complete checksum only", 2, 0, 1, ChecksumFailed},
		{"one with a complete checksum: the others may be lost", 0, 0, 1, Unanswered},
	} {
		t.Run(row.name, func(t *testing.T) {
			test := newTest(source.Path{Encoding: wire.UDPOption}, Peer{})
			test.plain, test.unread, test.complete = row.plain, row.unread, row.complete
			if got := test.result(); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

// TestBudget: as many as a second has, and as time passes more.
func TestBudget(t *testing.T) {
	var b budget
	now := time.Now()
	count := func() (n int) {
		for b.take(now, 100) {
			n++
		}
		return n
	}
	if n := count(); n != 100 {
		t.Errorf("%d at first", n)
	}
	if now = now.Add(100 * time.Millisecond); count() != 10 {
		t.Error("not 10 after a tenth of a second")
	}
	if now = now.Add(time.Hour); count() != 100 {
		t.Error("not 100 after an hour")
	}
}

// TestAllowance: what a host asks leaves the answers to others, and so do many hosts up to a limit.
func TestAllowance(t *testing.T) {
	now := time.Now()
	ask := func(a *allowance, from string, n int) (answered int) {
		for range n {
			if a.take(netip.MustParseAddr(from), now) {
				answered++
			}
		}
		return answered
	}
	for try := 0; ; try++ { // two hosts may share a part, in 1 of 1024 cases
		a := &allowance{}
		flood := ask(a, "2001:db8:0:1::1", 20_000) + ask(a, "2001:db8:0:1::2", 10_000) // of one host
		if flood > answersPerSource || flood < answersPerSource-1 {
			t.Fatalf("%d of a flood are answered", flood)
		}
		if n := ask(a, fmt.Sprintf("192.0.2.%d", try), 300); n == 300 {
			break
		} else if try == 4 {
			t.Fatalf("%d questions of another host are answered", n)
		}
	}
	a, total := &allowance{}, 0
	for host := range 100 {
		total += ask(a, fmt.Sprintf("192.0.2.%d", host), 250)
	}
	if total > answersPerSecond || total < answersPerSecond-1 {
		t.Errorf("%d answers to many hosts", total)
	}
}

// TestSizeIsConfirmed: a lower limit than before holds at once, and is reported if the next test finds one.
func TestSizeIsConfirmed(t *testing.T) {
	key := source.Path{Address: netip.MustParseAddr("192.0.2.1"), Encoding: wire.UDP}
	for _, row := range []struct {
		name    string
		before  int
		arrive  []int // in each test; 0: nothing
		limits  []int // that the source is given; 0: none
		reports []int
		known   int
	}{
		{"the largest", 0, []int{1500}, nil, nil, 0},
		{"a limit", 0, []int{1320, 1320}, []int{1320, 1320}, []int{1320}, 1320},
		{"probes lost by chance", 0, []int{1320, 1500}, []int{1320, 0}, nil, 0},
		{"some lost by chance", 0, []int{1320, 1400}, []int{1320, 0, 1400}, []int{1400}, 1400},
		{"less the second time", 0, []int{1400, 1320}, []int{1400, 1400}, []int{1400}, 1400},
		{"no answer the second time", 0, []int{1320, 0}, []int{1320}, nil, 0},
		{"no answer, then the largest", 0, []int{1320, 0, 1500}, []int{1320, 0}, nil, 0},
		{"no answer", 1320, []int{0}, nil, nil, 1320},
		{"a known limit", 1320, []int{1320}, []int{1320}, nil, 1320},
		{"a lower one", 1400, []int{1320, 1320}, []int{1320, 1320}, []int{1320}, 1320},
		{"a lower one by chance", 1400, []int{1320, 1400}, []int{1320, 0, 1400}, nil, 1400},
		{"a known limit that is higher now", 1320, []int{1400}, []int{0, 1400}, []int{1400}, 1400},
		{"a known limit that is gone", 1320, []int{1500}, []int{0}, []int{0}, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				probes := &fakeSource{limits: map[netip.Addr]int{}}
				known := &path{Path: Path{Path: key, State: Passed, MTU: row.before}}
				var reports []int
				p := &Prober{source: probes, paths: map[source.Path]*path{key: known}, sizes: map[source.Path]*sizeTest{}, ending: make(chan struct{}),
					wake: make(chan struct{}, 1), changed: func(path Path) { reports = append(reports, path.MTU) }}
				for n, size := range row.arrive {
					if n == 1 && (time.Until(known.due) != refreshLeast || len(p.wake) == 0) {
						t.Errorf("the next test is due %v", known.due)
					}
					known.sized = time.Time{}
					over := make(chan struct{})
					go func() { p.testSize(key); close(over) }()
					synctest.Wait()
					p.mu.Lock()
					one := p.sizes[key]
					p.mu.Unlock()
					if size != 0 {
						one.arrived(slices.Index(one.sizes, size))
					}
					<-over
				}
				if !slices.Equal(probes.given, row.limits) || !slices.Equal(reports, row.reports) || known.MTU != row.known {
					t.Errorf("limits %v, reports %v, known %d", probes.given, reports, known.MTU)
				}
			})
		})
	}
}

// TestConfirmAfter: only peers of sessions, whose answers Linux does not limit, are tested again at once.
func TestConfirmAfter(t *testing.T) {
	peer, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	p := &Prober{peers: map[netip.Addr]Peer{peer: {Address: peer, Key: &wire.ProbeKey{}}}}
	if p.confirmAfter(peer) != retryFirst || p.confirmAfter(other) != refreshLeast {
		t.Errorf("%v, %v", p.confirmAfter(peer), p.confirmAfter(other))
	}
}

// TestSizes: what the arrival of some sizes says about a path.
func TestSizes(t *testing.T) {
	four, six := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	for _, row := range []struct {
		name    string
		to      netip.Addr
		mtu     int
		arrived []int
		limit   int
		known   bool
	}{
		{"the largest", four, 1500, []int{1500}, 0, true},
		{"the largest, after smaller ones", four, 1500, []int{1280, 1400, 1500}, 0, true},
		{"smaller ones", four, 1500, []int{1280, 1400, 1006}, 1400, true},
		{"none", four, 1500, nil, 0, false},
		{"what retransmissions limit packets to", four, 1500, []int{1280, 1350}, 1350, true},
		{"that with a mark", six, 1500, []int{1280, 1382}, 1382, true},
		{"below what IPv6 permits", six, 1500, []int{1280, 1006}, 1280, true},
		{"the largest that is tested", four, 65536, []int{9000}, 0, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			test := newSizeTest(source.Path{Address: row.to}, Peer{}, row.mtu, 1350, 1382)
			for _, size := range row.arrived {
				test.arrived(slices.Index(test.sizes, size))
			}
			if limit, known := test.limit(); limit != row.limit || known != row.known {
				t.Errorf("%d, %v, want %d, %v; sizes %v", limit, known, row.limit, row.known, test.sizes)
			}
		})
	}
}

// TestSizeReported: an ICMP error has the paths to its address tested again, not too often.
func TestSizeReported(t *testing.T) {
	address, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	later := time.Now().Add(time.Hour)
	for _, row := range []struct {
		name   string
		to     netip.Addr
		state  State
		tested time.Duration // ago
		want   bool
	}{
		{"a path that passed", address, Passed, time.Minute, true},
		{"tested just now", address, Passed, time.Second, false},
		{"a path that failed", address, Failed, time.Minute, false},
		{"another address", other, Passed, time.Minute, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			key := source.Path{Address: row.to, Encoding: wire.UDPOption}
			known := &path{Path: Path{Path: key, State: row.state}, due: later, sized: time.Now().Add(-row.tested)}
			p := &Prober{paths: map[source.Path]*path{key: known}}
			p.sizeReported(address, 1350)
			if known.reported != row.want || (known.held == 1350) != row.want || known.due.Before(later) != row.want {
				t.Errorf("reported %t, due %v", known.reported, known.due)
			}
		})
	}
}

// TestUrgentSizes: a test for which connections wait sends all sizes at once, and ends within half
// a second once some have arrived, or at once when the largest has.
func TestUrgentSizes(t *testing.T) {
	for _, row := range []struct {
		name    string
		arrives int
		most    time.Duration
		limit   int
	}{
		{"the largest", 1500, 100 * time.Millisecond, 0},
		{"the one that the connection sends", 1350, 450 * time.Millisecond, 1350},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &Prober{ending: make(chan struct{})}
				test := newSizeTest(source.Path{Address: netip.MustParseAddr("192.0.2.1"), Encoding: wire.UDP}, Peer{}, 1500, 1350, 1402)
				test.urgent = true
				start := time.Now()
				go func() {
					time.Sleep(50 * time.Millisecond)
					test.arrived(slices.Index(test.sizes, row.arrives))
				}()
				if !p.runSizes(test) || time.Since(start) > row.most {
					t.Errorf("ended after %v", time.Since(start))
				}
				if limit, known := test.limit(); !known || limit != row.limit {
					t.Errorf("limit %d, %t", limit, known)
				}
			})
		})
	}
}
