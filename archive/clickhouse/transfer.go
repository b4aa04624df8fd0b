package clickhouse

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"pillion.dev/archive"
	"pillion.dev/archive/ledger"
	"pillion.dev/archive/transfer"
	"pillion.dev/measure"
)

const (
	// copyLanes and those above it have rows of other archives: a number of lanes for each
	// source, of which each shard has one. No batches of agents are in them.
	copyLanes     = 1 << 32
	lanesOfSource = 1 << 16
	sourcesAtOnce = 1 << 24
)

var _ transfer.Target = (*Archive)(nil)

// receiver stores a copy: the rows of each shard in a lane of their own, whose commits are in
// the order of their arrival. How far the copy is follows from the rows themselves.
type receiver struct {
	a *Archive
	// first of the source's lanes.
	first uint64
	lane  func(agent string) uint64
	parts []*part // by shard
	// shapes are the columns of rows that are written, by stream.
	shapes map[string]*measure.Schema
}

// part is the lane of a shard.
type part struct {
	*lane
	// saved are the checkpoints of streams, rolling their roll-ups.
	saved   map[string]checkpointOfCopy
	rolling *rolling
	// unrolled rows since the last roll-up.
	unrolled int64
}

// Receive implements transfer.Target.
func (a *Archive) Receive(ctx context.Context, source string, laneOf func(agent string) uint64) (transfer.Receiver, error) {
	if laneOf == nil {
		laneOf = func(string) uint64 { return implicitLane }
	}
	sum := fnv.New64a()
	sum.Write([]byte(source))
	r := &receiver{a: a, first: copyLanes + sum.Sum64()%sourcesAtOnce*lanesOfSource, lane: laneOf, shapes: map[string]*measure.Schema{}}
	shards := uint64(len(a.shards))
	known := map[uint64]bool{}
	for shard := range shards {
		number := r.first + (shard+shards-r.first%shards)%shards // which is a lane of that shard
		last, err := a.lastOwner(ctx, number)
		if err != nil {
			return nil, fmt.Errorf("receive a copy: %w", err)
		}
		l := a.newLane(number, max(last+1, uint64(time.Now().UnixNano())))
		if err := l.take(ctx); err != nil {
			return nil, fmt.Errorf("receive a copy in lane %d: %w", number, err)
		}
		r.parts = append(r.parts, &part{lane: l, saved: map[string]checkpointOfCopy{}, rolling: &rolling{l: l, marks: map[*level]mark{}}})
		known[number] = true
	}
	return r, r.sameShards(ctx, known)
}

// sameShards returns an error if the copy began with another number of shards.
func (r *receiver) sameShards(ctx context.Context, known map[uint64]bool) error {
	return r.a.query(ctx, fmt.Sprintf("SELECT DISTINCT lane FROM %s WHERE lane >= %d AND lane < %d", r.a.own(lanesTable), r.first, r.first+lanesOfSource), func(scan func(...any) error) error {
		var number uint64
		if err := scan(&number); err != nil || known[number] {
			return err
		}
		return fmt.Errorf("receive a copy: it began with another number of shards than %d", len(r.parts))
	})
}

// Parts implements transfer.Receiver: rows of an agent are in the shard of its lane.
func (r *receiver) Parts(agents []string) [][]string {
	parts := make([][]string, len(r.parts))
	if len(parts) == 1 {
		return parts
	}
	for i := range parts {
		parts[i] = []string{}
	}
	for _, agent := range agents {
		shard := r.lane(agent) % uint64(len(parts))
		parts[shard] = append(parts[shard], agent)
	}
	return parts
}

// Define implements transfer.Receiver.
func (r *receiver) Define(ctx context.Context, streams []archive.Stream, shapes map[string]map[string]int) error {
	a := r.a
	if err := a.reload(ctx); err != nil {
		return err
	}
	c := &ledger.Commit{Schemas: map[string]*measure.Schema{}, Shapes: map[string]map[string]int{}}
	a.mutex.Lock()
	for _, s := range streams {
		want, err := defined(a.catalog.Schemas[s.Schema.Name], s.Schema)
		if err != nil {
			a.mutex.Unlock()
			return fmt.Errorf("define stream %q: %w", s.Schema.Name, err)
		}
		r.shapes[s.Schema.Name] = shapeOfCopy(s.Schema)
		if want != nil {
			c.Schemas[s.Schema.Name] = want
		}
		if _, set := a.retention[s.Schema.Name]; !set && s.Retention != (archive.Retention{}) {
			a.retention[s.Schema.Name], a.unsaved[s.Schema.Name] = s.Retention, true
		}
	}
	for agent, list := range shapes {
		for stream, columns := range list {
			if more := columns - a.catalog.Shapes[agent][stream]; more > 0 {
				if c.Shapes[agent] == nil {
					c.Shapes[agent] = map[string]int{}
				}
				c.Shapes[agent][stream] = more
			}
		}
	}
	a.mutex.Unlock()
	if err := a.extend(ctx, c); err != nil {
		return err
	}
	return a.saveRetention(ctx)
}

// defined is what the schema of a stream has to become, nil if it need not change.
func defined(have, source *measure.Schema) (*measure.Schema, error) {
	if i := source.Index(archive.ArrivalColumn); i >= 0 && source.Fields[i] != archive.ArrivalField {
		return nil, fmt.Errorf("%w: its column %q is not the time of arrival", archive.ErrSchema, archive.ArrivalColumn)
	}
	if have == nil {
		return source, nil
	}
	want, _, err := measure.Widen(have, source)
	if err != nil || slices.Equal(want.Fields, have.Fields) {
		return nil, err
	}
	return want, nil
}

