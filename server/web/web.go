// Package web is the server's HTTP port: the services of package api over Connect,
// gRPC, gRPC-web and JSON, exports for curl, metrics for Prometheus, and health. It
// authenticates and authorises callers, audits changes, and converts the types of the
// other packages to messages.
//
// It implements nothing about agents, sessions or rows: that is behind the interfaces
// in contract.go. In the flow it is between the users and the rest of the server.
package web

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	dto "github.com/prometheus/client_model/go"

	"pillion.dev/api/pillionv1/pillionv1connect"
	"pillion.dev/server/control"
	"pillion.dev/server/dnsname"
	"pillion.dev/server/event"
	"pillion.dev/server/live"
)

const (
	defaultConnections  = 2048
	defaultMetricsPairs = 1000
	defaultWatchedPairs = 100_000
	questionsAtOnce     = 8
	queriesAtOnce       = 4
	exportsAtOnce       = 4
	tailsAtOnce         = 256
)

// Options of a Server. Fields without a default are required.
type Options struct {
	Control   Control
	Topology  Topology
	Authority Authority
	Archive   Archive
	Live      Live
	Clocks    Clocks
	Pods      Pods
	Alarms    Alarms
	Events    event.Sink
	// Fleet is nil if this server is alone.
	Fleet Fleet
	// Health checks the parts of the server, for /healthz and Health.
	Health func(context.Context) []Part
	// Figures returns additional metrics, at each scrape; default none.
	Figures func() []Figure
	// Page holds the files of the web page, with index.html.
	Page fs.FS
	// TLS of the port. Client certificates are requested, not required.
	TLS *tls.Config
	// Bus is the URL of the bus announced to agents, such as tls://:4222.
	Bus string
	// Names of routers; nil: they are not shown.
	Names *dnsname.Resolver
	// MetricsOpen serves /metrics without a token.
	MetricsOpen bool
	// PlainOff refuses plain HTTP on loopback too.
	PlainOff bool
	// Proxies are trusted to say from whom a request comes.
	Proxies []netip.Prefix
	// MetricsPairs limits the pairs of agents in the metrics; default 1000.
	MetricsPairs int
	// SiteLabel is the label of agents that names their site.
	SiteLabel string
	// WatchedPairs limits the pairs, per session, with live figures; default 100,000.
	WatchedPairs int
	// Queries limits concurrent queries in SQL; default 4.
	Queries int
	// Connections limits open connections; default 2048.
	Connections int
	// SourceConnections limits the connections of a source address that is no trusted proxy; default 256.
	SourceConnections int
	// RequestBytes limits the memory of requests in progress of a source address or a token; a quarter of that
	// without a token, four times that in total; default 16 MiB.
	RequestBytes int64
	// Exceeded is called when something of a source, such as "address 192.0.2.1", is refused because of a quota, or
	// because it is invalid; default nothing.
	Exceeded func(source string, err error)
	Log      *slog.Logger
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// Server serves one port.
type Server struct {
	log       *slog.Logger
	now       func() time.Time
	started   time.Time
	authority Authority
	archive   reads
	events    event.Sink
	parts     func(context.Context) []Part
	watched   *live.Pairs
	scopes    *scopes
	calls     calls
	metrics   *metrics
	// checked is the last check of the parts.
	checked struct {
		sync.Mutex
		parts []Part
		at    time.Time
	}
	ledger *ledger
	errors *connect.ErrorWriter

	fleet Fleet
	// inner are the handlers behind guard.
	inner http.Handler
	// forwards are calls passed on to the leading server, unforwarded the calls that it did not answer, answers
	// the calls of other servers that this one answered.
	forwards, unforwarded, answers atomic.Uint64

	tls         *tls.Config
	plainOff    bool
	proxies     []netip.Prefix
	connections *connections
	budget      *budget
	turning     atomic.Int64 // requests that are being refused for lack of room
	http        *http.Server
	cancel      context.CancelFunc
	followers   sync.WaitGroup
}

// New returns a server that does not serve yet; Close stops its goroutines.
func New(o Options) (*Server, error) {
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("create web server: %w", err)
	}
	s := &Server{
		log: o.Log, now: o.Now, started: o.Now(), authority: o.Authority, archive: reads{o.Archive}, events: o.Events,
		parts: o.Health, ledger: newLedger(o.Events, o.Now),
		plainOff: o.PlainOff, proxies: o.Proxies, fleet: o.Fleet,
	}
	s.connections = &connections{
		most: o.Connections, share: o.SourceConnections, proxy: s.isProxy, exceeded: o.Exceeded,
		open: map[*connection]bool{}, of: map[string]int{},
	}
	s.budget = &budget{share: o.RequestBytes, exceeded: o.Exceeded, of: map[originator]int64{}}
	s.scopes = &scopes{control: o.Control, now: o.Now, kept: map[string]keptScope{}}
	s.calls.open, s.calls.slowSpan = map[*call]struct{}{}, slowSpan
	s.tls = o.TLS.Clone()
	s.tls.ClientAuth = tls.RequestClientCert
	s.tls.NextProtos = []string{"h2", "http/1.1"}
	files, err := newPage(o.Page)
	if err != nil {
		return nil, fmt.Errorf("create web server: %w", err)
	}
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	s.metrics = newMetrics(o.MetricsPairs, o.Now, s.figures(o))
	s.followers.Go(func() { s.metrics.follow(ctx, o.Live, o.Log) })
	s.followers.Go(func() { s.reviewing(ctx) })
	seconds := live.NewPairs(o.WatchedPairs, o.Now, o.Log)
	s.watched = seconds
	s.followers.Go(func() { followPairs(ctx, seconds, o.Live) })
	s.inner = s.routes(ctx, o, seconds, files)
	s.http = newHTTPServer(s.tls, s.guard(s.inner))
	s.http.ErrorLog = slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug)
	return s, nil
}

