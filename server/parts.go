package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sys/unix"

	"pillion.dev/archive"
	"pillion.dev/bus"
	"pillion.dev/internal/every"
	"pillion.dev/measure"
	"pillion.dev/server/control"
	"pillion.dev/server/event"
	"pillion.dev/server/ingest"
	"pillion.dev/server/join"
	"pillion.dev/server/refusal"
	"pillion.dev/server/topology"
	"pillion.dev/server/web"
)

// links is how control reaches agents.
type links struct {
	*bus.Server
	server *server
}

// Disconnect closes an agent's connection; it does nothing on an external NATS cluster that does
// not ask servers which agents may connect.
func (l links) Disconnect(agent string) {
	switch {
	case l.server.embedded != nil:
		l.server.embedded.Disconnect(agent)
	case l.server.callout != nil:
		l.server.callout.Disconnect(agent)
	}
}

// refused raises an event for an agent whose connection was refused: a second host
// with the same identity, a revoked agent, an expired certificate.
func (s *server) refused(agent, remote string, reason error) {
	s.local.Event(event.Event{Kind: "agent-refused", Level: event.Warning, Agent: agent,
		Message: fmt.Sprintf("connection of %s from %s refused: %v", agent, remote, reason)})
}

// refuse notes a message of an agent that was refused without an answer, and tells the
// agent.
func (s *server) refuse(agent string, err error) {
	s.refusals.Agent(agent, err)
	if s.control != nil {
		s.control.Notify(agent, err)
	}
}

// watching lets the API subscribe to stored batches.
type watching struct{ live *ingest.Live }

// SubscribeOwn is Subscribe for what this server has stored.
func (w watching) SubscribeOwn(streams []string, buffer int) web.Subscription {
	return w.live.WatchOwn(streams, buffer)
}

// Subscribe starts with the next batch.
func (w watching) Subscribe(streams []string, buffer int) web.Subscription {
	return w.live.Watch(streams, buffer)
}

// followBuffer limits the backlog of a follower.
const followBuffer = 1024 // batches

// follow calls add with each batch of the streams as it is stored, and tick at an
// interval, until the context ends.
func (s *server) follow(ctx context.Context, streams []string, interval time.Duration, tick func(), add func(archive.Batch) error) {
	s.followWatcher(ctx, s.ingest.Live().Watch(streams, followBuffer), interval, tick, add)
}

// followWatcher is follow for what a watcher gets, which it closes.
func (s *server) followWatcher(ctx context.Context, watcher *ingest.Watcher, interval time.Duration, tick func(), add func(archive.Batch) error) {
	defer watcher.Close()
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			tick()
		case batch, open := <-watcher.Batches():
			if !open {
				return
			}
			if err := add(batch); err != nil {
				s.log.Warn("process rows", "stream", batch.Schema.Name, "agent", batch.Agent, "error", err)
			}
			batch.Record.Release()
		}
	}
}

// followPaths adds traced paths to the topology as they are stored.
func (s *server) followPaths(ctx context.Context) {
	s.nameAddresses()
	s.follow(ctx, []string{measure.Hops.Name}, 2*time.Second, s.nameAddresses, func(batch archive.Batch) error {
		return s.topology.AddRows(batch.Agent, batch.Record)
	})
}

// Limits of what a server reads of earlier traces when it starts.
const (
	restoreAge  = time.Hour
	restoreRows = 1_000_000
	restoreTime = time.Minute
)

// restorePaths adds to the topology the paths that were traced before the server started.
func (s *server) restorePaths(ctx context.Context) {
	reading, cancel := context.WithTimeout(ctx, restoreTime)
	defer cancel()
	now := time.Now()
	question := archive.Export{Stream: measure.Hops.Name, From: now.Add(-restoreAge), To: now, Limit: restoreRows, Newest: true}
	var faults error
	err := s.archive.Export(reading, question, func(record arrow.RecordBatch) error {
		faults = cmp.Or(faults, s.topology.Restore(record)) // the first: there may be many
		return nil
	})
	if err := errors.Join(err, faults); err != nil && ctx.Err() == nil && !errors.Is(err, archive.ErrUnknown) {
		s.log.Warn("restore paths of the topology", "error", err)
	}
}

// followDelays adds paths that routers wrote into packets to the topology as they are stored.
func (s *server) followDelays(ctx context.Context) {
	s.follow(ctx, []string{measure.HopDelays.Name}, time.Minute, func() {}, func(batch archive.Batch) error {
		return s.topology.AddDelays(batch.Agent, batch.Record)
	})
}

