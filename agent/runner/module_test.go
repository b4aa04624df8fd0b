package runner

import (
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	vishnetns "github.com/vishvananda/netns"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/hang"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/measure"
	"pillion.dev/session"
)

const (
	sourceAddress      = "10.99.0.1"
	destinationAddress = "10.99.0.2"
)

// road is a source host and a destination host, and what the latter gave out.
type road struct {
	t          *testing.T
	from, to   string // namespaces
	out        net.Conn
	arrivals   *net.UDPConn
	offered    uint64
	mu         sync.Mutex
	flows      map[string]map[string]uint64 // sums by session and column
	rows       map[string]int
	sequences  map[string]map[uint64]int // records by session
	positions  map[string]int
	recordSeat map[string]int
}

func newRoad(t *testing.T) *road {
	t.Helper()
	r := &road{
		t: t, from: namespace.New(t), to: namespace.New(t), flows: map[string]map[string]uint64{}, rows: map[string]int{},
		sequences: map[string]map[uint64]int{}, positions: places(&measure.Flows), recordSeat: places(&measure.Packets),
	}
	peer, err := vishnetns.GetFromPath(netns.Path(r.to))
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	in := func(namespace string, f func() error) {
		t.Helper()
		if err := netns.Do(namespace, f); err != nil {
			t.Fatalf("in %s: %v", namespace, err)
		}
	}
	in(r.from, func() error {
		attributes := netlink.NewLinkAttrs()
		attributes.Name = "out"
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: "in", PeerNamespace: netlink.NsFd(peer)})
	})
	in(r.to, func() error { return address("in", destinationAddress) })
	in(r.from, func() error { return address("out", sourceAddress) })
	in(r.to, func() (err error) {
		r.arrivals, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(destinationAddress), Port: 9000})
		return err
	})
	t.Cleanup(func() { r.arrivals.Close() })
	in(r.from, func() (err error) {
		r.out, err = net.Dial("udp", destinationAddress+":9000")
		return err
	})
	t.Cleanup(func() { r.out.Close() })
	return r
}

func places(schema *measure.Schema) map[string]int {
	at := map[string]int{}
	for i, f := range schema.Fields {
		at[f.Name] = i
	}
	return at
}

func address(device, text string) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	prefix, err := netlink.ParseAddr(text + "/24")
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(link, prefix); err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

