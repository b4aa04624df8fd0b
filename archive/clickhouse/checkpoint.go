package clickhouse

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"pillion.dev/archive/ledger"
)

const (
	// A stream's checkpoint is written after so many commits, or so long after the last.
	checkpointCommits = 64
	checkpointEvery   = 30 * time.Second
)

var checkpointColumns = []string{"lane", "stream", "agent", "epoch", "commit", "next", "extras", "batches", "rows", "missing", "seen_ns"}

// expired is the time of a state that was folded into another.
const expired = -1

// save writes the states that changed since the last checkpoint, of the streams that are
// due: one insert, so all of a stream's or none.
func (l *lane) save(ctx context.Context, due func(*progress) bool) error {
	gone := l.book.Expired()
	for _, key := range gone {
		if p := l.streams[key.Stream]; p != nil {
			p.dirty[key] = true
			p.dirty[ledger.Sender{Agent: key.Agent, Stream: key.Stream, Epoch: ledger.FoldedEpoch}] = true
		}
	}
	var streams []string
	for name, p := range l.streams {
		if len(p.dirty) > 0 && due(p) {
			streams = append(streams, name)
		}
	}
	if len(streams) == 0 {
		return nil
	}
	slices.Sort(streams)
	var rows [][]any
	for _, name := range streams {
		p := l.streams[name]
		for key := range p.dirty {
			d := l.book.Get(key)
			seen := int64(expired)
			if d == nil {
				d = &ledger.Delivery{}
			} else {
				seen = d.Seen.UnixNano()
			}
			extras := slices.Sorted(maps.Keys(d.Extras))
			rows = append(rows, []any{l.number, name, key.Agent, key.Epoch, p.commit, d.Next, extras, d.Batches, d.Rows, d.Missing, seen})
		}
	}
	if err := l.a.write(ctx, checkpointsTable, checkpointColumns, rows...); err != nil {
		return fmt.Errorf("save checkpoint of lane %d: %w", l.number, err)
	}
	for _, name := range streams {
		p := l.streams[name]
		p.saved, p.savedAt = p.commit, l.a.options.Now()
		clear(p.dirty)
	}
	return nil
}

// checkpoint reads the last checkpoint of a stream in a lane.
func (a *Archive) checkpoint(ctx context.Context, number uint64, stream string) (states map[ledger.Sender]*ledger.Delivery, p *progress, err error) {
	states, p = map[ledger.Sender]*ledger.Delivery{}, &progress{dirty: map[ledger.Sender]bool{}}
	where := fmt.Sprintf("lane = %d AND stream = %s", number, literal(stream))
	err = a.checkpoints(a.consistent(ctx), where, func(_ uint64, key ledger.Sender, commit uint64, d *ledger.Delivery) {
		if p.commit = max(p.commit, commit); d != nil {
			states[key] = d
			if d.Seen.After(p.savedAt) {
				p.savedAt = d.Seen
			}
		}
	})
	p.saved = p.commit
	return states, p, err
}

// checkpoints passes the last saved state of each sender, nil for an expired one.
func (a *Archive) checkpoints(ctx context.Context, where string, pass func(lane uint64, key ledger.Sender, commit uint64, d *ledger.Delivery)) error {
	return a.query(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY lane, stream, agent, epoch, commit DESC LIMIT 1 BY lane, stream, agent, epoch",
		names(checkpointColumns), a.own(checkpointsTable), where), func(scan func(...any) error) error {
		var lane, commit uint64
		var key ledger.Sender
		var extras []uint64
		var seen int64
		d := &ledger.Delivery{Extras: map[uint64]bool{}}
		if err := scan(&lane, &key.Stream, &key.Agent, &key.Epoch, &commit, &d.Next, &extras, &d.Batches, &d.Rows, &d.Missing, &seen); err != nil {
			return err
		}
		for _, extra := range extras {
			d.Extras[extra] = true
		}
		d.Seen = time.Unix(0, seen)
		if seen == expired {
			d = nil
		}
		pass(lane, key, commit, d)
		return nil
	})
}

// saved is the last checkpoint of a lane in a stream.
type saved struct {
	commit uint64
	at     time.Time
}

// lastCheckpoints returns the last checkpoint of each lane, by stream.
func (a *Archive) lastCheckpoints(ctx context.Context) (map[string]map[uint64]saved, error) {
	all := map[string]map[uint64]saved{}
	err := a.query(a.consistent(ctx), "SELECT stream, lane, max(commit), max(seen_ns) FROM "+a.own(checkpointsTable)+" GROUP BY stream, lane", func(scan func(...any) error) error {
		var stream string
		var lane, commit uint64
		var seen int64
		if err := scan(&stream, &lane, &commit, &seen); err != nil {
			return err
		}
		if all[stream] == nil {
			all[stream] = map[uint64]saved{}
		}
		all[stream][lane] = saved{commit, time.Unix(0, seen)}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read checkpoints: %w", err)
	}
	return all, nil
}
