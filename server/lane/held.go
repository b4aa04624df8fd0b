package lane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"pillion.dev/archive"
	"pillion.dev/bus"
)

var (
	errEnded = errors.New("the lane was given back")
	errLease = errors.New("the lease ended")
	errDrain = errors.New("the lane was to be handed over, but what was queued could not be stored in time")
)

// held is a lane whose lease this server has.
type held struct {
	lease *bus.Lease
	lane  archive.Lane
	// ctx ends when nothing more may be stored.
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   sync.WaitGroup
}

// take acquires the lease of a lane and opens the lane.
func (l *Lanes) take(ctx context.Context, lane int) (*held, error) {
	lease, err := l.options.KV.TryAcquire(ctx, lanePrefix+strconv.Itoa(lane), l.options.ID)
	if err != nil {
		return nil, err
	}
	h := &held{lease: lease}
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
	h.done.Go(func() {
		select {
		case <-lease.Done():
			h.cancel(errLease)
		case <-h.ctx.Done():
		}
	})
	stop := context.AfterFunc(ctx, func() { h.cancel(errEnded) })
	h.lane, err = l.options.Archive.OpenLane(h.ctx, lane, lease.Revision())
	stop()
	if err == nil && h.ctx.Err() != nil {
		err = context.Cause(h.ctx)
	}
	if err != nil {
		h.end(l.log)
		return nil, fmt.Errorf("open lane %d, owner %d: %w", lane, lease.Revision(), err)
	}
	return h, nil
}

// lose ends the lane because it may not be stored in any more.
func (h *held) lose(reason error) { h.cancel(reason) }

// end gives the lane back.
func (h *held) end(log *slog.Logger) {
	h.cancel(errEnded)
	h.done.Wait()
	if h.lane != nil {
		if err := h.lane.Close(); err != nil {
			log.Warn("close lane", "error", err)
		}
	}
	release(h.lease, log)
}

const releaseTime = 2 * time.Second

// release gives a lease back; it expires if that fails.
func release(lease *bus.Lease, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	if err := lease.Release(ctx); err != nil {
		log.Debug("release lease", "error", err)
	}
}
