package runner

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/hang"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/measure"
	"pillion.dev/probe/router"
	"pillion.dev/session"
	"pillion.dev/wire/fivetuple"
)

// forwarder is a router between two hosts, and the rows of its profile.
type forwarder struct {
	t                   *testing.T
	left, router, right string // namespaces
	out                 net.Conn
	in                  *net.UDPConn

	mu   sync.Mutex
	rows map[string][]map[string]measure.Value // by stream and session
}

func newForwarder(t *testing.T) *forwarder {
	t.Helper()
	f := &forwarder{t: t, left: namespace.New(t), router: namespace.New(t), right: namespace.New(t), rows: map[string][]map[string]measure.Value{}}
	for i, host := range []string{f.left, f.right} {
		device := []string{"west", "east"}[i]
		f.run(f.router, "ip link add "+device+" type veth peer name out netns "+host)
		f.run(f.router, fmt.Sprintf("ip addr add 10.98.%d.1/24 dev %s && ip link set %s up", i, device, device))
		f.run(host, fmt.Sprintf("ip addr add 10.98.%d.2/24 dev out && ip link set out up && ip route add default via 10.98.%d.1", i, i))
	}
	f.run(f.router, "sysctl -qw net.ipv4.ip_forward=1")
	var err error
	if err = netns.Do(f.right, func() error {
		f.in, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP("10.98.1.2"), Port: 9000})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.in.Close() })
	if err = netns.Do(f.left, func() error {
		f.out, err = net.Dial("udp", "10.98.1.2:9000")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.out.Close() })
	f.send(1, time.Second) // resolves the neighbours
	return f
}

// run runs a line in a namespace.
func (f *forwarder) run(namespace, line string) {
	f.t.Helper()
	var text []byte
	if err := netns.Do(namespace, func() (err error) {
		text, err = exec.Command("sh", "-c", line).CombinedOutput()
		return err
	}); err != nil {
		f.t.Fatalf("run %q: %v: %s", line, err, text)
	}
}

// send sends packets, and returns how many arrived until some time after the last one.
func (f *forwarder) send(packets int, patience time.Duration) (came int) {
	f.t.Helper()
	buffer := make([]byte, 1000)
	for range packets {
		if _, err := f.out.Write(buffer[:100]); err != nil {
			f.t.Fatal(err)
		}
	}
	for came < packets {
		_ = f.in.SetReadDeadline(time.Now().Add(patience))
		if _, err := f.in.Read(buffer); err != nil {
			break
		}
		came++
	}
	return came
}

// runner returns a Runner in the router's namespace.
func (f *forwarder) runner(own time.Duration) *Runner {
	f.t.Helper()
	options := Options{Sink: f.take, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if own > 0 {
		options.Points = []session.PointTask{{Point: "router", Interval: session.Duration(own), Lease: session.Forever}}
	}
	r := New(options)
	f.t.Cleanup(func() { f.inside(r.Close) })
	return r
}

func (f *forwarder) inside(do func() error) {
	f.t.Helper()
	if err := netns.Do(f.router, do); err != nil {
		f.t.Error(err)
	}
}

// apply applies an assignment and returns the states.
func (f *forwarder) apply(r *Runner, tasks ...session.PointTask) (states []session.TaskState) {
	f.t.Helper()
	f.inside(func() error {
		states = r.Apply(session.Assignment{Revision: 1, Points: tasks}, nil)
		return nil
	})
	return states
}

func (f *forwarder) take(schema *measure.Schema, sample measure.Sample) {
	f.mu.Lock()
	defer f.mu.Unlock()
	row := map[string]measure.Value{}
	for i, field := range schema.Fields {
		row[field.Name] = sample[i]
	}
	key := schema.Name + " " + row["session"].Text()
	f.rows[key] = append(f.rows[key], row)
}

// count is how many rows there are so far.
func (f *forwarder) count(key string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.rows[key])
}

// sum of a column over the rows that match all of column=value.
func (f *forwarder) sum(key, column string, where ...string) (sum uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, row := range f.rows[key] {
		fits := true
		for _, condition := range where {
			name, value, _ := strings.Cut(condition, "=")
			fits = fits && row[name].Text() == value
		}
		if fits {
			sum += row[column].Uint64()
		}
	}
	return sum
}

func routerTask(name, to string) session.PointTask {
	var filters []fivetuple.Filter
	if to != "" {
		filters = []fivetuple.Filter{{Dst: netip.MustParsePrefix(to)}}
	}
	return session.PointTask{
		Session: name, Point: "router", Filters: filters, Interval: session.Duration(time.Second), Lease: session.Duration(time.Minute),
	}
}

