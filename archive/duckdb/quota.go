package duckdb

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"pillion.dev/archive"
	"pillion.dev/internal/quota"
	"pillion.dev/measure"
)

// holding is what the archive keeps for one agent besides its rows.
type holding struct {
	sequences, gaps int
	// shapes are the streams that it created or extended, with the columns that it added.
	shapes map[string]int
	// swept is when its sequences were last searched for expired ones.
	swept time.Time
}

const (
	// supersededAfter is how long an agent has to deliver newer sequences of batches
	// before one that stays silent may expire. Spools deliver in the order of writing and
	// retry within seconds, so by then the agent holds no batch of the silent one.
	supersededAfter = time.Hour
	// silentMost is the age at which any silent sequence expires.
	silentMost = 366 * 24 * time.Hour
	sweepEvery = time.Minute
	// foldedEpoch has the counts of expired sequences of a stream.
	foldedEpoch = math.MaxUint64
	// emptyMost is how long a stream without rows is kept.
	emptyMost = 24 * time.Hour
)

func (a *Archive) holding(agent string) *holding {
	h := a.holdings[agent]
	if h == nil {
		h = &holding{shapes: map[string]int{}}
		a.holdings[agent] = h
	}
	return h
}

// recount counts what each agent has, after the states were read.
func (a *Archive) recount() {
	for _, h := range a.holdings {
		h.sequences, h.gaps = 0, 0
	}
	for key, d := range a.deliveries {
		h := a.holding(key.agent)
		h.sequences++
		h.gaps += len(d.extras)
	}
}

// admitSequence checks an agent's quota of sequences and gaps.
func (a *Archive) admitSequence(c *commit, key sender, state *delivery) error {
	if key.agent == archive.OwnAgent {
		return nil
	}
	a.cache.Lock()
	defer a.cache.Unlock()
	h := a.holding(key.agent)
	if state == nil {
		if limit := a.options.Quota.Sequences; h.sequences+c.sequences[key.agent] >= limit && !a.sweep(key.agent, h, c.at) {
			return &quota.Error{Quota: "sequences", Limit: int64(limit), Unit: "sequences of batches for each agent", Later: true,
				What: fmt.Sprintf("begin another sequence of batches of %q (every start of an agent begins one for each of its streams)", key.stream)}
		}
		c.sequences[key.agent]++
	} else if limit := a.options.Quota.Gaps; h.gaps >= limit && len(state.extras) > 0 {
		return &quota.Error{Quota: "gaps", Limit: int64(limit), Unit: "batches after a gap for each agent", Later: true,
			What: fmt.Sprintf("store a batch of %q whose predecessors have not arrived", key.stream)}
	}
	return nil
}

// sweep folds the expired sequences of an agent into one for each stream, and reports
// whether there were any.
func (a *Archive) sweep(agent string, h *holding, now time.Time) bool {
	if now.Sub(h.swept) < sweepEvery {
		return false
	}
	h.swept = now
	return a.expire(func(key sender, d *delivery) bool { return key.agent == agent && a.superseded(key, d, supersededAfter) })
}

// superseded reports whether a sequence has been silent for that long while its agent
// began and delivered another.
func (a *Archive) superseded(key sender, d *delivery, after time.Duration) bool {
	n := a.newest[key.agent]
	return n != nil && n.begun.After(d.seen) && n.seen.Sub(d.seen) >= after
}

// newest has when an agent last began a sequence, and when it last delivered a batch.
type newest struct{ begun, seen time.Time }

// heard notes a batch of a sequence. The caller holds the cache's lock.
func (a *Archive) heard(key sender, first bool, now time.Time) {
	n := a.newest[key.agent]
	if n == nil {
		n = &newest{}
		a.newest[key.agent] = n
	}
	if n.seen = now; first {
		n.begun = now
	}
}

// expire folds the sequences that are selected. The caller holds the cache's lock.
func (a *Archive) expire(selected func(sender, *delivery) bool) bool {
	found := false
	for key, d := range a.deliveries {
		if key.epoch == foldedEpoch || !selected(key, d) {
			continue
		}
		sum := sender{key.agent, key.stream, foldedEpoch}
		total := &delivery{}
		if before := a.deliveries[sum]; before != nil {
			total = before.clone()
		} else {
			a.holding(key.agent).sequences++
		}
		total.batches, total.rows, total.missing = total.batches+d.batches, total.rows+d.rows, total.missing+d.missing
		total.seen = d.seen
		a.deliveries[sum] = total
		delete(a.deliveries, key)
		h := a.holding(key.agent)
		h.sequences--
		h.gaps -= len(d.extras)
		found = true
	}
	// The log would bring them back.
	a.stale = a.stale || found
	return found
}

// expireSilent expires the sequences that have been silent for very long, and those
// superseded for a month. It needs writing.
func (a *Archive) expireSilent(now time.Time) {
	a.cache.Lock()
	defer a.cache.Unlock()
	a.expire(func(key sender, d *delivery) bool {
		return now.Sub(d.seen) >= silentMost || now.Sub(d.seen) >= 31*24*time.Hour && a.superseded(key, d, supersededAfter)
	})
}

// conform checks a batch of a stream whose columns the server defines: agents neither
// add columns nor change types. A column that this version does not know is refused
// temporarily: the batch is kept until the server is upgraded.
func conform(have, got *measure.Schema) error {
	want, err := merge(have, got)
	if err != nil {
		return err
	}
	for i, f := range want.Fields {
		if i >= len(have.Fields) {
			return fmt.Errorf("%w: %q has no column %q in this server: upgrade the server, or the agent sends what is not Pillion's", archive.ErrUnknownColumn, have.Name, f.Name)
		}
		if f.Type != have.Fields[i].Type {
			return fmt.Errorf("%w: column %q of %q is %v, not %v", archive.ErrSchema, f.Name, have.Name, have.Fields[i].Type, got.Fields[got.Index(f.Name)].Type)
		}
	}
	return nil
}

