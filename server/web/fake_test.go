package web

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/archive"
	"pillion.dev/bus"
	"pillion.dev/internal/test/hang"
	"pillion.dev/measure"
	rows "pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
	"pillion.dev/measure/skew"
	"pillion.dev/server/authority"
	"pillion.dev/server/control"
	"pillion.dev/server/event"
	"pillion.dev/server/pods"
	clockpairs "pillion.dev/server/skew"
	"pillion.dev/server/topology"
	"pillion.dev/session"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

// fakeControl knows one agent and keeps sessions in a map.
type fakeControl struct {
	mutex    sync.Mutex
	sessions map[string]control.Session
	asked    []session.Request
}

func (c *fakeControl) Agents() []control.Agent {
	return []control.Agent{
		{Name: "b", State: "away"},
		{
			Name: "a", Labels: map[string]string{"site": "north"}, State: "connected", Enrolled: epoch, Seen: epoch,
			Interfaces: []session.Interface{{Name: "eth0", MTU: 1500, Up: true, Addresses: []string{"192.0.2.1/24"}}},
			Spool:      session.Spool{DroppedRows: 7},
			Tasks:      []control.Task{{TaskState: session.TaskState{Session: "s", Role: "source", Running: true}, Agent: "a"}},
		},
	}
}

func (c *fakeControl) AgentsAfter(after, label string, most int) (agents []control.Agent, more bool) {
	for _, a := range slices.Backward(c.Agents()) {
		if a.Name > after && (label == "" || label == "site=north" && a.Name == "a") {
			agents = append(agents, a)
		}
	}
	if most > 0 && len(agents) > most {
		return agents[:most], true
	}
	return agents, false
}

func (c *fakeControl) Agent(name string) (control.Agent, error) {
	for _, a := range c.Agents() {
		if a.Name == name {
			return a, nil
		}
	}
	return control.Agent{}, fmt.Errorf("agent %q %w", name, control.ErrNotFound)
}

func (c *fakeControl) Peer(name string) (session.Peer, error) {
	a, err := c.Agent(name)
	return session.Peer{Agent: a.Name, Addresses: []string{"192.0.2.2", "192.0.2.3", "2001:db8::2"}}, err
}

func (c *fakeControl) Approve(string, map[string]string, []string, []string) error {
	return nil
}

func (c *fakeControl) SetLabels(string, map[string]string) error { return nil }
func (c *fakeControl) ApplyRevocations([]string) error           { return nil }
func (c *fakeControl) Revoke(name string) error {
	if name == "panic" {
		panic("secret of the server")
	}
	_, err := c.Agent(name)
	return err
}
func (c *fakeControl) DeleteAgent(string) error { return nil }

func (c *fakeControl) Plan(spec session.Spec) control.Plan {
	return control.Plan{Spec: spec.Complete(), Problems: spec.Validate(), Costs: []string{"16 bytes"}, Starts: []time.Time{epoch}}
}

func (c *fakeControl) Create(_ context.Context, spec session.Spec, by string) (control.Session, []string, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if found := spec.Validate(); len(found) > 0 {
		return control.Session{}, nil, fmt.Errorf("create session: %w", &control.InvalidError{Problems: found})
	}
	one := control.Session{Spec: spec.Complete(), State: "running", Created: epoch, CreatedBy: by}
	c.sessions[spec.Name] = one
	return one, []string{"mind the gap"}, nil
}

func (c *fakeControl) Change(ctx context.Context, spec session.Spec, by string) (control.Session, []string, error) {
	return c.Create(ctx, spec, by)
}

func (c *fakeControl) set(name, state string) (control.Session, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	one, found := c.sessions[name]
	if !found {
		return one, fmt.Errorf("find session %q: %w", name, control.ErrNotFound)
	}
	one.State = cmp.Or(state, one.State)
	c.sessions[name] = one
	return one, nil
}