// TestRouterRowsAddUp: over all periods, the packets in the rows are the forwarded ones
// that match each session's filter, and the histograms contain them.
func TestRouterRowsAddUp(t *testing.T) {
	f := newForwarder(t)
	r := f.runner(time.Second)
	states := f.apply(r, routerTask("all", ""), routerTask("there", "10.98.1.0/24"), routerTask("nothing", "10.99.0.0/16"))
	if len(states) != 4 {
		t.Fatalf("states %+v", states)
	}
	for _, state := range states {
		if state.Role != "router" || !state.Running || state.Error != "" {
			t.Errorf("state %+v", state)
		}
	}
	sent := uint64(0)
	for deadline := time.Now().Add(hang.Limit); f.count("router_account all") < 3 && time.Now().Before(deadline); {
		sent += uint64(f.send(100, time.Second))
	}
	f.inside(r.Close)
	for _, row := range []struct {
		session string
		want    uint64
	}{{"all", sent}, {"there", sent}, {"", sent}, {"nothing", 0}} {
		for _, stage := range []string{"processing", "transit"} {
			got := f.sum("router "+row.session, "packets", "input=west", "output=east", "stage="+stage)
			if got != row.want {
				t.Errorf("session %q: %d packets in stage %s, want %d", row.session, got, stage, row.want)
			}
		}
		account := "router_account " + row.session
		if got := f.sum(account, "forwarded"); got != row.want {
			t.Errorf("session %q: %d forwarded in the account, want %d", row.session, got, row.want)
		}
		seen := f.sum(account, "seen")
		for _, column := range []string{"forwarded", "dropped", "local", "merged", "lost"} {
			seen -= f.sum(account, column)
		}
		if unexplained := f.sum(account, "unexplained"); seen != 0 || unexplained != 0 {
			t.Errorf("session %q: the account is open by %d, unexplained %d", row.session, int64(seen), unexplained)
		}
	}
	checkQueueSums(t, f.rows["router_queues all"])
	for _, row := range f.rows["router all"] {
		counts := uint64(0)
		for _, n := range row["delay_counts"].List() {
			counts += n
		}
		least, middle, most := row["delay_min_ns"].Int64(), row["delay_p50_ns"].Int64(), row["delay_max_ns"].Int64()
		if counts != row["packets"].Uint64() || least > middle || middle > most || most == 0 {
			t.Errorf("stage %s: %d in buckets of %d, from %d by %d to %d", row["stage"].Text(), counts, row["packets"].Uint64(), least, middle, most)
		}
	}
}

// TestRouterStageOfTBF: the wait in a queue at the output is in the output stage of the
// rows.
func TestRouterStageOfTBF(t *testing.T) { stagesOfTBF(t) }

// stagesOfTBF sends packets through a token bucket, and returns the mean times of the
// stages and the largest queue.
func stagesOfTBF(t *testing.T) (mean map[string]float64, deepest uint64) {
	t.Helper()
	f := newForwarder(t)
	f.run(f.router, "tc qdisc add dev east root tbf rate 1mbit burst 200 limit 100000")
	r := f.runner(0)
	f.apply(r, routerTask("s", ""))
	const packets = 50 // of 142 bytes: 1.136 ms each
	begun := time.Now()
	if came := f.send(packets, 20*time.Second); came != packets {
		t.Fatalf("%d of %d packets arrived", came, packets)
	}
	took := time.Since(begun)
	f.inside(r.Close)
	mean = map[string]float64{}
	for _, row := range f.rows["router s"] {
		mean[row["stage"].Text()] += float64(row["delay_mean_ns"].Int64()*int64(row["packets"].Uint64())) / packets
	}
	left := f.sum("router_queues s", "departures", "interface=east", "side=output")
	for _, row := range f.rows["router_queues s"] {
		if row["interface"].Text() == "east" && row["side"].Text() == "output" {
			deepest = max(deepest, row["depth_max"].Uint64())
		}
	}
	// A kernel may run no hook while process 1 is current; the account counts that.
	lost := f.sum("router_account s", "lost")
	if rows := f.rows["router_account s"]; len(rows) > 0 {
		lost += rows[len(rows)-1]["in_flight"].Uint64()
	}
	if left > packets || left+min(lost, packets/5)+packets/10 < packets || deepest == 0 || deepest > packets {
		t.Errorf("%d packets left the output's queue, which held up to %d, %d lost, of %d", left, deepest, lost, packets)
	}
	// No packet waits longer than the test took, and the wait is not processing time.
	if mean["output_queuing"] <= 0 || mean["transit"] > float64(took) || mean["transit"] < mean["output_queuing"]+mean["processing"] {
		t.Errorf("mean times %v in %v", mean, took)
	}
	return mean, deepest
}

