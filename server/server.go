// Package server is the central process that all agents report to and all users
// query: it connects the bus, the archive, the registry of agents and sessions, the
// topology graph, and the HTTP port.
//
// Of the packages below, control runs sessions, ingest stores batches, live adds up rows as they are
// stored, explain says why a pair is not measured, alarm decides and notify tells about alarms,
// authority authenticates agents and users, topology merges paths, and web answers the API. In a
// fleet, lane divides the batches among servers, leader elects one of them, and store keeps what
// they share.
//
// It needs no privileges and measures nothing itself. Agents and sessions are stored
// in small JSON files, rows in the archive.
package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"pillion.dev/archive"
	"pillion.dev/bus"
	"pillion.dev/server/alarm"
	"pillion.dev/server/authority"
	"pillion.dev/server/backup"
	"pillion.dev/server/control"
	"pillion.dev/server/dnsname"
	"pillion.dev/server/ingest"
	"pillion.dev/server/join"
	"pillion.dev/server/lane"
	"pillion.dev/server/notify"
	"pillion.dev/server/otlp"
	"pillion.dev/server/pods"
	"pillion.dev/server/refusal"
	"pillion.dev/server/skew"
	"pillion.dev/server/steady"
	"pillion.dev/server/store"
	"pillion.dev/server/topology"
	"pillion.dev/server/web"
)

// Welcome is what a server reports once it is ready.
type Welcome struct {
	// First is set until a start has succeeded: initial tokens are in files of the data directory.
	First       bool
	HTTP, Bus   string // listen addresses
	OML         []string
	Fingerprint string // of its certificate authority
	AdminFile   string
	JoinFile    string
}

type server struct {
	config Config
	page   fs.FS
	log    *slog.Logger
	lock   *os.File
	clock  *steady.Clock
	store  store.Store
	bucket *bus.KV // of the store, if it is shared

	authority *authority.Authority
	archive   archive.Archive
	ingest    *ingest.Ingest
	local     *ingest.Local
	refusals  *refusal.Ledger
	embedded  *bus.Embedded
	bus       *bus.Server
	callout   *bus.Callout // nil without a cluster, or with one that lists the agents
	lanes     *lane.Lanes  // nil without a cluster, or with an archive that has none
	control   *control.Control
	fleet     *fleet // nil: this server is alone
	events    *held
	topology  *topology.Topology
	clocks    *skew.Clocks
	pods      *pods.Names
	alarms    *alarm.Evaluator
	notifier  *notify.Notifier
	join      *join.Join
	web       *web.Server
	exporter  *otlp.Exporter // nil: metrics are not exported
	// applications is nil if OML is disabled.
	applications *applications
	aggregation  *aggregation // nil: flows are not aggregated
	listener     net.Listener
	backup       *backup.Server
	backups      net.Listener // nil if the archive has none
	first        bool
	retained     map[string]bool // streams whose retention has been applied
}

// Run serves the API and the files of the web page until the context ends. It calls
// ready once all parts are up.
func Run(ctx context.Context, config Config, page fs.FS, log *slog.Logger, ready func(Welcome)) error {
	config, err := config.Complete()
	if err != nil {
		return err
	}
	s := &server{config: config, page: page, log: log}
	if err := s.open(ctx); err != nil {
		return errors.Join(fmt.Errorf("start server: %w", err), s.close())
	}
	ready(s.welcome())
	if err := s.started(); err != nil {
		log.Warn("the message of the first start will be repeated", "error", err)
	}
	failed := s.serve(ctx)
	if failed != nil {
		log.Error("server stops", "error", failed)
	}
	return errors.Join(failed, s.close())
}