func (c *fakeControl) Pause(name string) (control.Session, error) {
	return c.set(name, "paused")
}
func (c *fakeControl) Resume(name string) (control.Session, error) {
	return c.set(name, "running")
}
func (c *fakeControl) Stop(name string) (control.Session, error) {
	return c.set(name, "ended")
}
func (c *fakeControl) DeleteSession(name string) error              { _, err := c.set(name, ""); return err }
func (c *fakeControl) Session(name string) (control.Session, error) { return c.set(name, "") }
func (c *fakeControl) Sessions() []control.Session {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var all []control.Session
	for _, one := range c.sessions {
		all = append(all, one)
	}
	return all
}
func (c *fakeControl) Runs(from, to time.Time, session string) []control.Run {
	return []control.Run{{Session: cmp.Or(session, "s"), Start: from, End: to, State: "planned"}}
}

func (c *fakeControl) Checks(string) []session.Check {
	return []session.Check{{Name: "clock and server", Level: "ok"}}
}

func (c *fakeControl) Describe(_ context.Context, agent string, devices []string) (map[string]string, error) {
	if _, err := c.Agent(agent); err != nil {
		return nil, err
	}
	return map[string]string{"kernel": "6.1", "device": strings.Join(devices, ",")}, nil
}

func (c *fakeControl) Ask(_ context.Context, agent string, request session.Request) (session.Reply, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.asked = append(c.asked, request)
	if agent == "b" {
		return session.Reply{}, fmt.Errorf("ask agent %q: %w", agent, bus.ErrAway)
	}
	if agent != "a" {
		return session.Reply{}, errors.New("it answered: no rights")
	}
	if request.Trace != nil {
		return session.Reply{Trace: &session.TraceResult{
			Time: epoch, Address: request.Trace.Address, Protocol: request.Trace.Protocol, Reached: true,
			Hops: []session.TraceHop{{TTL: 1, Sent: 3}},
		}}, nil
	}
	return session.Reply{Doctor: []session.Check{{Name: "kernel", Level: "ok", Found: agent}}}, nil
}

type fakeTopology struct{}

func (fakeTopology) Graph(topology.Selection, *archive.Scope) topology.Graph {
	return topology.Graph{
		Nodes: []topology.Node{{ID: "n", Kind: topology.Unknown}, {ID: "ioam:0x000101", Kind: topology.Router, IOAM: "0x000101"},
			{ID: "router:192.0.2.9", Kind: topology.Router, Addresses: []string{"192.0.2.9"}},
			{ID: "agent:r", Kind: topology.Agent, Agent: "r", Addresses: []string{"192.0.2.10"}}},
		Edges: []topology.Edge{{From: "n", To: "m", RTT: -1, Measured: true},
			{From: "n", To: "ioam:0x000101", OneWay: topology.OneWay{Packets: 5, P50Ns: -3}, OneWaySeen: epoch}},
		Paths: []topology.Path{{Source: "a", Destination: "b", Address: "192.0.2.2", Protocol: "udp", Nodes: []string{"n", "m"}}, {
			Source: "a", Destination: "b", Address: "2001:db8::2", Protocol: "ioam", Kind: topology.IOAM, OneWay: topology.OneWay{Packets: 5},
			IntervalNs: 1e9, OtherPackets: 6, Overflowed: 7, Hops: []topology.Hop{{
				TraceHop: session.TraceHop{TTL: 1}, OneWay: topology.OneWay{Packets: 5, P50Ns: -3, UncertaintyNs: 1000, ClockErrorNs: 7, ClockKnown: true},
				Skipped: 2, Stages: []topology.Stage{{Stage: "transit", Packets: 4, MeanNs: 9}}, Input: "eth0", Output: "eth1", StagesUnknown: true,
			}},
		}},
	}
}
func (fakeTopology) Add(_, _, _ string, result session.TraceResult) error {
	if result.Address == "" {
		return topology.ErrTrace
	}
	return nil
}

func (fakeTopology) ChangeIn(source string, traces *topology.Traces) topology.Change {
	return topology.New(&fakeSink{}, 100).ChangeIn(source, traces)
}

// fakeAuthority has a token for each role, whose secret is the role's name.
type fakeAuthority struct{}

