package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sys/unix"

	"pillion.dev/archive"
	"pillion.dev/bus"
	"pillion.dev/measure"
	"pillion.dev/server/alarm"
	"pillion.dev/server/control"
	"pillion.dev/server/event"
	"pillion.dev/server/ingest"
	"pillion.dev/server/web"
)

// links is how control reaches agents.
type links struct {
	*bus.Server
	embedded *bus.Embedded
}

// Disconnect ends an agent's connection; a bus of others has to do that itself.
func (l links) Disconnect(agent string) {
	if l.embedded != nil {
		l.embedded.Disconnect(agent)
	}
}

// refused tells operators of an agent that may not connect: a second host with the
// identity of another, a revoked one, one whose certificate has expired.
func (s *server) refused(agent, remote string, reason error) {
	s.local.Event(event.Event{Kind: "agent-refused", Level: event.Warning, Agent: agent,
		Message: fmt.Sprintf("%s was refused from %s: %v", agent, remote, reason)})
}

// watching is how the API follows what is stored.
type watching struct{ live *ingest.Live }

// Subscribe begins with the next batch.
func (w watching) Subscribe(streams []string, buffer int) web.Subscription {
	return w.live.Watch(streams, buffer)
}

// pathBuffer bounds what waits for a follower.
const pathBuffer = 1024 // batches

// followPaths puts traced paths into the graph as they are stored.
func (s *server) followPaths(ctx context.Context) {
	watcher := s.ingest.Live().Watch([]string{measure.Hops.Name}, pathBuffer)
	defer watcher.Close()
	names := time.NewTicker(2 * time.Second)
	defer names.Stop()
	s.nameAddresses()
	for {
		select {
		case <-ctx.Done():
			return
		case <-names.C:
			s.nameAddresses()
		case batch, open := <-watcher.Batches():
			if !open {
				return
			}
			if err := s.topology.AddRows(batch.Agent, batch.Record); err != nil {
				s.log.Warn("add paths", "agent", batch.Agent, "error", err)
			}
			batch.Record.Release()
		}
	}
}

// followLoss watches the loss of all pairs as rows are stored.
func (s *server) followLoss(ctx context.Context) {
	if *s.config.LossEvent.Share == 0 {
		return
	}
	watcher := s.ingest.Live().Watch([]string{measure.Flows.Name}, pathBuffer)
	defer watcher.Close()
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	loss := alarm.New(s.config.LossEvent.limit(), s.local)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			loss.Tick()
		case batch, open := <-watcher.Batches():
			if !open {
				return
			}
			if err := loss.Add(batch); err != nil {
				s.log.Warn("watch loss", "agent", batch.Agent, "error", err)
			}
			batch.Record.Release()
		}
	}
}

// nameAddresses tells the graph which addresses are whose.
func (s *server) nameAddresses() {
	names := map[netip.Addr]string{}
	for _, agent := range s.control.Agents() {
		for _, i := range agent.Interfaces {
			for _, text := range i.Addresses {
				if prefix, err := netip.ParsePrefix(text); err == nil {
					names[prefix.Addr()] = agent.Name
				}
			}
		}
	}
	s.topology.SetAgents(names)
}

const retainEvery = time.Minute

// retain removes what is no longer kept.
func (s *server) retain(ctx context.Context) {
	ticks := time.NewTicker(retainEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		err := s.bound(ctx)
		removed, failed := s.archive.Retain(ctx, time.Now())
		if err = errors.Join(err, failed); err != nil && ctx.Err() == nil {
			s.log.Error("remove old rows", "error", err)
		}
		for stream, rows := range removed {
			s.log.Info("removed old rows", "stream", stream, "rows", rows)
		}
	}
}

// bound gives each stream the retention that the configuration names for it, or,
// where none was set through the API either, the default; once for each.
func (s *server) bound(ctx context.Context) error {
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
	}
	for stream, open := range unset {
		if _, named := s.config.Retention[stream]; !s.kept[stream] && (named || open) {
			s.archive.SetRetention(stream, s.config.retention(stream))
		}
		s.kept[stream] = true
	}
	return nil
}

// diskLeast is the free space below which the disk counts as full.
const diskLeast = 64 << 20

// health looks at the parts.
func (s *server) health(ctx context.Context) []web.Part {
	archived := web.Part{Name: "archive", OK: true, Detail: fmt.Sprintf("%d batches wait", s.ingest.Stats().QueueBatches)}
	err := s.archive.Query(ctx, "SELECT 1 AS one", nil, archive.Limits{Rows: 1, Time: 2 * time.Second}, func(arrow.RecordBatch) error { return nil })
	if err = cmp.Or(s.ingest.Failing(), err); err != nil {
		archived.OK, archived.Detail = false, archived.Detail+"; "+err.Error()
	}
	kept := web.Part{Name: "control", OK: true, Detail: fmt.Sprintf("%d sessions", len(s.control.Sessions()))}
	if err := s.control.Health(); err != nil {
		kept.OK, kept.Detail = false, err.Error()
	}
	link := web.Part{Name: "bus", OK: s.bus.Connected(), Detail: s.busURL()}
	connected := 0
	for _, agent := range s.control.Agents() {
		if agent.State == control.Connected {
			connected++
		}
	}
	disk := web.Part{Name: "disk"}
	var space unix.Statfs_t
	if err := unix.Statfs(filepath.Clean(s.config.Folder), &space); err != nil {
		disk.Detail = err.Error()
	} else {
		free := space.Bavail * uint64(space.Bsize)
		disk.OK, disk.Detail = free > diskLeast, fmt.Sprintf("%d MiB free", free>>20)
	}
	return []web.Part{archived, link, disk, kept, {Name: "agents", OK: true, Detail: fmt.Sprintf("%d connected", connected)}}
}

// figures of the parts for Prometheus.
func (s *server) figures() []web.Figure {
	in, link := s.ingest.Stats(), s.bus.Stats()
	return []web.Figure{
		{Name: "pillion_ingest_batches_total", Help: "Batches stored.", Value: float64(in.Batches)},
		{Name: "pillion_ingest_rows_total", Help: "Rows stored.", Value: float64(in.Rows)},
		{Name: "pillion_ingest_duplicates_total", Help: "Batches that were stored before.", Value: float64(in.Duplicates)},
		{Name: "pillion_ingest_rejected_total", Help: "Batches that can never be stored.", Value: float64(in.Rejected + link.Rejected)},
		{Name: "pillion_ingest_failed_total", Help: "Batches that the archive could not take then.", Value: float64(in.Failed)},
		{Name: "pillion_ingest_commits_total", Help: "Commits of the archive.", Value: float64(in.Commits)},
		{Name: "pillion_ingest_commit_seconds_total", Help: "Time that commits took.", Value: in.CommitSeconds},
		{Name: "pillion_ingest_queue_bytes", Help: "Bytes of batches that wait.", Value: float64(in.QueueBytes)},
		{Name: "pillion_live_missed_total", Help: "Batches that slow watchers did not get.", Value: float64(in.LiveMissed)},
		{Name: "pillion_bus_busy_total", Help: "Batches turned away because too many waited.", Value: float64(link.Busy)},
		{Name: "pillion_own_rows_dropped_total", Help: "Events and changes that came faster than they could be stored.", Value: float64(s.local.Dropped())},
	}
}
