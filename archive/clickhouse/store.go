package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"pillion.dev/archive"
	"pillion.dev/archive/ledger"
)

const (
	// Limits of one insert.
	blockRows  = 1_000_000
	blockBytes = 48 << 20
	// insertMost is how long a block is retried.
	insertMost = 60 * time.Second
	retryAfter = 50 * time.Millisecond
	// turnMost is the longest pause while another server inserts into the same table.
	turnMost = 20 * time.Millisecond
)

// Store stores batches in the lane of servers that share the archive with no other. A server
// that does not know of this one takes the lane over, which is noticed and costs time.
func (a *Archive) Store(ctx context.Context, batches []archive.Batch) ([]bool, map[int]error, error) {
	a.storing.Lock()
	defer a.storing.Unlock()
	if a.implicit == nil || a.implicit.fenced {
		l, err := a.openLane(ctx, implicitLane, uint64(time.Now().UnixNano()))
		if err != nil {
			return nil, nil, fmt.Errorf("store %d batches: %w", len(batches), err)
		}
		if a.implicit != nil {
			a.implicit.rolling.stop()
		}
		a.implicit = l
	}
	return a.implicit.Store(ctx, batches)
}

// Store implements archive.Lane.
func (l *lane) Store(ctx context.Context, batches []archive.Batch) ([]bool, map[int]error, error) {
	l.turn.Lock()
	defer l.turn.Unlock()
	c, err := l.store(ctx, batches)
	if err != nil {
		return nil, nil, fmt.Errorf("store %d batches in lane %d: %w", len(batches), l.number, err)
	}
	return c.Stored, c.Rejected, nil
}

func (l *lane) store(ctx context.Context, batches []archive.Batch) (*ledger.Commit, error) {
	if l.fenced {
		return nil, archive.ErrFenced
	}
	if err := l.prepare(ctx, batches); err != nil {
		return nil, err
	}
	l.a.mutex.Lock()
	c := l.book.Plan(l.a.catalog, batches, l.a.options.Now())
	l.a.mutex.Unlock()
	if err := l.a.extend(ctx, c); err != nil {
		return nil, err
	}
	streams := slices.Sorted(maps.Keys(c.Streams))
	failures := make([]error, len(streams))
	var group sync.WaitGroup
	for i, stream := range streams {
		p := l.streams[stream]
		if p == nil {
			if err := l.load(ctx, stream); err != nil { // a new table
				return nil, err
			}
			p = l.streams[stream]
		}
		group.Go(func() { failures[i] = l.commit(ctx, c, stream, p) })
	}
	group.Wait()
	if err := errors.Join(failures...); err != nil {
		l.doubt = true
		for _, stream := range streams { // what is stored is read again
			l.forget(stream)
		}
		return nil, err
	}
	l.book.Accept(c)
	empty := false
	for key := range c.States {
		l.streams[key.Stream].dirty[key] = true
	}
	for _, i := range c.Fresh() {
		if c.Batches[i].Record.NumRows() == 0 { // no row has its state
			p := l.streams[c.Batches[i].Stream]
			p.savedAt, empty = time.Time{}, true
		}
	}
	err := l.save(ctx, func(p *progress) bool {
		return p.commit-p.saved >= checkpointCommits || l.a.options.Now().Sub(p.savedAt) >= checkpointEvery
	})
	if err != nil && empty {
		for _, stream := range streams {
			l.forget(stream)
		}
		return nil, err
	}
	return c, nil
}

// prepare reads the states of the streams of batches, as far as there are tables.
func (l *lane) prepare(ctx context.Context, batches []archive.Batch) error {
	if l.doubt {
		if err := l.fence(ctx); err != nil {
			return fmt.Errorf("end the inserts that failed: %w", err)
		}
		l.doubt = false
	}
	for i := range batches {
		stream := batches[i].Stream
		if l.streams[stream] != nil {
			continue
		}
		if _, err := l.a.schema(ctx, stream); errors.Is(err, archive.ErrUnknown) {
			continue
		} else if err != nil {
			return err
		}
		if err := l.load(ctx, stream); err != nil {
			return err
		}
	}
	return nil
}

func (l *lane) forget(stream string) {
	delete(l.streams, stream)
	l.book.Forget(stream)
}

// commit inserts the new batches of a stream.
func (l *lane) commit(ctx context.Context, c *ledger.Commit, stream string, p *progress) error {
	schema, err := l.a.schema(ctx, stream)
	if err != nil {
		return err
	}
	var batches []*archive.Batch
	rows, bytes := int64(0), uint64(0)
	flush := func() error {
		if len(batches) == 0 {
			return nil
		}
		b := &block{schema: schema, batches: batches, lane: l.number, owner: l.owner, commit: p.commit + 1, at: c.At}
		if rows > 0 {
			if err := l.insert(ctx, b, p); err != nil {
				return fmt.Errorf("stream %q: %w", stream, err)
			}
		}
		p.commit++
		batches, rows, bytes = nil, 0, 0
		return nil
	}
	for _, i := range c.Streams[stream] {
		one := &c.Batches[i]
		n, size := one.Record.NumRows(), sizeOf(one)
		if rows+n > blockRows || bytes+size > blockBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		batches, rows, bytes = append(batches, one), rows+n, bytes+size
	}
	return flush()
}