// marks starts a source that marks all packets to the destination.
func (r *road) marks() {
	r.t.Helper()
	source := New(Options{Sink: r.take, Log: slog.New(slog.DiscardHandler)})
	err := netns.Do(r.from, func() error {
		states := source.Apply(session.Assignment{Revision: 1, Sources: []session.SourceTask{{
			Session: "s", Peers: []session.Peer{{Agent: "b", Addresses: []string{destinationAddress}}},
			Modules: []string{"delay", "loss"}, Encoding: "udp", Family: "any", Lease: session.Duration(time.Hour), // nothing renews it
		}}}, nil)
		if len(states) != 1 || states[0].Error != "" {
			return fmt.Errorf("source: %+v", states)
		}
		source.Pulse(session.Pulse{Alive: map[string][]string{"s": {"b"}}})
		return nil
	})
	r.t.Cleanup(func() {
		if err := netns.Do(r.from, source.Close); err != nil {
			r.t.Error(err)
		}
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// task reads for a session of that name.
func task(name string, records bool, interval time.Duration) session.DestinationTask {
	return session.DestinationTask{
		Session: name, Device: "in", Peers: []session.Peer{{Agent: "a", Addresses: []string{sourceAddress}}},
		Interval: session.Duration(interval), Granularity: "flow", Records: records,
	}
}

// send sends packets; when it returns they have come, and so were read.
func (r *road) send(packets int) {
	r.t.Helper()
	buffer := make([]byte, 40)
	for range packets {
		if _, err := r.out.Write(buffer); err != nil {
			r.t.Fatal(err)
		}
		_ = r.arrivals.SetReadDeadline(time.Now().Add(hang.Limit))
		if _, err := r.arrivals.Read(buffer); err != nil {
			r.t.Fatal(err)
		}
		r.offered++
	}
}

// take adds rows up.
func (r *road) take(schema *measure.Schema, sample measure.Sample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if schema.Name == measure.Packets.Name {
		name := sample[r.recordSeat["session"]].Text()
		if r.sequences[name] == nil {
			r.sequences[name] = map[uint64]int{}
		}
		r.sequences[name][sample[r.recordSeat["sequence"]].Uint64()]++
		return
	}
	name := sample[r.positions["session"]].Text()
	if r.flows[name] == nil {
		r.flows[name] = map[string]uint64{}
	}
	for _, column := range []string{"packets", "expected", "lost", "duplicated", "late"} {
		r.flows[name][column] += sample[r.positions[column]].Uint64()
	}
	r.flows[name]["interval_ns"] += uint64(sample[r.positions["interval_ns"]].Int64())
	r.rows[name]++
}

// holds checks the sums of a session: every packet in one row, and in one record.
func (r *road) holds(name string, packets uint64, records bool) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	sums := r.flows[name]
	for column, want := range map[string]uint64{"packets": packets, "expected": packets, "lost": 0, "duplicated": 0, "late": 0} {
		if sums[column] != want {
			r.t.Errorf("session %s: %s are %d, want %d", name, column, sums[column], want)
		}
	}
	if !records {
		packets = 0 // of these
	}
	if got := uint64(len(r.sequences[name])); got != packets {
		r.t.Errorf("session %s: %d records, want %d", name, got, packets)
	}
	for sequence, times := range r.sequences[name] {
		if times != 1 {
			r.t.Errorf("session %s: packet %d has %d records", name, sequence, times)
		}
	}
}

// TestClockStepsLoseNothing: whatever the clock of day does, each packet is in one row,
// and the rows' lengths add up to the time that passed.
func TestClockStepsLoseNothing(t *testing.T) {
	const interval = time.Second
	for _, test := range []struct {
		name  string
		steps []time.Duration // one a second
		rows  int             // at least; one more for the rest
	}{
		{"none", []time.Duration{0, 0, 0, 0}, 4},
		{"forward", []time.Duration{0, 10 * time.Second, 0, 0}, 4},
		{"back", []time.Duration{0, -10 * time.Second, 0, 0}, 4},
		{"back within a period", []time.Duration{0, -300 * time.Millisecond, 0, 0}, 4},
		{"to and fro", []time.Duration{10 * time.Second, -10 * time.Second, -10 * time.Second, 10 * time.Second}, 4},
		{"forward by a day", []time.Duration{0, 24 * time.Hour, 0, 0}, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRoad(t)
			var lock sync.Mutex
			now := moment{day: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
			clock := func() moment {
				lock.Lock()
				defer lock.Unlock()
				return now
			}
			pass := func(time, step time.Duration) {
				lock.Lock()
				defer lock.Unlock()
				now.day, now.steady = now.day.Add(time+step), now.steady+time
			}
			d := r.open(clock, task("s", true, interval))
			d.start()
			r.marks()
			for _, step := range test.steps {
				r.send(50)
				pass(interval, step)
				d.mu.Lock()
				d.read(d.now())
				d.mu.Unlock()
			}
			r.send(50)
			pass(interval/2, 0)
			if err := netns.Do(r.to, d.close); err != nil {
				t.Fatal(err)
			}
			r.holds("s", r.offered, true)
			if r.rows["s"] < test.rows+1 {
				t.Errorf("%d rows, want %d", r.rows["s"], test.rows+1)
			}
			if passed := uint64(now.steady); r.flows["s"]["interval_ns"] != passed {
				t.Errorf("rows are of %d ns, %d passed", r.flows["s"]["interval_ns"], passed)
			}
		})
	}
}

// open attaches a destination for the task; nothing is read yet.
func (r *road) open(clock func() moment, task session.DestinationTask) *deviceDestination {
	r.t.Helper()
	var d *deviceDestination
	err := netns.Do(r.to, func() error {
		placed, faults := place(session.Assignment{Destinations: []session.DestinationTask{task}})
		if len(faults) != 0 {
			return fmt.Errorf("%+v", faults)
		}
		var err error
		d, err = openDestination("in", placed["in"].destinations, Options{Sink: r.take, Log: slog.New(slog.DiscardHandler)}, clock)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

// TestPacketsBeforeTheFirstReading: packets that arrive between attaching the program
// and assigning its first subscriber are in the subscriber's flows, as they are in its records.
func TestPacketsBeforeTheFirstReading(t *testing.T) {
	r := newRoad(t)
	r.marks()
	d := r.open(present, task("s", true, time.Hour))
	subscribers := d.subscribers
	d.subscribers, d.tick = nil, make(chan time.Duration, 1)
	r.send(20)
	d.assign([]destinationTask{subscribers[0].task})
	d.start()
	r.send(30)
	if err := netns.Do(r.to, d.close); err != nil {
		t.Fatal(err)
	}
	r.holds("s", r.offered, true)
}

// TestSessionsStartAndStop: each session has the packets of its time, although the program
// below is replaced as records are asked for.
func TestSessionsStartAndStop(t *testing.T) {
	r := newRoad(t)
	runner := New(Options{Sink: r.take, Log: slog.New(slog.DiscardHandler)})
	apply := func(tasks ...session.DestinationTask) {
		t.Helper()
		if err := netns.Do(r.to, func() error {
			for _, state := range runner.Apply(session.Assignment{Destinations: tasks}, nil) {
				if state.Error != "" {
					return fmt.Errorf("%+v", state)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	long, brief, other := task("long", false, time.Hour), task("brief", true, time.Hour), task("other", false, time.Hour)
	apply(long)
	r.marks()
	r.send(100)
	apply(long, brief)
	r.send(200)
	apply(long, other)
	r.send(300)
	apply(long)
	r.send(50)
	apply()
	r.holds("long", 650, false)
	r.holds("brief", 200, true)
	r.holds("other", 300, false)
}
