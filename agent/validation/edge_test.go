package validation

import (
	"maps"
	"net/netip"
	"testing"
	"time"

	"pillion.dev/probe/source"
	"pillion.dev/wire"
)

// fakeSource records what the source is told.
type fakeSource struct {
	Source
	states map[source.Path]source.Validation
	limits map[netip.Addr]int
	given  []int // limits
	used   map[source.Path]bool
}

func (s *fakeSource) SetValidation(path source.Path, state source.Validation) error {
	s.states[path] = state
	return nil
}

func (s *fakeSource) ForgetPath(path source.Path) error {
	delete(s.states, path)
	return nil
}

func (s *fakeSource) LimitPath(address netip.Addr, size int) error {
	s.limits[address], s.given = size, append(s.given, size)
	return nil
}

func (s *fakeSource) MTU() (int, error) { return 1500, nil }

func (s *fakeSource) ProbeOverhead(wire.Encoding) int { return 0 }

func (s *fakeSource) Tagged() bool { return false }

func (s *fakeSource) PathsInUse(time.Duration) (map[source.Path]bool, error) { return s.used, nil }

// TestPathsBehindAnEdge: a host behind an edge, which answers no path probe, has the state and
// the size limit of the path to the edge.
func TestPathsBehindAnEdge(t *testing.T) {
	probes := &fakeSource{states: map[source.Path]source.Validation{}, limits: map[netip.Addr]int{}, used: map[source.Path]bool{}}
	p := &Prober{source: probes, most: source.DefaultPaths, paths: map[source.Path]*path{}, behind: map[source.Path]source.Path{}, wake: make(chan struct{}, 1)}
	path := func(address string) source.Path {
		return source.Path{Address: netip.MustParseAddr(address), Encoding: wire.UDP}
	}
	prefixes := []netip.Prefix{netip.MustParsePrefix("10.2.0.0/16"), netip.MustParsePrefix("2001:db8:b::/48")}
	list := wire.EncodingList{wire.UDP}
	edges := []Peer{
		{Address: netip.MustParseAddr("192.0.2.9"), Agent: "r2", Behind: prefixes, Encodings: list},
		{Address: netip.MustParseAddr("192.0.2.1"), Agent: "r2", Behind: prefixes, Encodings: list},
		{Address: netip.MustParseAddr("10.2.0.1"), Agent: "h", Encodings: list}, // a host with an agent of its own
	}
	p.Expect(edges)
	early, other := path("10.2.0.7"), path("10.2.3.4")
	for address, want := range map[string]bool{
		"10.2.0.7": true, "10.2.0.1": false, "10.3.0.1": false,
		"2001:db8:b::1": false, // the edge has no such address
	} {
		if got := p.follow(path(address)); got != want {
			t.Errorf("%s is behind an edge: %v", address, got)
		}
	}
	p.set(path("192.0.2.1"), Passed)
	p.paths[path("192.0.2.1")].State = Passed
	p.limit(path("192.0.2.1"), 1400)
	p.paths[path("192.0.2.1")].MTU = 1400
	p.follow(other)
	for _, host := range []source.Path{early, other} {
		if probes.states[host] != source.Passed || probes.limits[host.Address] != 1400 {
			t.Errorf("%v: state %v, limit %d", host, probes.states[host], probes.limits[host.Address])
		}
	}
	p.set(path("192.0.2.1"), Failed)
	if probes.states[early] != source.Failed || probes.states[other] != source.Failed {
		t.Errorf("after a failure: %v", probes.states)
	}
	p.swept = time.Time{}
	probes.used[early] = true
	p.forgetUnused()
	if len(p.behind) != 1 || p.behind[early] != path("192.0.2.1") {
		t.Errorf("after a sweep: %v", maps.Collect(maps.All(p.behind)))
	}
	p.Expect(edges[:1])
	if _, known := probes.states[early]; known || len(p.behind) != 0 {
		t.Errorf("the state of another edge stays: %v, %v", probes.states, p.behind)
	}
}
