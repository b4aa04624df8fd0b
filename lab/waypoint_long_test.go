//go:build long

package lab_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/internal/test/figure"
)

// onePath has two routers with agents between two hosts with agents.
const onePath = `
hosts: {a: {}, r1: {forward: true}, r2: {forward: true}, b: {}, noc: {}}
links:
  - {ends: [a, r1]}
  - ends: [r1, r2]
    emulate: {seed: 5, delay: 5ms, queue: 4000}
  - ends: [r2, b]
    emulate: {seed: 6, delay: 3ms, queue: 4000}
  - {ends: [r1, noc]}
  - {ends: [r2, noc]}
service: {server: noc, agents: [a, r1, r2, b], agent_options: [--policy, POLICY]}
`

// TestLongWaypoints: the times of a waypoint are those of its arrivals, the first of two waypoints
// writes, and a waypoint whose agent is killed harms nothing.
func TestLongWaypoints(t *testing.T) {
	b := service(t, strings.Replace(onePath, "POLICY", consent(t), 1))
	t.Run("times", func(t *testing.T) { waypointTimes(t, b) })
	t.Run("two in a row", func(t *testing.T) { waypointsInARow(t, b) })
	t.Run("killed", func(t *testing.T) { waypointKilled(t, b) })
}

// divide starts a session from a to b with these waypoints.
func (b *serviceBed) divide(name string, waypoints ...string) {
	b.t.Helper()
	options := []string{"--from", "a", "--to", "b", "--trace=-1s", "--stamp-every", "1", "--encoding", "native", "--interval", "200ms"}
	for _, waypoint := range waypoints {
		options = append(options, "--waypoint", waypoint)
	}
	b.running(name, options...)
}

// waypointTimes compares both segments of single packets, each a flow of its own, with captures on the three hosts.
func waypointTimes(t *testing.T, b *serviceBed) {
	b.divide("times", "r2")
	captures := []func() map[uint64]time.Time{b.stamps("a", "r1"), b.stamps("r2", "r1"), b.stamps("b", "r2")}
	const count = 300
	in := b.open("a", "b", netip.MustParseAddrPort("[fd77:0:0:3::2]:9000"))
	packets := map[uint16]uint64{} // by port
	for n := range uint64(count) {
		b.do("a", func() error {
			out, err := net.DialUDP("udp", nil, in.in.LocalAddr().(*net.UDPAddr))
			if err != nil {
				return err
			}
			t.Cleanup(func() { out.Close() }) // so that no port is used twice
			packets[out.LocalAddr().(*net.UDPAddr).AddrPort().Port()] = n
			_, err = out.Write(binary.BigEndian.AppendUint64(make([]byte, 0, 16), n)[:8:8])
			return err
		})
		time.Sleep(time.Millisecond) // no longer: with cold caches, 20 us pass between the mark and the capture
	}
	b.reaches(int64(len(packets)), "SELECT count(*) FROM segments WHERE session = 'times' AND count = 1")
	b.stopped("times")
	var at []map[uint64]time.Time
	for _, stop := range captures {
		at = append(at, stop())
	}
	var off [2][]time.Duration
	rows := strings.NewReader(b.pillion("query", "-o", "json", "--limit", "1000",
		`SELECT s.sport AS sport, s.waypoint AS waypoint, s.first_mean_ns AS first, s.second_mean_ns AS second, f.delay_mean_ns AS whole
		FROM segments s JOIN flows f ON s.session = f.session AND s.sport = f.sport WHERE s.session = 'times'`))
	for decoder := json.NewDecoder(rows); decoder.More(); {
		var row struct {
			Sport                uint16
			Waypoint             string
			First, Second, Whole time.Duration
		}
		if err := decoder.Decode(&row); err != nil {
			t.Fatal(err)
		}
		if row.Waypoint != "r2" || row.First+row.Second != row.Whole {
			t.Errorf("row %+v: not of r2, or its segments do not add up", row)
		}
		n := packets[row.Sport]
		off[0] = append(off[0], row.First-at[1][n].Sub(at[0][n]))
		off[1] = append(off[1], row.Second-at[2][n].Sub(at[1][n]))
	}
	for i, list := range off {
		if len(list) != len(packets) {
			t.Fatalf("%d rows of %d packets", len(list), len(packets))
		}
		slices.Sort(list)
		const bound = 20 * time.Microsecond
		median := list[len(list)/2]
		t.Logf("bar: segment %d of %d packets: row minus captures: median %v of %v, from %v to %v", i+1, len(list), median, bound, list[0], list[len(list)-1])
		figure.AtMost(t, fmt.Sprintf("%s, segment %d less captures, median", t.Name(), i+1), microseconds(median), microseconds(bound), "µs")
	}
}