func (fakeAuthority) Check(secret string) (authority.Token, error) {
	if err, gone := map[string]error{"revoked": authority.ErrRevoked, "expired": authority.ErrExpired}[secret]; gone {
		return authority.Token{Name: "the-" + secret, Role: "viewer"}, err
	}
	if slices.Contains([]string{"viewer", "analyst", "operator", "admin", "join"}, secret) {
		return authority.Token{Name: "the-" + secret, Role: secret}, nil
	}
	return authority.Token{}, authority.ErrUnknown
}

func (fakeAuthority) Create(wanted authority.Token) (authority.Token, string, error) {
	wanted.Created = epoch
	return wanted, "s3cret", nil
}
func (fakeAuthority) List() []authority.Token                   { return []authority.Token{{Name: "z"}, {Name: "y"}} }
func (fakeAuthority) Revoke(name string) error                  { return nil }
func (fakeAuthority) Revocations() []byte                       { return nil }
func (fakeAuthority) MergeRevocations([]byte) ([]string, error) { return nil, nil }
func (fakeAuthority) Enrol(token, name string, request []byte) ([]byte, []byte, error) {
	if token != "join" {
		return nil, nil, authority.ErrUnknown
	}
	return []byte("certificate of " + name), []byte("authority"), nil
}
func (fakeAuthority) Authorize(state tls.ConnectionState) (string, error) {
	return state.PeerCertificates[0].Subject.CommonName, nil
}
func (fakeAuthority) Renew(name string, _ []byte) ([]byte, error) {
	return []byte("certificate of " + name), nil
}

// fakeArchive holds the rows of the streams in memory and answers every query with
// the rows of the first.
type fakeArchive struct {
	mutex   sync.Mutex
	streams []archive.Stream
	rollUps []archive.Stream
	records map[string][]arrow.RecordBatch
	asked   []any
	fault   error
	windows func(archive.Windows) archive.WindowsAnswer // instead of one window
}

func (a *fakeArchive) Streams(context.Context) ([]archive.Stream, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return slices.Clone(a.streams), a.fault
}

func (a *fakeArchive) RollUps(context.Context) ([]archive.Stream, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return slices.Clone(a.rollUps), a.fault
}

func (a *fakeArchive) note(question any) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.asked = append(a.asked, question)
}

func (a *fakeArchive) Query(ctx context.Context, sql string, _ []any, limits archive.Limits, rows func(arrow.RecordBatch) error) error {
	a.note(sql)
	if !strings.HasPrefix(sql, "SELECT") {
		return fmt.Errorf("%w: only SELECT", archive.ErrQuery)
	}
	return a.Export(ctx, archive.Export{Stream: "numbers", Limit: limits.Rows}, rows)
}

func (a *fakeArchive) Series(_ context.Context, question archive.Series) ([]archive.Line, error) {
	a.note(question)
	return []archive.Line{{Labels: map[string]string{"source": "a"}, Times: []time.Time{epoch}, Values: [][]float64{{1.5}}}}, a.fault
}

func (a *fakeArchive) Windows(_ context.Context, question archive.Windows) (archive.WindowsAnswer, error) {
	a.note(question)
	if a.windows != nil {
		return a.windows(question), a.fault
	}
	window := archive.Window{Start: epoch, Sum: rows.Sum{Counts: rows.Counts{Packets: 7}}}
	return archive.WindowsAnswer{Windows: []archive.Window{window}, Step: 5 * time.Second, Sampled: 3, Sessions: []string{"s\xff"}}, a.fault
}

func (a *fakeArchive) Flows(_ context.Context, question archive.Flows) (archive.FlowsAnswer, error) {
	a.note(question)
	flow := archive.Flow{
		Flow: rows.Flow{Src: "192.0.2.1", Dst: "192.0.2.2", Proto: "udp\xff", Dport: 53}, Last: epoch,
		Window: archive.Window{Start: epoch, Sum: rows.Sum{Counts: rows.Counts{Packets: 7}}},
	}
	return archive.FlowsAnswer{Flows: []archive.Flow{flow}, Found: 1 << 40, Sampled: 1}, a.fault
}