// followStages adds the stage times of routers to the topology as they are stored.
func (s *server) followStages(ctx context.Context) {
	s.follow(ctx, []string{measure.Router.Name}, time.Minute, func() {}, func(batch archive.Batch) error {
		return s.topology.AddStages(batch.Agent, batch.Record)
	})
}

// followPods names the addresses of pods as agents report them.
func (s *server) followPods(ctx context.Context) {
	s.follow(ctx, []string{measure.Pods.Name}, time.Minute, s.pods.Expire, s.pods.Add)
}

// followClocks estimates the clock offsets of all pairs as rows are stored.
func (s *server) followClocks(ctx context.Context) {
	s.follow(ctx, []string{measure.Flows.Name, measure.Clock.Name}, time.Second, s.clocks.Tick, s.clocks.Add)
}

// followSent passes on to destinations what sources have sent to them.
func (s *server) followSent(ctx context.Context) {
	watcher := s.ingest.Live().WatchOwn([]string{measure.Sent.Name}, followBuffer) // each report is passed on once
	s.followWatcher(ctx, watcher, join.TickEvery, func() { s.join.Tick(ctx) }, s.join.Add)
	s.join.Close()
}

// nameAddresses tells the topology the host of each agent, with its addresses, and the API its site.
func (s *server) nameAddresses() {
	hosts, sites := map[string]topology.Host{}, map[string]string{}
	anySite := false
	for _, agent := range s.control.Agents() {
		host := topology.Host{
			IOAMID: agent.IOAMID, Boot: agent.Boot, ClockErrorNs: agent.Clock.MaxErrorNs, Interfaces: agent.Interfaces,
		}
		for _, conflict := range agent.AddressConflicts {
			host.Disputed = append(host.Disputed, conflict.Address)
		}
		hosts[agent.Name] = host
		sites[agent.Name] = agent.Labels[s.config.SiteLabel]
		anySite = anySite || sites[agent.Name] != ""
	}
	s.topology.SetHosts(hosts)
	if !anySite {
		sites = nil
	}
	s.web.SetSites(sites)
}

const retainEvery = time.Minute

// retain removes expired rows.
func (s *server) retain(ctx context.Context) {
	every.Do(ctx, retainEvery, func() {
		err := s.applyRetention(ctx)
		s.stepClock()
		removed, failed := s.archive.Retain(ctx, s.clock.Cutoff())
		if err = errors.Join(err, failed); err != nil && ctx.Err() == nil {
			s.log.Error("remove old rows", "error", err)
		}
		for stream, rows := range removed {
			s.log.Info("removed old rows", "stream", stream, "rows", rows)
		}
	})
}

// applyRetention gives each stream, once, the retention that the configuration names
// for it, or the default if none was set through the API either.
func (s *server) applyRetention(ctx context.Context) error {
	streams, err := s.archive.Streams(ctx)
	if err != nil {
		return err
	}
	unset := map[string]bool{}
	for _, schema := range measure.Standard() {
		unset[schema.Name] = true
	}
	for _, stream := range streams {
		unset[stream.Schema.Name] = stream.Retention == archive.Retention{}
		if stream.Schema.Name == measure.Events.Name && stream.Rows > 0 {
			s.clock.Begin(stream.Last)
		}
	}
	for stream := range s.config.Retention { // of what an archive derives from streams
		if _, listed := unset[stream]; !listed && stream != "*" {
			unset[stream] = false
		}
	}
	for stream, open := range unset {
		if _, named := s.config.Retention[stream]; !s.retained[stream] && (named || open) {
			s.archive.SetRetention(stream, s.config.retention(stream))
		}
		s.retained[stream] = true
	}
	return nil
}

// diskReserve is the free space below which the disk counts as full.
const diskReserve = 64 << 20

// health checks the parts.
func (s *server) health(ctx context.Context) []web.Part {
	archived := web.Part{Name: "archive", OK: true, Detail: fmt.Sprintf("%d batches queued", s.ingest.Stats().QueueBatches)}
	brief, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := cmp.Or(s.ingest.Failing(), s.archive.Check(brief)); err != nil {
		archived.OK, archived.Detail = false, archived.Detail+"; "+err.Error()
	}
	sessions := web.Part{Name: "control", OK: true, Detail: fmt.Sprintf("%d sessions", len(s.control.Sessions()))}
	if !s.leads() {
		sessions.Detail = "controlled by the leading server"
	} else if err := s.control.Health(); err != nil {
		sessions.OK, sessions.Detail = false, err.Error()
	}
	link := web.Part{Name: "bus", OK: s.bus.Connected(), Detail: s.busURL()}
	disk := web.Part{Name: "disk"}
	var space unix.Statfs_t
	if err := unix.Statfs(filepath.Clean(s.config.Folder), &space); err != nil {
		disk.Detail = err.Error()
	} else {
		free := space.Bavail * uint64(space.Bsize)
		disk.OK, disk.Detail = free > diskReserve, fmt.Sprintf("%d MiB free", free>>20)
	}
	parts := []web.Part{archived, link, disk, sessions, {Name: "agents", OK: true, Detail: fmt.Sprintf("%d connected", s.connected())}, s.clockHealth()}
	return append(append(parts, s.laneHealth()...), s.fleet.health()...)
}