// shapeOfCopy is the schema of the rows that transfer.Source passes.
func shapeOfCopy(source *measure.Schema) *measure.Schema {
	s := &measure.Schema{Name: source.Name, Fields: []measure.Field{{Name: archive.AgentColumn, Type: measure.String}}}
	for _, f := range source.Fields {
		if f.Name != archive.ArrivalColumn {
			s.Fields = append(s.Fields, f)
		}
	}
	s.Fields = append(s.Fields, archive.ArrivalField)
	return s
}

// SetDeliveries implements transfer.Receiver. A server reads the states of a lane once, with
// the first batch of each stream: they have to be complete by then.
func (r *receiver) SetDeliveries(ctx context.Context, states map[ledger.Sender]*ledger.Delivery, stopped bool) error {
	var version uint64 // grows with each batch
	for _, d := range states {
		version += uint64(d.Batches)
	}
	done, err := r.a.copyCheckpoint(ctx, r.first, "")
	if err != nil {
		return err
	}
	opened, err := r.opened(ctx)
	switch found := done.seen > 0; {
	case err != nil:
		return err
	case found && done.commit == version:
		return nil
	case opened && found && !stopped:
		return transfer.ErrContinued
	case opened && !stopped:
		return transfer.ErrOpened
	}
	byLane := map[uint64]map[ledger.Sender]*ledger.Delivery{}
	for key, d := range states {
		number := r.lane(key.Agent)
		if byLane[number] == nil {
			byLane[number] = map[ledger.Sender]*ledger.Delivery{}
		}
		byLane[number][key] = d
	}
	for _, number := range slices.Sorted(maps.Keys(byLane)) {
		if err := r.setLane(ctx, number, byLane[number], opened); err != nil {
			return fmt.Errorf("set delivery states of lane %d: %w", number, err)
		}
	}
	return r.a.writeCopyCheckpoint(ctx, r.first, "", checkpointOfCopy{commit: version})
}

// opened reports whether a server has used the archive.
func (r *receiver) opened(ctx context.Context) (bool, error) {
	lanes := uint64(0)
	err := r.a.query(r.a.consistent(ctx), fmt.Sprintf("SELECT count() FROM %s WHERE lane < %d", r.a.own(lanesTable), copyLanes), func(scan func(...any) error) error { return scan(&lanes) })
	if err != nil {
		return false, fmt.Errorf("read owners of lanes: %w", err)
	}
	return lanes > 0, nil
}

// setLane writes states as a checkpoint of a lane after its last commit.
func (r *receiver) setLane(ctx context.Context, number uint64, states map[ledger.Sender]*ledger.Delivery, opened bool) error {
	owner, err := r.a.lastOwner(ctx, number)
	if err != nil {
		return err
	}
	l := r.a.newLane(number, owner)
	if opened {
		if err := l.fence(ctx); err != nil {
			return fmt.Errorf("end its inserts: %w", err)
		}
	}
	for key, d := range states {
		if l.streams[key.Stream] == nil {
			if _, err := r.a.schema(ctx, key.Stream); err != nil { // a stream that was dropped
				continue
			}
			if err := l.load(ctx, key.Stream); err != nil {
				return err
			}
			l.streams[key.Stream].commit++
		}
		d = d.Clone()
		if have := l.book.Get(key); have != nil && opened {
			d.Merge(have)
		}
		if now := r.a.options.Now(); d.Seen.After(now) {
			d.Seen = now
		}
		l.book.Add(map[ledger.Sender]*ledger.Delivery{key: d})
		l.streams[key.Stream].dirty[key] = true
	}
	return l.save(ctx, func(*progress) bool { return true })
}

// checkpointOfCopy says how far a stream of a copy is complete.
type checkpointOfCopy struct {
	transfer.Position
	commit uint64
	seen   int64 // when it was saved; 0: never
}

// copyCheckpoint reads the checkpoint of a stream in a lane of a copy; the checkpoint without a stream is about
// delivery states.
func (a *Archive) copyCheckpoint(ctx context.Context, number uint64, stream string) (c checkpointOfCopy, err error) {
	where := fmt.Sprintf("lane = %d AND stream = %s", number, literal(stream))
	err = a.checkpoints(a.consistent(ctx), where, func(_ uint64, _ ledger.Sender, commit uint64, d *ledger.Delivery) {
		c = checkpointOfCopy{transfer.Position{Arrived: int64(d.Next), Same: d.Batches, Rows: d.Rows}, commit, d.Seen.UnixNano()}
	})
	if err != nil {
		return c, fmt.Errorf("read checkpoint of the copy: %w", err)
	}
	return c, nil
}

func (a *Archive) writeCopyCheckpoint(ctx context.Context, number uint64, stream string, c checkpointOfCopy) error {
	err := a.write(ctx, checkpointsTable, checkpointColumns,
		[]any{number, stream, "", uint64(0), c.commit, uint64(c.Arrived), []uint64{}, c.Same, c.Rows, int64(0), a.options.Now().UnixNano()})
	if err != nil {
		return fmt.Errorf("save checkpoint of the copy: %w", err)
	}
	return nil
}