func (a *fakeArchive) Volumes(_ context.Context, question archive.Volumes) (archive.VolumesAnswer, error) {
	a.note(question)
	volume := archive.Volume{Flow: rows.Flow{Src: "192.0.2.1", Dst: "192.0.2.2", Proto: "udp\xff"}, Source: "a", Destination: "b", Packets: 7, Bytes: 700, Sessions: []string{"gone"}}
	return archive.VolumesAnswer{Volumes: []archive.Volume{volume}, Found: 2, Packets: 9, Bytes: 900}, a.fault
}

func (a *fakeArchive) Traces(ctx context.Context, question archive.Traces, rows func(arrow.RecordBatch) error) error {
	a.note(question)
	return a.Export(ctx, archive.Export{Stream: measure.Hops.Name}, rows)
}

func (a *fakeArchive) RouterDelays(_ context.Context, question archive.RouterDelays) (archive.RouterDelaysAnswer, error) {
	a.note(question)
	return archive.RouterDelaysAnswer{
		Session: "s", Sampled: 1, Stages: []archive.StageWindow{{Stage: "processing", Start: epoch, Delay: rows.NewDistribution(7, 5, 5, 5, histogram.Histogram{Bounds: []int64{5}, Counts: []uint64{7}})}},
		Queues: []archive.QueueWindow{{Interface: "eth0", Side: "input", Start: epoch, Mean: 1.5, Kernel: 2}},
		Sizes: []archive.QueueSizes{{Interface: "eth0", Side: "input", Sizes: []archive.PacketCount{{Packets: 2, Count: 9}},
			Arrivals: []archive.PacketCount{{Packets: 0, Count: 4}}}},
		Breaks: []archive.CoffeeBreak{{Time: epoch, Length: time.Millisecond, Cause: "irq", Task: "cc\xff", Depth: 3}},
	}, a.fault
}

func (a *fakeArchive) Export(_ context.Context, question archive.Export, rows func(arrow.RecordBatch) error) error {
	a.note(question)
	records, known := a.records[question.Stream]
	if !known {
		return archive.ErrUnknown
	}
	left := question.Limit
	if question.Newest {
		records = singleRows(records)
		slices.Reverse(records)
	}
	for _, record := range records {
		n := record.NumRows()
		if question.Limit > 0 {
			n = min(n, left)
			left -= n
		}
		part := record.NewSlice(0, n)
		err := rows(part)
		part.Release()
		if err != nil {
			return err
		}
	}
	return a.fault
}

// singleRows cuts records into one for each row.
func singleRows(records []arrow.RecordBatch) (rows []arrow.RecordBatch) {
	for _, record := range records {
		for i := range record.NumRows() {
			rows = append(rows, record.NewSlice(i, i+1))
		}
	}
	return rows
}

func (a *fakeArchive) SetRetention(stream string, retention archive.Retention) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for _, list := range [][]archive.Stream{a.streams, a.rollUps} {
		for i := range list {
			if list[i].Schema.Name == stream {
				list[i].Retention = retention
			}
		}
	}
}
func (a *fakeArchive) Size() (int64, error) { return 12345, nil }

// fakeLive gives each reader what publish sends.
type fakeLive struct {
	mutex   sync.Mutex
	readers map[*fakeReader]bool
}

type fakeReader struct {
	live    *fakeLive
	streams []string
	batches chan archive.Batch
	missed  uint64
}

func (l *fakeLive) SubscribeOwn(streams []string, buffer int) Subscription {
	return l.Subscribe(streams, buffer)
}

func (l *fakeLive) Subscribe(streams []string, buffer int) Subscription {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	r := &fakeReader{live: l, streams: streams, batches: make(chan archive.Batch, buffer)}
	l.readers[r] = true
	return r
}

func (l *fakeLive) publish(batch archive.Batch) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for r := range l.readers {
		if len(r.streams) > 0 && !slices.Contains(r.streams, batch.Stream) {
			continue
		}
		batch.Record.Retain()
		select {
		case r.batches <- batch:
		default:
			r.missed += uint64(batch.Record.NumRows())
			batch.Record.Release()
		}
	}
}