// open starts the parts, each on those before it.
func (s *server) open(ctx context.Context) error {
	if err := s.lockFolder(); err != nil {
		return err
	}
	for _, step := range []func() error{
		s.openClock,
		s.openAuthority,
		func() (err error) {
			s.archive, err = archive.Open(s.config.Archive, archive.Options{
				Folder: s.config.Folder, Memory: int64(s.config.MemoryBytes),
				Quota: s.config.Quotas.archive(), Arrivals: s.config.followed(), Now: s.clock.Now,
				Queries: archive.Queries{AtOnce: s.config.QueriesAtOnce, Memory: int64(s.config.QueryMemoryBytes), Processors: s.config.QueryProcessors},
			})
			return err
		},
		func() error { return s.openStore(ctx) },
		func() error { return s.openTokens(ctx) },
		func() error { return s.openAggregation(ctx) },
		s.openIngest,
		s.openApplications,
		func() error { return s.openBus(ctx) },
		func() error { return s.openControl(ctx) },
		func() error { return s.openWeb(ctx) },
		s.openBackup,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) openAuthority() error {
	a, err := authority.OpenKeys(s.config.Folder, authority.Options{Hosts: s.config.Hosts, AgentValidity: s.config.AgentCertificates, Cluster: s.config.NATS != "", Issued: s.clock.Issued})
	if err != nil {
		return err
	}
	s.authority = a
	return nil
}

func (s *server) openTokens(ctx context.Context) error {
	created, err := s.authority.OpenTokens(ctx, s.store)
	if err != nil {
		return err
	}
	s.first, err = s.unstarted(created)
	return err
}

func (s *server) openIngest() (err error) {
	s.ingest = ingest.New(ingest.Options{Archive: s.archive, Lanes: s.laned() != nil, Log: s.log, Refused: func(agent string, err error) { s.refusals.Agent(agent, err) }})
	if s.local, err = ingest.NewLocal(s.ingest, s.log); err != nil {
		return err
	}
	s.refusals = refusal.New(s.local)
	s.events = &held{Sink: s.local, leads: s.leads}
	if err := s.openAlarms(); err != nil {
		return err
	}
	s.topology = topology.New(pathChanges{s.events, s.alarms}, s.config.Limits.Paths)
	s.pods = pods.New(time.Now)
	s.clocks = skew.New(s.storeClockPair, s.config.Limits.ClockPairs, time.Now, s.log)
	s.retained = map[string]bool{}
	return s.applyRetention(context.Background())
}

func (s *server) openBus(ctx context.Context) (err error) {
	if s.bus != nil { // the state is on it
		return nil
	}
	options := bus.ServerOptions{
		URL: s.config.NATS, TLS: s.authority.ClientTLS(), Log: s.log,
		// Batches are served once control is open.
		Admit: func(agent string) error { return s.control.Admit(agent) },
		Site:  func(agent string) string { return s.control.Site(agent) },
		Share: int64(s.config.Quotas.Backlog), States: s.config.Quotas.States, Exceeded: s.refuse,
	}
	if s.config.NATS == "" {
		s.embedded, err = bus.StartEmbedded(bus.EmbeddedOptions{
			Listen: s.config.NATSListen, TLS: s.authority.BusTLS(), Authorize: s.authority.Authorize,
			Refused: s.refused, Exceeded: s.refusals.Source, Source: s.config.Quotas.Connections, Log: s.log,
			Connections: s.config.Limits.Agents + spareConnections,
		})
		if err != nil {
			return err
		}
		options.InProcess = s.embedded
	}
	s.bus, err = bus.ConnectServer(ctx, options)
	return err
}

func (s *server) openControl(ctx context.Context) (err error) {
	s.fleet = s.newFleet()
	s.control, err = control.New(control.Options{
		Store: s.store, Bus: links{s.bus, s}, Events: s.events, Revocations: s.authority, Leads: s.leads, Log: s.log,
		Agents: s.config.Limits.Agents, Addresses: s.config.Quotas.Addresses, Refused: s.refuse,
	})
	if err != nil {
		return err
	}
	s.join = join.New(s.control)
	s.authority.Use(s.control)
	if err := s.fleet.open(ctx); err != nil {
		return err
	}
	if err := s.bus.ServeStates(s.control.HandleState); err != nil {
		return err
	}
	return s.serveBatches(ctx)
}

func (s *server) openWeb(ctx context.Context) (err error) {
	proxies, err := s.config.proxies()
	if err != nil {
		return err
	}
	options := web.Options{
		Control: s.control, Topology: s.topology, Authority: s.authority, Archive: s.archive,
		Live: watching{s.ingest.Live()}, Pods: s.pods, Clocks: s.clocks, Alarms: s.alarms, Events: s.local, Health: s.health, Figures: s.figures, Page: s.page,
		TLS: s.authority.TLS(), Bus: s.busURL(), MetricsOpen: s.config.MetricsOpen, Queries: s.config.QueriesAtOnce,
		MetricsPairs: s.config.Limits.MetricsPairs, WatchedPairs: s.config.Limits.WatchedPairs, SiteLabel: s.config.SiteLabel,
		SourceConnections: s.config.Quotas.Connections, RequestBytes: int64(s.config.Quotas.Requests), Exceeded: s.refusals.Source,
		PlainOff: s.config.PlainHTTP != nil && !*s.config.PlainHTTP, Proxies: proxies, Log: s.log,
	}
	if s.fleet != nil {
		options.Fleet = s.fleet
	}
	if s.config.ReverseDNS {
		options.Names = dnsname.New(ctx, dnsname.System())
	}
	if s.web, err = web.New(options); err != nil {
		return err
	}
	s.listener, err = net.Listen("tcp", s.config.HTTP)
	if err != nil {
		return fmt.Errorf("listen for the API: %w", err)
	}
	return s.openExporter()
}

// openBackup lets the program's command backup copy the running server.
func (s *server) openBackup() (err error) {
	keeper, ok := s.archive.(interface {
		Backup(ctx context.Context) (path string, err error)
	})
	if !ok {
		return nil
	}
	s.backup = &backup.Server{
		Folder: s.config.Folder, Archive: keeper.Backup, Size: s.archive.Size,
		Flush: func() error {
			if !s.leads() { // another server writes
				return s.authority.Flush()
			}
			return errors.Join(s.control.Flush(), s.authority.Flush())
		},
	}
	if s.backups, err = s.backup.Listen(); err != nil {
		s.log.Warn("the running server cannot be backed up", "error", err)
		s.backups = nil
	}
	return nil
}

// busURL is the bus URL announced to agents; if it has no host, agents use the one by
// which they reached this server.
func (s *server) busURL() string {
	if s.config.NATS != "" {
		return s.config.NATS
	}
	host, port, _ := net.SplitHostPort(s.embedded.Addr().String())
	if address, err := netip.ParseAddr(host); err != nil || address.IsUnspecified() {
		host = ""
	}
	return "tls://" + net.JoinHostPort(host, port)
}

func (s *server) welcome() Welcome {
	w := Welcome{
		First: s.first, HTTP: s.listener.Addr().String(), Bus: s.config.NATS, Fingerprint: s.authority.Fingerprint(),
		AdminFile: filepath.Join(s.config.Folder, authority.AdminFile), JoinFile: filepath.Join(s.config.Folder, authority.JoinFile),
	}
	if s.embedded != nil {
		w.Bus = s.embedded.Addr().String()
	}
	if s.applications != nil {
		w.OML = s.applications.addresses()
	}
	return w
}

// serve runs until the context ends or an essential part fails.
func (s *server) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := s.web.Serve(s.listener); err != nil {
			cancel(err)
		}
	})
	if s.fleet != nil {
		parts.Go(func() { s.fleet.serve(ctx) })
	} else {
		parts.Go(func() { cancel(s.control.Run(ctx)) })
		parts.Go(func() { cancel(s.runAlarms(ctx)) })
		parts.Go(func() { s.retain(ctx) })
	}
	parts.Go(func() { s.followClock(ctx) })
	if s.applications != nil {
		s.applications.serve(cancel)
		parts.Go(func() {
			ticks := time.NewTicker(time.Second)
			defer ticks.Stop()
			s.thin(ctx, ticks.C)
		})
	}
	if s.backups != nil {
		parts.Go(func() { s.backup.Serve(ctx, s.backups) })
	}
	if s.exporter != nil {
		parts.Go(func() { s.exporter.Run(ctx) })
	}
	parts.Go(func() { s.restorePaths(ctx) })
	parts.Go(func() { s.followPaths(ctx) })
	parts.Go(func() { s.followPods(ctx) })
	parts.Go(func() { s.followDelays(ctx) })
	parts.Go(func() { s.followStages(ctx) })
	parts.Go(func() { s.followAlarms(ctx) })
	parts.Go(func() { s.followClocks(ctx) })
	parts.Go(func() { s.followSent(ctx) })
	if s.aggregation != nil {
		parts.Go(func() { s.aggregation.run(ctx) })
	}
	<-ctx.Done()
	shut, stop := context.WithTimeout(context.Background(), shutTime)
	defer stop()
	if err := s.web.Close(shut); err != nil {
		s.log.Warn("close the API", "error", err)
	}
	parts.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

const shutTime = 3 * time.Second

// close stops the parts in reverse order. Agents resend batches that were not
// acknowledged.
func (s *server) close() error {
	var err error
	if s.authority != nil {
		err = s.authority.Flush() // perhaps over the bus
	}
	s.fleet.close()
	if s.callout != nil {
		s.callout.Close()
	}
	if s.lanes != nil {
		s.lanes.Stop()
	} else if s.bus != nil {
		s.bus.Close()
	}
	if s.embedded != nil {
		s.embedded.Shutdown()
	}
	if s.applications != nil {
		err = errors.Join(err, s.applications.close(s.ingest.Hurry))
	}
	if s.local != nil {
		s.local.Close()
	}
	if s.ingest != nil {
		s.ingest.Close()
	}
	if s.lanes != nil { // its leases need the bus
		s.lanes.Close()
		s.bus.Close()
	}
	if s.archive != nil {
		err = errors.Join(err, s.archive.Close())
	}
	for _, listener := range []net.Listener{s.listener, s.backups} {
		if listener != nil {
			listener.Close()
		}
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}