// Watched returns the number of pairs with live figures, and the number of rows of further ones.
func (s *Server) Watched() (pairs int, refused uint64) { return s.watched.Kept() }

// Gather returns the metrics as /metrics exposes them; beside an error, those that are valid.
func (s *Server) Gather() ([]*dto.MetricFamily, error) { return s.metrics.registry.Gather() }

// SetSites says which agent is at which site.
func (s *Server) SetSites(of map[string]string) { s.watched.SetSites(of) }

func (o *Options) complete() error {
	for name, missing := range map[string]bool{
		"Control": o.Control == nil, "Topology": o.Topology == nil, "Authority": o.Authority == nil,
		"Archive": o.Archive == nil, "Live": o.Live == nil, "Clocks": o.Clocks == nil, "Pods": o.Pods == nil, "Alarms": o.Alarms == nil, "Events": o.Events == nil, "Health": o.Health == nil,
		"TLS": o.TLS == nil, "Log": o.Log == nil, "Page": o.Page == nil,
	} {
		if missing {
			return fmt.Errorf("option %s is missing", name)
		}
	}
	if o.Figures == nil {
		o.Figures = func() []Figure { return nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Queries <= 0 {
		o.Queries = queriesAtOnce
	}
	if o.Exceeded == nil {
		o.Exceeded = func(string, error) {}
	}
	o.RequestBytes = cmp.Or(o.RequestBytes, defaultRequestBytes)
	o.Connections, o.SourceConnections = cmp.Or(o.Connections, defaultConnections), cmp.Or(o.SourceConnections, defaultSourceConnections)
	if o.MetricsPairs <= 0 {
		o.MetricsPairs = defaultMetricsPairs
	}
	if o.WatchedPairs <= 0 {
		o.WatchedPairs = defaultWatchedPairs
	}
	return nil
}

func (s *Server) routes(ctx context.Context, o Options, seconds *live.Pairs, files page) http.Handler {
	options := connect.WithHandlerOptions(
		connect.WithInterceptors(interceptor{s}), connect.WithRecover(s.recovered), connect.WithReadMaxBytes(bodyBytes),
	)
	s.errors = connect.NewErrorWriter(options)
	rows := &data{
		archive: s.archive, record: s.record, live: o.Live, log: o.Log, now: o.Now, stopping: ctx.Done(),
		questions: newSlots(questionsAtOnce), queries: newSlots(o.Queries), exports: newSlots(exportsAtOnce), tails: newSlots(tailsAtOnce),
	}
	mux := http.NewServeMux()
	service := func(path string, handler http.Handler) { mux.Handle(path, s.admit(handler)) }
	service(pillionv1connect.NewAgentServiceHandler(&agents{o.Control}, options))
	service(pillionv1connect.NewAlarmServiceHandler(&alarms{o.Alarms}, options))
	service(pillionv1connect.NewSessionServiceHandler(&sessions{o.Control, o.Now, o.Clocks, rows}, options))
	service(pillionv1connect.NewDataServiceHandler(rows, options))
	measured := &flows{rows, seconds, o.SiteLabel, o.Clocks, o.Pods, o.Control, s.scopes}
	service(pillionv1connect.NewFlowServiceHandler(measured, options))
	service(pillionv1connect.NewTopologyServiceHandler(&paths{rows, o.Topology, o.Control, seconds, o.Names}, options))
	service(pillionv1connect.NewServerServiceHandler(&serverService{s, rows.questions}, options))
	service(pillionv1connect.NewEnrolServiceHandler(&enrolment{s, o.Control, o.Bus}, options))
	exposition := s.metrics.handler(s.metrics.registry)
	for path, serve := range map[string]func(http.ResponseWriter, *http.Request) error{
		exportPath: rows.serveExport, levelsPath: measured.serveLevels, healthPath: handled(s.serveHealth), openAPIPath: handled(serveOpenAPI), pagePath: handled(files.ServeHTTP),
		metricsPath: func(w http.ResponseWriter, r *http.Request) error {
			if scope := scopeOf(r.Context()); scope != nil {
				return handled(s.metrics.scoped(scope).ServeHTTP)(w, r)
			}
			return handled(exposition.ServeHTTP)(w, r)
		},
	} {
		needed := plain[path]
		if path == metricsPath && o.MetricsOpen {
			needed.role = anyone
		}
		mux.Handle(path, s.admitPlain(needed, serve))
	}
	return mux
}

// handled is a handler that answers its errors itself.
func handled(handler http.HandlerFunc) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		handler(w, r)
		return nil
	}
}

