package ingest

import (
	"context"
	"fmt"
	"slices"

	"pillion.dev/archive"
)

// LaneStats count what one lane has stored since this server took it.
type LaneStats struct {
	Lane          int
	Batches, Rows uint64
	Failed        uint64 // batches to be retried
	Commits       uint64
	CommitSeconds float64
	QueueBytes    int64 // waiting now
}

// OpenLane begins to store batches of a lane in the archive; nothing more is stored when the
// context ends. held reports whether this server
// still holds the lane: what is stored afterwards is not acknowledged. lost is called once if
// it does not, or if the archive says so; then the caller closes the lane.
func (i *Ingest) OpenLane(ctx context.Context, lane int, to archive.Lane, held func() bool, lost func(error)) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.lanes[lane] != nil {
		return fmt.Errorf("open lane %d: it is open", lane)
	}
	i.lanes[lane] = i.newPipe(lane, i.options.Linger, newTarget(ctx, to, held, lost))
	return nil
}

// CloseLane takes no more batches of a lane. If this server still holds it, those in the queue
// are stored first, otherwise they are answered with an error.
func (i *Ingest) CloseLane(lane int, reason error) {
	i.mu.Lock()
	p := i.lanes[lane]
	delete(i.lanes, lane)
	i.mu.Unlock()
	if p == nil {
		return
	}
	if reason != nil {
		p.forget(reason)
	}
	p.close()
}

// UseLane stores the server's own rows in a lane, until it is lost.
func (i *Ingest) UseLane(ctx context.Context, to archive.Lane, held func() bool, lost func(error)) {
	t := newTarget(ctx, to, held, lost)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.main.target = t
}

// LeaveLane ends UseLane: the server's own rows wait for the next one.
func (i *Ingest) LeaveLane(reason error) { i.main.forget(reason) }

// Lanes are the counts of the open lanes, in order.
func (i *Ingest) Lanes() (all []LaneStats) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, p := range i.lanes {
		s := p.stats
		s.QueueBytes = p.bytes
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b LaneStats) int { return a.Lane - b.Lane })
	return all
}

func newTarget(ctx context.Context, to archive.Lane, held func() bool, lost func(error)) *target {
	t := &target{store: to.Store, held: held, lost: lost}
	t.ctx, t.stop = context.WithCancelCause(ctx)
	return t
}

// forget ends the use of the target, without calling lost.
func (p *pipe) forget(reason error) {
	p.in.mu.Lock()
	to := p.target
	p.target = nil
	p.in.mu.Unlock()
	if to != nil {
		to.stop(reason)
	}
}

// close commits all queued batches and stops.
func (p *pipe) close() {
	p.in.mu.Lock()
	p.closed = true
	p.arrived.Broadcast()
	p.in.changed.Broadcast()
	p.in.mu.Unlock()
	p.ended.Wait()
}