// TestRouterRowsMatchSchemas: a value of its type, or null, for each field.
func TestRouterRowsMatchSchemas(t *testing.T) {
	rows := map[string]int{}
	w := routerRows{session: "s", day: time.Now(), length: time.Second, sink: func(schema *measure.Schema, sample measure.Sample) {
		rows[schema.Name]++
		if len(sample) != len(schema.Fields) {
			t.Fatalf("%s: %d values for %d fields", schema.Name, len(sample), len(schema.Fields))
		}
		for i, field := range schema.Fields {
			if !sample[i].IsNull() && sample[i].Type() != field.Type {
				t.Errorf("%s: %s is %v, want %v", schema.Name, field.Name, sample[i].Type(), field.Type)
			}
		}
	}}
	d := router.Distribution{Count: 2, SumNs: 20_003_000, MinNs: 3000, MaxNs: 20_000_000}
	d.Add(3000)
	d.Add(20_000_000)
	shot := router.Snapshot{
		Pairs:  []router.Pair{{In: router.Interface{Index: 1, Name: "west"}, Stages: [router.Stages]router.Distribution{d}}},
		Queues: []router.Queue{{Interface: router.Interface{Index: 1, Name: "west"}, Input: true, Departures: 2, WaitedNs: 10}, {}},
	}
	w.pairs(&shot)
	w.queues(&shot, nil)
	w.coffee(&router.Break{Start: time.Now(), LastNs: 5, Cause: "irq"})
	w.account(&shot.Account, 1)
	want := map[string]int{"router": 1, "router_queues": 2, "router_breaks": 1, "router_account": 1}
	if !maps.Equal(rows, want) || w.count != 5 {
		t.Errorf("rows %v, want %v", rows, want)
	}
}

// TestRouterLease: without pulses from the server the profile stops, and resumes with the
// next one.
func TestRouterLease(t *testing.T) {
	f := newForwarder(t)
	r := f.runner(0)
	f.apply(r, routerTask("s", ""))
	r.mu.Lock()
	now := present()
	r.now = func() moment { return moment{day: now.day.Add(61 * time.Second), steady: now.steady + 61*time.Second} }
	f.inside(func() error { r.reconcile(); return nil })
	ended := len(r.points) == 0
	r.mu.Unlock()
	states := r.States()
	if !ended || len(states) != 1 || states[0].Running || !strings.Contains(states[0].Error, "no pulse from the server") {
		t.Errorf("after the lease: ended %t, %+v", ended, states)
	}
	r.Pulse(session.Pulse{Revision: 1})
	r.mu.Lock()
	f.inside(func() error { r.reconcile(); return nil })
	r.mu.Unlock()
	if states := r.States(); len(states) != 1 || !states[0].Running {
		t.Errorf("after a pulse: %+v", states)
	}
	if states := f.apply(r); len(states) != 0 || len(r.points) != 0 {
		t.Errorf("without a task: %+v", states)
	}
}

// checkQueueSums compares the counts of queues over all rows: those of one row are read one
// after the other while packets pass.
func checkQueueSums(t *testing.T, rows []map[string]measure.Value) {
	t.Helper()
	type counts struct{ departures, sizes, gaps uint64 }
	sums := map[string]counts{}
	for _, row := range rows {
		if len(row["sizes"].List()) != len(row["size_counts"].List()) || len(row["gap_arrivals"].List()) != len(row["gap_counts"].List()) {
			t.Errorf("values and counts of %v differ in number", row)
		}
		queue := row["side"].Text() + " " + row["interface"].Text()
		sum := sums[queue]
		sum.departures += row["departures"].Uint64()
		for _, n := range row["size_counts"].List() {
			sum.sizes += n
		}
		for _, n := range row["gap_counts"].List() {
			sum.gaps += n
		}
		sums[queue] = sum
	}
	for queue, sum := range sums {
		if sum.sizes != sum.gaps || sum.sizes > sum.departures {
			t.Errorf("%s: %d left, %d in lengths, %d in arrivals between departures", queue, sum.departures, sum.sizes, sum.gaps)
		}
	}
}