func (r *fakeReader) Batches() <-chan archive.Batch { return r.batches }
func (r *fakeReader) Missed() uint64 {
	r.live.mutex.Lock()
	defer r.live.mutex.Unlock()
	return r.missed
}
func (r *fakeReader) Close() {
	r.live.mutex.Lock()
	defer r.live.mutex.Unlock()
	delete(r.live.readers, r)
}

// fakeSink keeps changes.
type fakeSink struct {
	mutex   sync.Mutex
	changes []event.Change
}

func (s *fakeSink) Event(event.Event) {}
func (s *fakeSink) Change(c event.Change) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.changes = append(s.changes, c)
}
func (s *fakeSink) all() []event.Change {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.changes)
}
func (s *fakeSink) last(t *testing.T) event.Change {
	t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.changes) == 0 {
		t.Fatal("no change was recorded")
	}
	return s.changes[len(s.changes)-1]
}

// site is a server on a real port with everything behind it faked.
type site struct {
	*Server
	control *fakeControl
	archive *fakeArchive
	live    *fakeLive
	sink    *fakeSink
	log     *syncBuffer
	addr    string
	roots   *x509.CertPool
	signer  tls.Certificate
}

type syncBuffer struct {
	mutex sync.Mutex
	text  strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.String()
}

// fakePods has one pod on the node of agent a, and one on that of b.
type fakePods struct{}

func (fakePods) Find(address, agent string, believe func(string) bool) (pods.Pod, bool) {
	p, known := map[string]pods.Pod{
		"192.0.2.1": {Namespace: "shop", Name: "cart-0", Node: "a.example", Agent: "a", Seen: epoch, Held: true},
		"192.0.2.2": {Namespace: "shop", Name: "db\xff", Node: "b.example", Agent: "b", Seen: epoch},
	}[address]
	return p, known && (agent == "" || agent == p.Agent) && believe(p.Agent)
}