// sizeOf is the size of a batch in memory.
func sizeOf(b *archive.Batch) (bytes uint64) {
	for _, c := range b.Record.Columns() {
		bytes += c.Data().SizeInBytes()
	}
	return bytes
}

// insert sends a block to one replica, on an error again to the next. The servers recognise
// what they have; where they do not, it is read.
func (l *lane) insert(ctx context.Context, b *block, p *progress) error {
	done, err := l.a.turn(ctx, l.replicas[0].shard, b.schema.Name)
	if err != nil {
		return fmt.Errorf("wait for other lanes: %w", err)
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, insertMost)
	defer cancel()
	var failed error
	doubt := false
	for try := 0; ctx.Err() == nil; try++ {
		n := l.replicas[(int(b.lane)+try)%len(l.replicas)]
		if doubt && !l.a.recognises(n) {
			if err := l.fence(ctx); err != nil {
				return err
			}
			if err := l.owned(ctx, b.schema.Name, b.commit, b.at); err == nil {
				return nil
			} else if !errors.Is(err, errOtherOwner) {
				return err
			}
		}
		err := l.a.ensure(ctx, n)
		if err == nil {
			err = l.a.insert(ctx, n, b, fmt.Sprintf("%s%d-%s-%d-%d", l.queryPrefix(), l.owner, b.schema.Name, b.commit, try))
			doubt = doubt || err != nil && code(err) != codeQuorumPending
		}
		if err == nil {
			if p.verified && !doubt {
				return nil
			}
			p.verified = true
			return l.owned(ctx, b.schema.Name, b.commit, b.at)
		}
		failed = fmt.Errorf("node %s: %w", n.address, err)
		if !retryable(err) {
			n.forget(b.schema.Name) // its columns may be others now
			return failed
		}
		if code(err) == codeQuorumPending { // another server's turn is short
			_ = pause(ctx, rand.N(turnMost))
			continue
		}
		l.a.complete(ctx, err)
		if try%len(l.replicas) == len(l.replicas)-1 {
			_ = pause(ctx, retryAfter)
		}
	}
	return errors.Join(failed, ctx.Err())
}

// recognises reports whether a repeated insert is dropped.
func (a *Archive) recognises(n *node) bool {
	if a.replicated() {
		return true
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.server != nil && n.server.tokens
}

// retryable reports whether the same block may be taken later or by another replica.
func retryable(err error) bool {
	c := code(err)
	return c == 0 || slices.Contains([]int32{
		codeReadOnly, codeTooManyParts, codeQuorumPending, codeFewReplicas, codeUnknownOutcome, codeNotInQuorum, codeKeeper, codeNoKeeper, codeCancelled, codeTimeout, codeNoActive, codeUnknownTable,
	}, c)
}

// Delivered implements archive.Archive: the sums of all lanes, of other servers too.
func (a *Archive) Delivered(ctx context.Context, agent string) (map[string]archive.Delivered, error) {
	if err := a.reload(ctx); err != nil {
		return nil, err
	}
	last, err := a.lastCheckpoints(ctx)
	if err != nil {
		return nil, err
	}
	states := map[uint64]map[ledger.Sender]*ledger.Delivery{}
	in := func(lane uint64) map[ledger.Sender]*ledger.Delivery {
		if states[lane] == nil {
			states[lane] = map[ledger.Sender]*ledger.Delivery{}
		}
		return states[lane]
	}
	err = a.checkpoints(a.consistent(ctx), "agent = "+literal(agent), func(lane uint64, key ledger.Sender, _ uint64, d *ledger.Delivery) {
		if d != nil {
			in(lane)[key] = d
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read checkpoints of %q: %w", agent, err)
	}
	for _, stream := range a.names() {
		// Without a checkpoint of some lane, all its rows count.
		err := a.query(ctx, laterBatches(a.table(stream), fmt.Sprintf("agent = %s AND %s < %d AND NOT %s", literal(agent), laneColumn, copyLanes, covered(last[stream])), 0, time.Time{}), func(scan func(...any) error) error {
			var one later
			if err := scan(one.fields()...); err != nil {
				return err
			}
			one.replay(in(one.lane), ledger.Sender{Agent: agent, Stream: stream, Epoch: one.epoch})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read batches of %q in %q: %w", agent, stream, err)
		}
	}
	out := map[string]archive.Delivered{}
	for _, all := range states {
		for key, d := range all {
			sum := out[key.Stream]
			sum.Batches, sum.Rows, sum.Missing = sum.Batches+d.Batches, sum.Rows+d.Rows, sum.Missing+d.Missing
			out[key.Stream] = sum
		}
	}
	return out, nil
}
