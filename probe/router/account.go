package router

import (
	"context"
	"fmt"
	"time"
)

const tableSize = 1 << 16 // as in table.h

// As in account.h.
var (
	lostNames    = []string{"full", "reused", "unseen"}
	skippedNames = []string{"protocol", "loopback", "filter", "sampling", "unseen"}
)

// tries to read the account while no packet moves.
const tries = 4

func (t *routerTally) ended() uint64 {
	ended := t.Forwarded + t.Dropped + t.Local + t.Merged
	for _, n := range t.Lost {
		ended += n
	}
	return ended
}

// account reads the counters and the table. Where packets move meanwhile the two do not
// belong together: then what differs is explained by them, as far as that many moved.
func (r *Router) account() (Account, error) {
	var before, after routerTally
	var held uint64
	var err error
	for range tries {
		if before, err = r.tally(); err != nil {
			return Account{}, err
		}
		if held, err = r.inFlight(); err != nil {
			return Account{}, err
		}
		if after, err = r.tally(); err != nil {
			return Account{}, err
		}
		if before == after {
			break
		}
	}
	a := newAccount(&before)
	left := int64(before.Seen - before.ended())
	moved := int64(after.Seen - before.Seen + after.ended() - before.ended())
	a.InFlight, a.Unexplained = held, left-int64(held)
	if a.Unexplained >= -moved && a.Unexplained <= moved {
		a.InFlight, a.Unexplained = uint64(max(left, 0)), min(left, 0)
	}
	a.DropReasons, err = r.dropped()
	return a, err
}

func newAccount(t *routerTally) Account {
	a := Account{
		Seen: t.Seen, NoArrival: t.Late, Forwarded: t.Forwarded, Dropped: t.Dropped, Local: t.Local, Merged: t.Merged,
		Own: t.Own, Segments: t.Segments, Below: t.Below,
		LostReasons: map[string]uint64{}, Skipped: map[string]uint64{},
	}
	for i, n := range t.Lost {
		a.Lost += n
		if n > 0 {
			a.LostReasons[lostNames[i]] = n
		}
	}
	for i, n := range t.Skipped {
		if n > 0 {
			a.Skipped[skippedNames[i]] = n
		}
	}
	return a
}

// settlePoll is the interval at which Settle checks for packets in flight.
const settlePoll = 5 * time.Millisecond

// Settle stops observing new packets, and waits until no packet is in flight or the context ends. The account tells
// how many are in flight then.
func (r *Router) Settle(ctx context.Context) error {
	if err := r.pause(true); err != nil {
		return err
	}
	ticker := time.NewTicker(settlePoll)
	defer ticker.Stop()
	for {
		held, err := r.inFlight()
		if err != nil {
			return fmt.Errorf("settle router: %w", err)
		}
		if held == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("settle router: %d packets in flight: %w", held, ctx.Err())
		case <-ticker.C:
		}
	}
}
