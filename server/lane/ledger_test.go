package lane_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/bus"
	"pillion.dev/bus/bustest"
	"pillion.dev/internal/test/hang"
	"pillion.dev/measure"
	"pillion.dev/server/event"
	"pillion.dev/server/ingest"
	"pillion.dev/server/lane"
)

var words = measure.Schema{Name: "words", Fields: []measure.Field{{Name: "time", Type: measure.Time}, {Name: "word", Type: measure.String}}}

func envelope(t *testing.T, sequence uint64) (made measure.Envelope) {
	t.Helper()
	stream, err := measure.NewStream(&words, measure.StreamOptions{}, func(schema *measure.Schema, record arrow.RecordBatch) (err error) {
		made, err = measure.Encode(measure.Key{Stream: schema.Name, Epoch: 7, Sequence: sequence}, record)
		return err
	})
	if err == nil {
		err = stream.Append(measure.Sample{measure.TimeValue(time.Now()), measure.StringValue("word")})
	}
	if err == nil {
		err = stream.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	made.Oldest = sequence
	return made
}

// process is what one pillion-server has of the bus, ingest and lanes.
type process struct {
	bus    *bus.Server
	ingest *ingest.Ingest
	lanes  *lane.Lanes
}

type quiet struct{}

func (quiet) Event(event.Event)   {}
func (quiet) Change(event.Change) {}

// fleet is a cluster, an archive and several servers.
type fleet struct {
	t       *testing.T
	cluster *bustest.Cluster
	shelf   *shelf
	agents  []string
	next    int
}

const leaseTTL = time.Second

func startFleet(t *testing.T, s *shelf, agents int) *fleet {
	f := &fleet{t: t, shelf: s}
	for i := range agents {
		f.agents = append(f.agents, fmt.Sprintf("agent-%d", i))
	}
	f.cluster = bustest.StartLanes(t, t.TempDir(), f.agents...)
	return f
}

func (f *fleet) start() *process {
	f.t.Helper()
	return f.startWith(leaseTTL)
}

// startWith starts a server whose leases expire after a time that the first one sets.
func (f *fleet) startWith(ttl time.Duration) *process {
	f.t.Helper()
	server, err := bus.ConnectServer(f.t.Context(), bus.ServerOptions{URL: f.cluster.URL(), TLS: f.cluster.ServerTLS()})
	if err == nil {
		err = server.CheckLanes(f.t.Context())
	}
	if err != nil {
		f.t.Fatal(err)
	}
	kv, err := server.KV(f.t.Context(), lane.Bucket, bus.KVOptions{TTL: ttl})
	if err != nil {
		f.t.Fatal(err)
	}
	p := &process{bus: server, ingest: ingest.New(ingest.Options{Archive: f.shelf, Lanes: true, Linger: 5 * time.Millisecond})}
	if err := server.ServeLanes(p.ingest.Accept); err != nil {
		f.t.Fatal(err)
	}
	f.next++
	p.lanes = lane.Start(lane.Options{
		Bus: server, KV: kv, Archive: f.shelf, Ingest: p.ingest, ID: fmt.Sprint("server-", f.next), Own: bus.Lanes + f.next,
		Agents: func() []string { return f.agents }, Events: quiet{},
	})
	return p
}

// kill ends a server as if its process were killed: it says nothing to anybody.
func (p *process) kill() {
	p.bus.Close()
	p.lanes.Close()
	p.ingest.Close()
}

// stop ends a server as on SIGTERM.
func (p *process) stop() {
	p.lanes.Stop()
	p.ingest.Close()
	p.lanes.Close()
	p.bus.Close()
}

// send sends batches of an agent until the context ends, each until it is acknowledged, and
// returns the keys of those that were.
func (f *fleet) send(ctx context.Context, name string, acknowledged *atomic.Uint64) (keys []string) {
	agent, err := bus.ConnectAgent(f.t.Context(), bus.AgentOptions{URL: f.cluster.URL(), TLS: f.cluster.TLS(name), Name: name})
	if err != nil {
		f.t.Error(err)
		return nil
	}
	defer agent.Close()
	for sequence := uint64(0); ctx.Err() == nil; sequence++ {
		e := envelope(f.t, sequence)
		for attempt := 0; ; attempt = min(attempt+1, 8) {
			err := agent.Send(f.t.Context(), e)
			if err == nil {
				acknowledged.Add(1)
				keys = append(keys, fmt.Sprint(name, e.Key))
				break
			}
			if f.t.Context().Err() != nil {
				f.t.Errorf("batch %v: %v", e.Key, err)
				return keys
			}
			select {
			case <-time.After(time.Duration(min(10<<attempt, 200)) * time.Millisecond):
			case <-f.t.Context().Done():
			}
		}
	}
	return keys
}

// run kills and stops servers until enough says so, and returns the number of batches that were
// acknowledged but are not stored.
func (f *fleet) run(enough func(faults int) bool) (acknowledged uint64, lost int) {
	ctx, cancel := context.WithCancel(f.t.Context())
	var sent atomic.Uint64
	var sending sync.WaitGroup
	var mu sync.Mutex
	var keys []string
	for _, name := range f.agents {
		sending.Go(func() {
			mine := f.send(ctx, name, &sent)
			mu.Lock()
			defer mu.Unlock()
			keys = append(keys, mine...)
		})
	}
	servers := []*process{f.start(), f.start(), f.start()}
	for n := 0; !enough(n); n++ {
		before := sent.Load()
		f.until("agents are acknowledged", func() bool { return sent.Load() >= before+uint64(5*len(f.agents)) || enough(n) })
		i := rand.N(len(servers))
		if n%3 == 2 {
			servers[i].stop()
		} else {
			servers[i].kill()
		}
		servers[i] = f.start()
	}
	cancel()
	sending.Wait()
	for _, p := range servers {
		p.stop()
	}
	for _, key := range keys {
		if f.shelf.fenced && !f.shelf.has(key) {
			lost++
		}
	}
	return sent.Load(), lost
}

func (f *fleet) until(what string, holds func() bool) {
	f.t.Helper()
	ticks := time.NewTicker(10 * time.Millisecond)
	defer ticks.Stop()
	for end := time.Now().Add(hang.Limit); !holds(); <-ticks.C {
		if time.Now().After(end) {
			f.t.Fatalf("timed out waiting until %s", what)
		}
	}
}

// TestLedger: servers are killed and stopped while inserts of theirs are under way; each batch
// that an agent was told is stored is stored once.
func TestLedger(t *testing.T) { testLedger(t, 3) }

func testLedger(t *testing.T, faults int) {
	f := startFleet(t, newShelf(true, 2*leaseTTL), 12)
	acknowledged, lost := f.run(func(n int) bool { return n >= faults })
	if twice := f.shelf.twice(); lost != 0 || twice != 0 || acknowledged == 0 {
		t.Errorf("of %d batches that were acknowledged %d are not stored once; %d are stored twice", acknowledged, lost, twice)
	}
	t.Logf("%d batches", acknowledged)
}

// TestDeadServer: the lanes of a server that has died are taken before its leases expire, and
// those of one that is alive are not.
func TestDeadServer(t *testing.T) {
	f := startFleet(t, newShelf(true, 0), 3)
	atLeast := func(n int, some ...*process) func() bool {
		return func() bool {
			return !slices.ContainsFunc(some, func(p *process) bool { return p.lanes.Status().Open < n })
		}
	}
	// One after the other: a lane that is given back while it is being taken may stay held until
	// its lease expires.
	dead := f.startWith(time.Hour)
	f.until("the first has all lanes", atLeast(bus.Lanes, dead))
	one := f.startWith(time.Hour)
	f.until("two servers have half of the lanes each", atLeast(bus.Lanes/2, dead, one))
	two := f.startWith(time.Hour)
	f.until("each server has a third of the lanes", atLeast(bus.Lanes/3, dead, one, two))
	f.until("they know each other", func() bool { return one.lanes.Known() == 2 && two.lanes.Known() == 2 })
	dead.kill()
	f.until("the others have half of them each", atLeast(bus.Lanes/2, one, two))
	if n := one.lanes.Status().Servers; n != 2 {
		t.Errorf("%d servers live", n)
	}
	one.stop()
	two.stop()
}