// admitShape returns the schema of the table that a batch needs, within its agent's
// quotas.
func (a *Archive) admitShape(c *commit, b *archive.Batch) (want *measure.Schema, changed bool, err error) {
	have := c.schemas[b.Stream]
	if have == nil {
		have = a.schemas[b.Stream]
	}
	known := have != nil
	if standard := measure.FindStandard(b.Stream); standard != nil {
		if !known {
			// As for all, so that the first agent to send a standard stream cannot choose column
			// types that do not match those of all others.
			have = standard
		}
		if b.Agent != archive.OwnAgent {
			if err := conform(have, b.Schema); err != nil {
				return nil, false, err
			}
			b = &archive.Batch{Agent: archive.OwnAgent, Key: b.Key, Schema: have} // what the table lacks is the server's
		}
	}
	if have == nil && len(a.schemas)+len(c.schemas) >= streamsMost {
		return nil, false, fmt.Errorf("store batch of %q: %w: limit of %d streams reached", b.Stream, archive.ErrSchema, streamsMost)
	}
	want = b.Schema
	if have != nil {
		if want, err = merge(have, b.Schema); err != nil {
			return nil, false, err
		}
	}
	if i := b.Schema.Index(archive.ArrivalColumn); !known && i >= 0 && b.Schema.Fields[i] != archive.ArrivalField {
		return nil, false, fmt.Errorf("%w: column %q of %q: the name is reserved", archive.ErrSchema, archive.ArrivalColumn, b.Stream)
	}
	want = withArrival(want)
	before := 0
	if known {
		before = len(have.Fields)
	}
	if added := len(want.Fields) - before; added > 0 && b.Agent != archive.OwnAgent {
		if want.Index(archive.ArrivalColumn) >= before {
			added--
		}
		if err := a.admitColumns(c, b, added); err != nil {
			return nil, false, err
		}
	}
	return want, !known || have.Doc != want.Doc || !slices.Equal(have.Fields, want.Fields), check(want)
}

func (a *Archive) admitColumns(c *commit, b *archive.Batch, added int) error {
	if added == 0 {
		return nil
	}
	streams, columns := map[string]bool{b.Stream: true}, added
	for _, shapes := range []map[string]int{a.holding(b.Agent).shapes, c.shapes[b.Agent]} {
		for stream, n := range shapes {
			streams[stream] = true
			columns += n
		}
	}
	if limit := a.options.Quota.Streams; len(streams) > limit {
		return &quota.Error{Quota: "streams", Limit: int64(limit), Unit: "streams for each agent", What: fmt.Sprintf("create stream %q", b.Stream)}
	}
	if limit := a.options.Quota.Columns; columns > limit {
		return &quota.Error{Quota: "columns", Limit: int64(limit), Unit: "columns for each agent", What: fmt.Sprintf("add %d columns to stream %q", added, b.Stream)}
	}
	if c.shapes[b.Agent] == nil {
		c.shapes[b.Agent] = map[string]int{}
	}
	c.shapes[b.Agent][b.Stream] += added
	return nil
}

// withArrival returns the schema of a table, which has the time of arrival.
func withArrival(s *measure.Schema) *measure.Schema {
	if s.Index(archive.ArrivalColumn) >= 0 {
		return s
	}
	return &measure.Schema{Name: s.Name, Doc: s.Doc, Fields: append(slices.Clone(s.Fields), archive.ArrivalField)}
}

// saveShapes notes in the running transaction who created or extended a stream.
func (a *Archive) saveShapes(ctx context.Context, c *commit, stream string) error {
	for agent, shapes := range c.shapes {
		if n := shapes[stream]; n > 0 {
			if err := a.writer.exec(ctx, "INSERT INTO pillion.shapes VALUES (?, ?, ?)", agent, stream, int64(n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadShapes reads them. The caller holds the cache's lock.
func (a *Archive) loadShapes(ctx context.Context) error {
	for _, h := range a.holdings {
		clear(h.shapes)
	}
	return a.writer.query(ctx, "SELECT agent, stream, columns FROM pillion.shapes", nil, each(func(r resultRow) {
		a.holding(r.text(0)).shapes[r.text(1)] += int(r.int(2))
	}))
}

// dropEmpty drops a stream that agents created, that has no rows and gets none. It needs
// writing.
func (a *Archive) dropEmpty(ctx context.Context, stream string, now time.Time) (bool, error) {
	if measure.FindStandard(stream) != nil || a.declared[stream] || now.Sub(a.used[stream]) < emptyMost {
		return false, nil
	}
	if a.used[stream].IsZero() {
		a.used[stream] = now
		return false, nil
	}
	err := a.writer.inTransaction(ctx, func() error {
		if err := a.writer.exec(ctx, "DROP TABLE "+tableOf(stream)); err != nil {
			return err
		}
		if err := a.writer.exec(ctx, "DELETE FROM pillion.shapes WHERE stream = ?", stream); err != nil {
			return err
		}
		return a.writer.exec(ctx, "DELETE FROM pillion.streams WHERE stream = ?", stream)
	})
	if err != nil {
		return false, err
	}
	a.cache.Lock()
	defer a.cache.Unlock()
	delete(a.schemas, stream)
	delete(a.used, stream)
	for _, h := range a.holdings {
		delete(h.shapes, stream)
	}
	return true, nil
}