// figures returns the metrics of the options and of this package.
func (s *Server) figures(o Options) func() []Figure {
	return func() []Figure {
		all := append(o.Figures(),
			Figure{Name: "pillion_http_refused_connections_total", Help: "HTTP connections refused, or closed to make room for others, because a limit was reached.", Value: float64(s.connections.refused.Load())})
		for code, n := range s.ledger.refusals() {
			all = append(all, Figure{"pillion_http_refused_calls_total", "Calls refused because of who made them, or made too many.", map[string]string{"code": code.String()}, float64(n)})
		}
		states := map[string]int{control.Connected: 0, control.Away: 0, control.Revoked: 0}
		var dropped, waiting int64
		agents := o.Control.Agents()
		all = append(all, clockFigures(agents, s.metrics.pairs.limit)...)
		for _, agent := range agents {
			states[agent.State]++
			dropped += agent.Spool.DroppedRows
			waiting += agent.Spool.Bytes
		}
		for state, n := range states {
			all = append(all, Figure{"pillion_agents", "Agents by state: connected, away, revoked.", map[string]string{"state": state}, float64(n)})
		}
		all = append(all,
			Figure{Name: "pillion_agent_spool_dropped_rows", Help: "Rows that the spools of all agents dropped since those agents started.", Value: float64(dropped)},
			Figure{Name: "pillion_agent_spool_bytes", Help: "Bytes in the spools of all agents.", Value: float64(waiting)})
		states = map[string]int{}
		if s.fleet == nil || s.fleet.Leads() { // the others do not plan sessions
			for _, session := range o.Control.Sessions() {
				states[session.State]++
			}
		}
		for state, n := range states {
			all = append(all, Figure{"pillion_sessions", "Sessions by state: scheduled, starting, running, degraded, paused, stopping, ended.", map[string]string{"state": state}, float64(n)})
		}
		if s.fleet != nil {
			all = append(all,
				Figure{Name: "pillion_fleet_calls_forwarded_total", Help: "Calls of users that this server passed on to the leading one.", Value: float64(s.forwards.Load())},
				Figure{Name: "pillion_fleet_calls_unanswered_total", Help: "Of these, calls that no leading server answered.", Value: float64(s.unforwarded.Load())},
				Figure{Name: "pillion_fleet_calls_answered_total", Help: "Calls of other servers that this one answered as the leading one.", Value: float64(s.answers.Load())})
		}
		if size, err := o.Archive.Size(); err == nil {
			all = append(all, Figure{Name: "pillion_archive_bytes", Help: "Size of the archive on disk.", Value: float64(size)})
		}
		if a, ok := o.Archive.(interface{ Lost() int64 }); ok {
			all = append(all, Figure{Name: "pillion_archive_lost_rows", Help: "Acknowledged rows that were missing in the archive when the server started: its files were damaged.", Value: float64(a.Lost())})
		}
		return all
	}
}

// Serve serves the listener, which it closes, until Close: TLS, and plain HTTP on
// loopback unless it is off. It can be called for several listeners.
func (s *Server) Serve(listener net.Listener) error {
	err := s.http.Serve(newPort(listener, s.tls, s.connections))
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("serve http on %v: %w", listener.Addr(), err)
}

// Close ends tails, waits for other calls until the context ends, then aborts them.
func (s *Server) Close(ctx context.Context) error {
	s.cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("close web server: %w", err), s.http.Close())
	}
	s.followers.Wait()
	s.ledger.sum(true)
	return err
}
