package live

import (
	"fmt"
	"math"
	"testing"

	"pillion.dev/archive"
)

// TestSites: pairs of sites have the sums of their pairs of hosts from merged histograms, and name the worst one.
func TestSites(t *testing.T) {
	b := newBench(100)
	b.SetSites(map[string]string{"a1": "a", "a2": "a", "b1": "b"})
	lossy := measured(1, "s", "a2", 10, 4096)
	lossy["lost"] = 5
	b.take(t, 1.1, "b1", measured(1, "s", "a1", 10, 1024), lossy, measured(1, "s", "x", 30, 2048))
	b.take(t, 1.1, "a1", measured(1, "s", "a2", 8, 1024))
	b.take(t, 12.1, "b1", measured(12, "s", "a1", 10, 1024), measured(12, "s2", "a1", 4, 1024))
	b.reach(13)
	pairs, _ := b.Sites("")
	var got []string
	for _, p := range pairs {
		got = append(got, fmt.Sprintf("%q>%q %d packets %d lost %d pairs, worst %s>%s", p.Source, p.Destination, p.Packets, p.Lost, p.Pairs, p.Worst.Source, p.Worst.Destination))
	}
	want := []string{`"">"b" 30 packets 1 lost 1 pairs, worst x>b1`, `"a">"a" 8 packets 1 lost 1 pairs, worst a2>a1`, `"a">"b" 30 packets 7 lost 2 pairs, worst a2>b1`}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if d := pairs[2].Delay; d.Count != 30 || d.Quantile(0.5) > 1056 || d.Quantile(0.99) < 4096 {
		t.Errorf("delays of a to b: %d, p50 %v, p99 %v", d.Count, d.Quantile(0.5), d.Quantile(0.99))
	}
	if pairs, _ := b.Sites("s2"); len(pairs) != 1 || pairs[0].Packets != 4 {
		t.Errorf("of one session: %+v", pairs)
	}
	site := func(name string) *string { return &name }
	hosts := b.HostPairs(Scope{Source: site("a"), Destination: site("b")})
	if len(hosts) != 2 || hosts[0].Source != "a1" || hosts[0].Packets != 20 || hosts[1].Source != "a2" || hosts[1].Lost != 5 || math.IsNaN(hosts[1].WorstP99) {
		t.Errorf("pairs of hosts from a to b: %+v", hosts)
	}
	f := &follower{Reader: b.Reader(Scope{Source: site(""), Destination: site("b")}, 60)}
	f.want(t, "hosts without a site", map[int64][]string{0: {"x>b1 30"}})
	f = &follower{Reader: b.Reader(Scope{Source: site("a"), Seen: &archive.Scope{Links: []archive.Link{{Sources: []string{"a1"}, Destinations: []string{"b1"}}}}}, 60)}
	f.want(t, "the site of a host that is not seen itself", map[int64][]string{})
	b.reach(200)
	if pairs, _ := b.Sites(""); len(pairs) != 0 || b.sites.kept.Load() != 0 {
		t.Errorf("later: %+v, kept %d", pairs, b.sites.kept.Load())
	}
}

// TestSitesOfSessions: a pair of hosts that two sessions measure counts once, by the session with more packets.
func TestSitesOfSessions(t *testing.T) {
	b := newBench(100)
	b.SetSites(map[string]string{"a": "x", "b": "y"})
	for second := range 20 {
		end := float64(second) + 1
		b.take(t, end+0.1, "b", measured(end, "less", "a", 10, 1024), measured(end, "more", "a", 100, 1024))
		b.reach(end + 0.5)
	}
	// The first second counts by the session that was seen first.
	if pairs, _ := b.Sites(""); len(pairs) != 1 || pairs[0].Packets != 10+19*100 {
		t.Errorf("got %+v", pairs)
	}
	if pairs, _ := b.Sites("less"); len(pairs) != 1 || pairs[0].Packets != 200 {
		t.Errorf("of one session: %+v", pairs)
	}
}

// TestSitesAbsent: without sites, nothing is kept by site.
func TestSitesAbsent(t *testing.T) {
	b := newBench(100)
	b.SetSites(map[string]string{})
	b.take(t, 1.1, "b", measured(1, "s", "a", 10, 1024))
	b.reach(2)
	if pairs, _ := b.Sites(""); len(pairs) != 0 || b.sites.kept.Load() != 0 {
		t.Errorf("got %+v", pairs)
	}
}
