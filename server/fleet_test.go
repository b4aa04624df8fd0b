package server_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"pillion.dev/api/pillionv1"
	"pillion.dev/archive"
	"pillion.dev/bus"
	"pillion.dev/bus/bustest"
	"pillion.dev/internal/free"
	"pillion.dev/internal/test/figure"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/server"
	"pillion.dev/session"
)

// shared is an archive that all servers of the test write, each in its lanes.
type shared struct{ archive.Archive }

// Close leaves it to the other servers.
func (shared) Close() error { return nil }

func (s shared) OpenLane(context.Context, int, uint64) (archive.Lane, error) { return s, nil }

// fleetOf are three servers of one cluster.
type fleetOf struct {
	t       *testing.T
	cluster *bustest.Cluster
	servers [3]*mortal
	folders [3]string
	archive string
}

// mortal is a server that can die.
type mortal struct {
	*target
	die func()
}

// startFleet starts servers on a cluster that lists these agents.
func startFleet(t *testing.T, agents ...string) *fleetOf {
	t.Helper()
	first := t.TempDir()
	return startServers(t, first, bustest.StartLanes(t, first, agents...))
}

// startServers starts them on a cluster with the authority in a folder.
func startServers(t *testing.T, first string, cluster *bustest.Cluster) *fleetOf {
	t.Helper()
	f := &fleetOf{t: t, cluster: cluster}
	opened, err := archive.Open("duckdb:", archive.Options{Folder: t.TempDir(), Memory: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	f.archive = "shared" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", ""))
	archive.Register(f.archive, func(string, archive.Options) (archive.Archive, error) { return shared{opened}, nil })
	key, err := os.ReadFile(filepath.Join(first, "authority", "authority.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.servers {
		f.folders[i] = t.TempDir()
		if err := os.MkdirAll(filepath.Join(f.folders[i], "authority"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(f.folders[i], "authority", "authority.pem"), key, 0o600); err != nil {
			t.Fatal(err)
		}
		f.start(i)
	}
	return f
}

// start starts a server, or restarts it at the same address.
func (f *fleetOf) start(i int) {
	f.t.Helper()
	m := &mortal{target: &target{folder: f.folders[i], log: &journal{}}}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan server.Welcome, 1), make(chan error, 1)
	address := fmt.Sprintf("127.0.0.1:%d", free.Port(f.t))
	if f.servers[i] != nil {
		address = f.servers[i].welcome.HTTP
	}
	config := server.Config{
		Folder: f.folders[i], HTTP: address, NATS: strings.Join(f.cluster.URLs, ","), OMLOff: true, Archive: f.archive + ":", MemoryBytes: 256 << 20,
	}
	log := slog.New(slog.NewTextHandler(m.log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	go func() {
		ended <- server.RunMortal(ctx, config, fstest.MapFS{"index.html": {}}, log, func(w server.Welcome, die func()) {
			m.die = die
			ready <- w
		})
	}()
	m.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			f.t.Logf("server %d ends: %v", i, err)
		}
		if strings.Contains(m.log.String(), "panic") || f.t.Failed() {
			f.t.Errorf("log of server %d: %s", i, m.log)
		}
	})
	f.t.Cleanup(m.stop)
	select {
	case m.welcome = <-ready:
	case err := <-ended:
		f.t.Fatal(err)
	}
	m.roots = x509.NewCertPool()
	m.roots.AppendCertsFromPEM([]byte(m.read(f.t, "ca.crt")))
	for j := range f.servers { // the first to start created the tokens
		if _, err := os.Stat(filepath.Join(f.folders[j], "admin.token")); f.folders[j] != "" && err == nil {
			m.operator, m.join = (&target{folder: f.folders[j]}).read(f.t, "admin.token"), (&target{folder: f.folders[j]}).read(f.t, "join.token")
		}
	}
	f.servers[i] = m
}

// leads returns the server that leads, once there is one and all others but the dead know it.
func (f *fleetOf) leads(dead ...int) int {
	f.t.Helper()
	leading := -1
	within(f.t, "one server leads", func() bool {
		names, own := map[string]int{}, map[string]int{}
		for i, s := range f.servers {
			if slices.Contains(dead, i) {
				continue
			}
			health, err := s.client(f.t, "").Server.Health(f.t.Context(), &pillionv1.HealthRequest{})
			if err != nil {
				return false
			}
			for _, part := range health.Parts {
				if name, is := strings.CutPrefix(part.Name, "server "); is && strings.Contains(part.Detail, "leads") {
					names[name]++
					if strings.Contains(part.Detail, "answers here") {
						own[name] = i
					}
				}
			}
		}
		for name := range names {
			i, known := own[name]
			leading = i
			if !known || len(names) != 1 || names[name] != len(f.servers)-len(dead) {
				return false
			}
		}
		return len(names) == 1
	})
	return leading
}

// host is an agent that carries out what it is told and keeps the lease of its source.
type host struct {
	t     *testing.T
	agent *bus.Agent
	name  string
	ip    string

	mu      sync.Mutex
	applied session.Assignment
	pulsed  time.Time
	gap     time.Duration // the longest between two pulses that renewed the lease
}

// host connects an agent to these URLs, in their order; without any, to the hubs.
func (f *fleetOf) host(s *mortal, name, ip string, urls ...string) *host {
	f.t.Helper()
	if len(urls) == 0 {
		urls = f.cluster.URLs
	}
	h := &host{t: f.t, name: name, ip: ip}
	var err error
	h.agent, err = bus.ConnectAgent(f.t.Context(), bus.AgentOptions{URL: strings.Join(urls, ","), InOrder: true, TLS: s.enrol(f.t, name), Name: name})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(h.agent.Close)
	within(f.t, "the agent is connected", h.agent.Connected)
	if err := h.agent.Serve(h.answer); err != nil {
		f.t.Fatal(err)
	}
	if err := h.agent.Pulse(h.pulse); err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var reports sync.WaitGroup
	reports.Go(func() {
		ticks := time.NewTicker(500 * time.Millisecond)
		defer ticks.Stop()
		for ; ctx.Err() == nil; <-ticks.C {
			_ = h.agent.Report(h.state()) // the next one follows
		}
	})
	f.t.Cleanup(func() { cancel(); reports.Wait() })
	return h
}

func (h *host) state() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	text, err := json.Marshal(session.State{
		Agent: h.name, Instance: "1", Time: time.Now(), Version: "1", Revision: h.applied.Revision, Tasks: h.tasks(),
		Interfaces: []session.Interface{{Name: "eth0", Up: true, Addresses: []string{h.ip + "/24"}}},
	})
	if err != nil {
		h.t.Error(err)
	}
	return text
}

func (h *host) tasks() (tasks []session.TaskState) {
	for _, d := range h.applied.Destinations {
		tasks = append(tasks, session.TaskState{Session: d.Session, Role: "destination", Running: true})
	}
	for _, s := range h.applied.Sources {
		tasks = append(tasks, session.TaskState{Session: s.Session, Role: "source", Running: true})
	}
	return tasks
}

func (h *host) answer(_ context.Context, text []byte) ([]byte, error) {
	var r session.Request
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.Apply != nil {
		h.applied = *r.Apply
	}
	return json.Marshal(session.Reply{Tasks: h.tasks()})
}

func (h *host) pulse(text []byte) {
	var p session.Pulse
	if err := json.Unmarshal(text, &p); err != nil {
		h.t.Error(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(p.Alive) == 0 {
		return
	}
	now := time.Now()
	if !h.pulsed.IsZero() {
		h.gap = max(h.gap, now.Sub(h.pulsed))
	}
	h.pulsed = now
}

// renewed waits until the lease is renewed again, and returns the longest time without.
func (h *host) renewed() time.Duration {
	h.t.Helper()
	h.mu.Lock()
	before := h.pulsed
	h.mu.Unlock()
	within(h.t, "the lease of the source is renewed", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.pulsed.After(before)
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.gap
}

// sender sends numbers without a pause and counts those that were acknowledged.
func (h *host) sender() (stop func() uint64) {
	ctx, cancel := context.WithCancel(context.Background())
	sent := make(chan uint64, 1)
	go func() {
		n := uint64(0)
		for ctx.Err() == nil {
			h.send(batchOf(h.t, &numbers, n, measure.Sample{measure.TimeValue(time.Now()), measure.Int64Value(int64(n)), measure.StringValue(h.name)}))
			n++
		}
		sent <- n
	}()
	return func() uint64 { cancel(); return <-sent }
}

// lossy sends rows of flows from a source of which every tenth packet is lost, and after stop some seconds without
// loss.
func (h *host) lossy(source string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	n := uint64(0)
	row := func(end time.Time, lost uint64) measure.Sample {
		row := flows.Row{End: end, Interval: time.Second, Session: "s", Source: source, Destination: h.name}
		row.Expected, row.Lost = 1000, lost
		return row.Sample(nil)
	}
	send := func(rows ...measure.Sample) {
		h.send(batchOf(h.t, &measure.Flows, n, rows...))
		n++
	}
	go func() {
		defer close(ended)
		ticks := time.NewTicker(time.Second)
		defer ticks.Stop()
		for ; ctx.Err() == nil; <-ticks.C {
			send(row(time.Now(), 100))
		}
	}()
	return func() {
		cancel()
		<-ended
		for now, second := time.Now(), 1; second < 58; second += 7 { // a batch is judged at its end
			send(row(now.Add(time.Duration(second)*time.Second), 0))
		}
	}
}

// send sends a batch until it is acknowledged.
func (h *host) send(e measure.Envelope) {
	for acknowledged := false; !acknowledged; {
		ctx, done := context.WithTimeout(context.Background(), 5*time.Second)
		acknowledged = h.agent.Send(ctx, e) == nil
		done()
	}
}

// same checks that all servers but the dead give the same answers about sessions, agents and rows.
func (f *fleetOf) same(dead ...int) {
	f.t.Helper()
	var first string
	for i, s := range f.servers {
		if slices.Contains(dead, i) {
			continue
		}
		within(f.t, "all servers answer the same", func() bool {
			client := s.client(f.t, s.operator)
			answer, err := client.Sessions.GetSession(f.t.Context(), &pillionv1.GetSessionRequest{Name: "s"})
			if err != nil || answer.Session.GetState() != "running" {
				return false
			}
			agents, err := client.Agents.ListAgents(f.t.Context(), &pillionv1.ListAgentsRequest{})
			if err != nil {
				return false
			}
			answer.Session.Tasks = nil
			text := answer.Session.String()
			for _, a := range agents.Agents {
				text += fmt.Sprint(" ", a.Name, " ", a.State)
			}
			if first == "" {
				first = text
			}
			return text == first && strings.Contains(text, "north connected") && strings.Contains(text, "south connected")
		})
	}
}

// TestFleet: three servers of one cluster answer alike; when the leading one dies, and when all are restarted
// one after the other, the session goes on, leases of sources are renewed, no row is lost or stored twice, and an
// alarm is neither lost nor raised again. How long a lease waits is asserted by make verify.
func TestFleet(t *testing.T) { restartFleet(t) }

func restartFleet(t *testing.T) {
	f := startFleet(t, "north", "south")
	leader := f.leads()
	follower := (leader + 1) % 3
	north, south := f.host(f.servers[follower], "north", "192.0.2.1"), f.host(f.servers[leader], "south", "192.0.2.2")
	admin := f.servers[follower].client(t, f.servers[follower].operator)
	within(t, "the session is created", func() bool {
		_, err := admin.Sessions.CreateSession(t.Context(), &pillionv1.CreateSessionRequest{
			Spec: &pillionv1.SessionSpec{Name: "s", Sources: []string{"north"}, Destinations: []string{"south"}},
		})
		return err == nil
	})
	f.same()
	north.renewed()
	made, err := admin.Server.CreateToken(t.Context(), &pillionv1.CreateTokenRequest{Name: "reader", Role: "viewer"})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range f.servers {
		within(t, "a token is valid on every server", func() bool {
			who, err := s.client(t, made.Secret).Server.WhoAmI(t.Context(), &pillionv1.WhoAmIRequest{})
			return err == nil && who.Name == "reader"
		})
	}
	stop, calm := north.sender(), south.lossy("north")
	f.seenEverywhere(south)

	f.servers[leader].die()
	gap := north.renewed()
	next := f.leads(leader)
	f.same(leader)
	t.Logf("the leader died: %s without a renewal of the lease", gap)
	if next == leader {
		t.Errorf("server %d leads after its death", leader)
	}
	go f.servers[leader].stop()
	for n, dead := range [][]int{{leader}, {leader}, nil} {
		i := (follower + n) % 3
		f.servers[i].stop()
		f.start(i)
		f.leads(dead...)
		north.renewed()
		f.same(dead...)
	}
	figure.AtMost(t, "lease of a source while the servers of a fleet are killed and restarted, longest time without a renewal", north.renewed().Seconds(), 10, "s")
	sent := stop()
	calm()
	within(t, "the end of the loss is reported", func() bool {
		return number(t, admin, "SELECT count(*) FROM events WHERE kind = 'loss-ended'") > 0
	})
	if n := number(t, admin, "SELECT count(*) FROM events WHERE kind IN ('loss', 'loss-ended') AND about = 'north' AND peer = 'south'"); n != 2 {
		t.Errorf("%d events of the one loss, want its beginning and its end", n)
	}
	for _, s := range f.servers {
		client := s.client(t, s.operator)
		if n := number(t, client, "SELECT count(*) FROM numbers WHERE word = 'north'"); n != int64(sent) {
			t.Errorf("%d rows are stored, %d were acknowledged", n, sent)
		}
		if n := number(t, client, "SELECT count(DISTINCT n) FROM numbers WHERE word = 'north'"); n != int64(sent) {
			t.Errorf("%d different rows are stored, %d were acknowledged", n, sent)
		}
	}
}

// seenEverywhere checks that live views on every server show a row, whichever server stored it.
func (f *fleetOf) seenEverywhere(h *host) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	seen := make(chan int, len(f.servers))
	for i, s := range f.servers {
		stream, err := s.client(f.t, s.operator).Data.Tail(ctx, &pillionv1.TailRequest{Streams: []string{"numbers"}})
		if err != nil {
			f.t.Fatal(err)
		}
		go func() {
			for stream.Receive() {
				for _, row := range stream.Msg().GetRows() {
					if strings.Contains(row.String(), h.name+"-live") {
						seen <- i
						return
					}
				}
			}
		}()
	}
	left := map[int]bool{0: true, 1: true, 2: true}
	for n := uint64(1); len(left) > 0; n++ {
		e := batchOf(f.t, &numbers, n, measure.Sample{measure.TimeValue(time.Now()), measure.Int64Value(int64(n)), measure.StringValue(h.name + "-live")})
		within(f.t, "the row is stored", func() bool { return h.agent.Send(f.t.Context(), e) == nil })
		select {
		case i := <-seen:
			delete(left, i)
		case <-time.After(50 * time.Millisecond):
		}
		if n > 1000 {
			f.t.Fatalf("servers %v do not show the row", left)
		}
	}
}