// waypointsInARow: the first waypoint on the path writes, the second one leaves its time. No row can say which.
func waypointsInARow(t *testing.T, b *serviceBed) {
	b.divide("row", "r1", "r2")
	defer b.stopped("row")
	const count = 1000
	b.open("a", "b", netip.MustParseAddrPort("[fd77:0:0:3::2]:9001")).send(count, 2000)
	b.reaches(count, "SELECT sum(count) FROM segments WHERE session = 'row'")
	b.reaches(0, "SELECT count(*) FROM segments WHERE session = 'row' AND waypoint <> ''")
	for waypoint, want := range map[string]uint64{"r1": count, "r2": 0} {
		var n uint64
		eventually(t, waypoint+" to report its marks", func() bool { // counters come with the next heartbeat
			n = b.task("row", waypoint, "destination")["device_amended"]
			return n >= want
		})
		if n != want {
			t.Errorf("%s wrote into %d marks, want %d", waypoint, n, want)
		}
	}
	// Between r1 and b are 8 ms, between a and r1 is nothing.
	if n := b.number("SELECT min(second_min_ns) FROM segments WHERE session = 'row'"); n < 8e6 {
		t.Errorf("the second segment takes %d ns, want 8 ms: from the first waypoint on", n)
	}
	if n := b.number("SELECT min(first_min_ns) FROM segments WHERE session = 'row'"); n > 1e6 {
		t.Errorf("the first segment takes %d ns: not up to the first waypoint", n)
	}
}

// waypointKilled kills the agent of a waypoint under traffic, and starts it again.
func waypointKilled(t *testing.T, b *serviceBed) {
	b.divide("killed", "r2")
	to := netip.MustParseAddr("fd77:0:0:3::2")
	forward := b.carry("a", "b", to, 4<<20)
	back := b.carry("b", "a", netip.MustParseAddr("fd77:0:0:1::1"), 4<<20)
	datagrams := b.open("a", "b", netip.AddrPortFrom(to, 9002))
	stop := datagrams.traffic(200)
	segments := func() int64 {
		return b.number("SELECT sum(count) FROM segments WHERE session = 'killed' AND dport = 9002 AND waypoint = 'r2'")
	}
	grows := func(what string) {
		t.Helper()
		before := segments()
		eventually(t, what, func() bool { return segments() > before+200 })
	}
	grows("segments to be measured")
	for range 2 {
		b.kill("agent-r2")
		forward.midway()
		back.midway()
		time.Sleep(2 * time.Second)
		b.start("agent-r2")
		eventually(t, "the waypoint to be back", func() bool { return b.sessionState("killed") == "running" })
		grows("segments to be measured again")
	}
	stop()
	forward.finish()
	back.finish()
	datagrams.receive(datagrams.next)
	sent := int64(datagrams.next)
	for column, want := range map[string]int64{"packets": sent, "expected": sent, "lost": 0, "duplicated": 0, "reordered": 0} {
		b.reaches(want, "SELECT sum(%s) FROM flows WHERE session = 'killed' AND dport = 9002", column)
	}
	// The program stays when the agent is killed, and the next one takes its place.
	b.reaches(sent, "SELECT sum(count) FROM segments WHERE session = 'killed' AND dport = 9002")
}
