package pillion

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pillion.dev/api/pillionv1"
)

// soundWay is a way without any fault.
func soundWay() *way {
	host := func(name, peer string) end {
		return end{name: name, connected: true, checks: []*pillionv1.Check{
			{Name: "kernel", Level: "ok", Found: "6.1.0"}, {Name: "disk", Level: "warning", Found: "little space", Advice: "remove files"},
			{Name: "source of web eth0", Level: "warning", Found: "no room: at " + name, Advice: "less"},
			{Name: "peer " + peer + " 10.9.0.2", Level: "ok", Found: "via eth0, path MTU 1500 bytes"},
		}}
	}
	reasons := func(from, to string) []*pillionv1.Reason {
		return []*pillionv1.Reason{
			{Where: "n", Name: "agent", Level: "ok", Found: "connected"}, {Where: "s", Name: "agent", Level: "ok", Found: "connected"},
			{Where: "n and s", Name: "clocks", Level: "ok", Found: "both synchronised"},
			{Where: from + " > " + to, Name: "session", Level: "ok", Found: "web measures it"},
			{Where: from + " > " + to, Name: "source", Level: "warning", Found: "source on " + from + ": no room: at " + from, Advice: "less", Agent: from},
		}
	}
	path := &pillionv1.Path{Address: "10.9.0.2", Reached: true, Hops: []*pillionv1.Hop{{Ttl: 1, Address: "10.0.0.254"}, {Ttl: 2}, {Ttl: 3, Address: "10.9.0.2", RttNs: 1_500_000}}}
	return &way{
		ends:  [2]end{host("n", "s"), host("s", "n")},
		there: direction{from: "n", to: "s", reasons: reasons("n", "s"), paths: []*pillionv1.Path{path}},
		back:  direction{from: "s", to: "n", reasons: reasons("s", "n")},
	}
}

// TestWay: what the server, both hosts and traces find is reported at its place, once.
func TestWay(t *testing.T) {
	w := soundWay()
	w.back.paths, w.back.untraced = []*pillionv1.Path{{Address: "10.9.0.1", Hops: []*pillionv1.Hop{{Ttl: 1}}}}, errors.New("no route")
	var got []string
	for _, k := range w.findings() {
		got = append(got, strings.Join([]string{k.where, k.Name, k.Level, k.Found}, ", "))
		if (k.Level == levelOK) != (k.Advice == "") {
			t.Errorf("%s %s: level %s with advice %q", k.where, k.Name, k.Level, k.Advice)
		}
	}
	want := []string{
		"n, agent, ok, connected", "n, host, ok, 1 check passed", "n, disk, warning, little space",
		"s, agent, ok, connected", "s, host, ok, 1 check passed", "s, disk, warning, little space",
		"n and s, clocks, ok, both synchronised",
		"n > s, route 10.9.0.2, ok, via eth0, path MTU 1500 bytes", "n > s, session, ok, web measures it", "n > s, source, warning, source on n: no room: at n",
		"n > s, path 10.9.0.2, ok, 3 hops: 10.0.0.254, *, 10.9.0.2, RTT 1.50 ms",
		"s > n, route 10.9.0.2, ok, via eth0, path MTU 1500 bytes", "s > n, session, ok, web measures it", "s > n, source, warning, source on s: no room: at s",
		"s > n, path, warning, no route", "s > n, path 10.9.0.1, warning, not traced to the end, 1 hop: *",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