func (f fakePods) Search(text, agent string, believe func(string) bool) (addresses []string) {
	for _, address := range []string{"192.0.2.1", "192.0.2.2"} {
		if p, known := f.Find(address, agent, believe); known && strings.Contains(p.Name, text) {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// fakeClocks has a destination b whose clock is 2 ms ahead of that of a, and drifts.
type fakeClocks struct{}

func (fakeClocks) Recent(source, destination string) []skew.Estimate {
	if source != "a" || destination != "b" {
		return nil
	}
	return []skew.Estimate{{Segment: epoch.Add(-time.Minute), Since: epoch.Add(-time.Minute), Until: epoch.Add(time.Minute),
		OffsetNs: 2e6 + 60*50e3, SkewPPB: 50e3, OffsetBoundNs: 1e6, SkewBoundPPB: 100, DriftNs: 25e3, Points: 200, Both: true}}
}

func (c fakeClocks) Latest(source, destination string) []clockpairs.Pair {
	return []clockpairs.Pair{{Source: "a", Destination: "b\xff", Estimate: c.Recent("a", "b")[0]}}
}

func newSite(t testing.TB, change ...func(*Options)) *site {
	t.Helper()
	s := &site{
		control: &fakeControl{sessions: map[string]control.Session{}}, live: &fakeLive{readers: map[*fakeReader]bool{}},
		archive: newFakeArchive(t), sink: &fakeSink{}, log: &syncBuffer{}, roots: x509.NewCertPool(),
	}
	s.signer = newCertificate(t, "server")
	s.roots.AddCert(s.signer.Leaf)
	options := Options{
		Page:    fstest.MapFS{"index.html": {Data: []byte("<title>Pillion</title>")}},
		Control: s.control, Topology: fakeTopology{}, Authority: fakeAuthority{}, Archive: s.archive, Live: s.live, Clocks: fakeClocks{}, Pods: fakePods{}, Alarms: &fakeAlarms{},
		Events: s.sink, TLS: &tls.Config{Certificates: []tls.Certificate{s.signer}}, Bus: "tls://:4222",
		Log:    slog.New(slog.NewTextHandler(s.log, nil)),
		Health: func(context.Context) []Part { return []Part{{Name: "archive", OK: s.archive.fault == nil}} },
	}
	for _, c := range change {
		c(&options)
	}
	server, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	s.Server = server
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = listener.Addr().String()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), hang.Limit)
		defer cancel()
		if err := errors.Join(server.Close(ctx), <-served); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// newCertificate signs itself, for 127.0.0.1.
func newCertificate(t testing.TB, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// client uses TLS and HTTP/2, or plain HTTP/1.1 or HTTP/2.
func (s *site) client(t testing.TB, protocol string) (client *http.Client, url string) {
	t.Helper()
	protocols := new(http.Protocols)
	transport := &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{RootCAs: s.roots}}
	url = "http://" + s.addr
	switch protocol {
	case "tls":
		protocols.SetHTTP2(true)
		url = "https://" + s.addr
	case "tls1":
		protocols.SetHTTP1(true)
		url = "https://" + s.addr
	case "h2c":
		protocols.SetUnencryptedHTTP2(true)
	case "http1":
		protocols.SetHTTP1(true)
	default:
		t.Fatalf("unknown protocol %s", protocol)
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}, url
}

// numbers is a stream with a column of each type.
var numbers = measure.Schema{Name: "numbers", Doc: "one of each", Fields: []measure.Field{
	measure.TimeField, {Name: "flag", Type: measure.Bool}, {Name: "small", Type: measure.Int32},
	{Name: "count", Type: measure.Uint64, Unit: "packets"}, {Name: "delay_ns", Type: measure.Int64, Unit: "ns"},
	{Name: "ratio", Type: measure.Float64}, {Name: "word", Type: measure.String}, {Name: "blob", Type: measure.Binary},
	{Name: "bounds", Type: measure.Int64List}, {Name: "counts", Type: measure.Uint64List}, {Name: "port", Type: measure.Uint32},
}}

var words = []string{"plain", "with, comma", "with \"quotes\"", "two\nlines", "=1+1", "", "größe"}

// numbersRecord has rows of which every seventh is null in all columns.
func numbersRecord(rows int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, numbers.Arrow())
	defer b.Release()
	for i := range rows {
		b.Field(0).(*array.TimestampBuilder).Append(arrow.Timestamp(epoch.Add(time.Duration(i)).UnixNano()))
		if i%7 == 6 {
			for j := 1; j < len(numbers.Fields); j++ {
				b.Field(j).AppendNull()
			}
			continue
		}
		b.Field(1).(*array.BooleanBuilder).Append(i%2 == 0)
		b.Field(2).(*array.Int32Builder).Append(int32(-i))
		b.Field(3).(*array.Uint64Builder).Append(1<<63 + uint64(i))
		b.Field(4).(*array.Int64Builder).Append(-int64(i) * 1000)
		b.Field(5).(*array.Float64Builder).Append(float64(i) / 4)
		b.Field(6).(*array.StringBuilder).Append(words[i%len(words)])
		b.Field(7).(*array.BinaryBuilder).Append([]byte{0, 0xff, byte(i)})
		bounds := b.Field(8).(*array.ListBuilder)
		bounds.Append(true)
		bounds.ValueBuilder().(*array.Int64Builder).AppendValues([]int64{-5, int64(i)}, nil)
		counts := b.Field(9).(*array.ListBuilder)
		counts.Append(true)
		counts.ValueBuilder().(*array.Uint64Builder).AppendValues([]uint64{1, uint64(i)}, nil)
		b.Field(10).(*array.Uint32Builder).Append(uint32(i))
	}
	return b.NewRecordBatch()
}

func newFakeArchive(t testing.TB) *fakeArchive {
	t.Helper()
	a := &fakeArchive{records: map[string][]arrow.RecordBatch{"empty": nil}}
	for range 3 {
		a.records["numbers"] = append(a.records["numbers"], numbersRecord(1500))
	}
	empty := numbers
	empty.Name = "empty"
	a.streams = []archive.Stream{{Schema: &numbers, Rows: 4500, First: epoch}, {Schema: &empty}}
	t.Cleanup(func() {
		for _, record := range a.records["numbers"] {
			record.Release()
		}
	})
	return a
}