// connected is the number of agents that report.
func (s *server) connected() (n int) {
	for _, agent := range s.control.Agents() {
		if agent.State == control.Connected {
			n++
		}
	}
	return n
}

// figures returns the metrics of the parts for Prometheus.
func (s *server) figures() []web.Figure {
	in, link := s.ingest.Stats(), s.bus.Stats()
	figures := []web.Figure{
		{Name: "pillion_ingest_batches_total", Help: "Batches of rows stored.", Value: float64(in.Batches)},
		{Name: "pillion_ingest_rows_total", Help: "Rows stored.", Value: float64(in.Rows)},
		{Name: "pillion_ingest_duplicates_total", Help: "Batches received again that were already stored.", Value: float64(in.Duplicates)},
		{Name: "pillion_ingest_rejected_total", Help: "Batches rejected permanently.", Value: float64(in.Rejected + link.Rejected)},
		{Name: "pillion_ingest_unsupported_total", Help: "Attempts to store batches in a format of a later version; agents keep them until this server is updated.", Value: float64(in.Unsupported + link.Unsupported)},
		{Name: "pillion_ingest_refused_total", Help: "Batches refused because their agent is revoked or unknown; it keeps them.", Value: float64(link.Refused)},
		{Name: "pillion_ingest_failed_total", Help: "Batches that the archive failed to store, to be retried.", Value: float64(in.Failed)},
		{Name: "pillion_ingest_commits_total", Help: "Commits of the archive.", Value: float64(in.Commits)},
		{Name: "pillion_ingest_commit_seconds_total", Help: "Time spent in commits.", Value: in.CommitSeconds},
		{Name: "pillion_ingest_queue_bytes", Help: "Bytes of batches waiting to be stored.", Value: float64(in.QueueBytes)},
		{Name: "pillion_live_missed_total", Help: "Batches that live subscribers missed because they were too slow.", Value: float64(in.LiveMissed)},
		{Name: "pillion_bus_received_bytes_total", Help: "Bytes of batches as they came over the bus.", Value: float64(link.Received)},
		{Name: "pillion_bus_unpacked_bytes_total", Help: "Bytes of batches received over the bus, after decompression.", Value: float64(link.Unpacked)},
		{Name: "pillion_bus_busy_total", Help: "Batches refused because the queue was full; agents resend them.", Value: float64(link.Busy)},
		{Name: "pillion_own_rows_dropped_total", Help: "Events and audit records dropped because they came faster than they could be stored.", Value: float64(s.local.Dropped())},
		{Name: "pillion_sent_reports_total", Help: "Flows in reports of sources that destinations have taken, so that packets which nothing follows count as lost.", Value: float64(s.join.Passed())},
		{Name: "pillion_sent_reports_dropped_total", Help: "Flows in reports of sources that were not passed on: too old, too many, invalid, or the destination is away.", Value: float64(s.join.Dropped())},
		{Name: "pillion_ingest_implausible_rows_total", Help: "Rows stored whose time is more than an hour ahead of their arrival, or more than a year behind.", Value: float64(in.Implausible)},
	}
	figures = append(figures, web.Figure{Name: "pillion_conflicting_addresses",
		Help: "Addresses that an agent reports although another agent has had them for longer.", Value: float64(s.control.AddressConflicts())})
	figures = append(figures, s.aggregation.figures()...)
	refused := s.refusals.Counts()
	for _, cause := range refusal.Causes {
		figures = append(figures, web.Figure{Name: "pillion_refused_total",
			Help:   "What was refused because an agent, a source address or a user reached a quota, or sent what is invalid.",
			Labels: map[string]string{"quota": cause}, Value: float64(refused[cause])})
	}
	return slices.Concat(figures, s.alarmFigures(), s.limitFigures(), s.laneFigures(), s.fleet.figures(), s.exporterFigures())
}
