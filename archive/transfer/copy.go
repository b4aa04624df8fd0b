package transfer

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/archive"
)

const (
	// Limits of what is written at once.
	chunkRows  = 250_000
	chunkBytes = 32 << 20
	// progressEvery is how often Progress is called.
	progressEvery = time.Second
	retryAfter    = 5 * time.Second
)

// Options of a copy.
type Options struct {
	// Source names the source: a copy of another one does not go on with its rows.
	Source string
	// Lane returns the lane of an agent's batches; nil if the target is the archive of a single server.
	Lane func(agent string) uint64
	// Stopped: no server uses the target.
	Stopped bool
	// Ready is called once servers may use the target, with the number of delivery states.
	Ready func(states int)
	// Progress is called about once a second.
	Progress func(Progress)
	// Patience is how long a stream that cannot be copied is tried again, about every five seconds;
	// Failed is called each time.
	Patience time.Duration
	Failed   func(error)
	// ChunkRows is about how many rows are written at once; 0: 250,000.
	ChunkRows int64
}

// Progress of a copy.
type Progress struct {
	Stream string
	// Done rows of Total are in the target, New of them since this copy began.
	Done, Total, New int64
}

// Outcome compares a stream in both archives.
type Outcome struct {
	Stream string
	// Rows in the source, and those that were copied, now or earlier.
	Rows, Copied int64
	// Removed rows were copied, but are no longer in the source.
	Removed int64
}

// Complete reports whether all rows are copied, each once.
func (o *Outcome) Complete() bool { return o.Copied == o.Rows+o.Removed }

// copying is one run of Copy.
type copying struct {
	from     Source
	to       Receiver
	options  Options
	progress Progress
	reported time.Time
}

// Copy copies an archive, or what is missing of an earlier copy, into another. Delivery states come first: once
// Ready was called, servers may use the target while rows are copied. It returns the outcomes of all streams that
// were reached.
func Copy(ctx context.Context, from Source, to Target, options Options) ([]Outcome, error) {
	if options.ChunkRows == 0 {
		options.ChunkRows = chunkRows
	}
	c := &copying{from: from, options: options, reported: time.Now()}
	streams, err := from.Streams(ctx)
	if err != nil {
		return nil, err
	}
	if c.to, err = to.Receive(ctx, options.Source, options.Lane); err != nil {
		return nil, err
	}
	if err := c.to.Define(ctx, streams, from.Shapes()); err != nil {
		return nil, err
	}
	states := from.Deliveries()
	if err := c.to.SetDeliveries(ctx, states, options.Stopped); err != nil {
		return nil, err
	}
	if options.Ready != nil {
		options.Ready(len(states))
	}
	for _, s := range streams {
		c.progress.Total += s.Rows
	}
	var outcomes []Outcome
	for _, s := range streams {
		o, err := c.stream(ctx, s)
		outcomes = append(outcomes, o)
		if err != nil {
			return outcomes, fmt.Errorf("copy rows of %q: %w", s.Schema.Name, err)
		}
	}
	return outcomes, nil
}

// stream copies all parts of a stream.
func (c *copying) stream(ctx context.Context, s archive.Stream) (Outcome, error) {
	o := Outcome{Stream: s.Schema.Name}
	c.progress.Stream = o.Stream
	agents, err := c.from.Agents(ctx, o.Stream)
	if err != nil {
		return o, err
	}
	for part, some := range c.to.Parts(agents) {
		if some != nil && len(some) == 0 {
			continue
		}
		p := &partCopy{copying: c, stream: o.Stream, part: part, agents: some, before: c.progress.Done}
		one, err := p.patient(ctx)
		o.Rows, o.Copied, o.Removed = o.Rows+one.Rows, o.Copied+one.Copied, o.Removed+one.Removed
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

// advance notes rows that are in the target.
func (c *copying) advance(rows, fresh int64) {
	c.progress.Done += rows
	c.progress.New += fresh
	if now := time.Now(); c.options.Progress != nil && now.Sub(c.reported) >= progressEvery {
		c.reported = now
		c.options.Progress(c.progress)
	}
}

// partCopy copies a part of a stream.
type partCopy struct {
	*copying
	stream string
	part   int
	agents []string
	// before is the progress before the part.
	before int64
	// start is where the copy begins; skip are rows at its time that are copied already.
	start Position
	skip  int64
	chunk []arrow.RecordBatch
	rows  int64
	bytes uint64
}

// patient runs the copy until it succeeds, or fails for too long without progress.
func (p *partCopy) patient(ctx context.Context) (Outcome, error) {
	since, done := time.Now(), p.progress.Done
	for {
		o, err := p.run(ctx)
		if p.progress.Done > done {
			since, done = time.Now(), p.progress.Done
		}
		if err == nil || ctx.Err() != nil || time.Since(since) >= p.options.Patience {
			return o, err
		}
		if p.options.Failed != nil {
			p.options.Failed(err)
		}
		select {
		case <-ctx.Done():
			return o, ctx.Err()
		case <-time.After(min(retryAfter, p.options.Patience/2)):
		}
	}
}

// run copies what is missing.
func (p *partCopy) run(ctx context.Context) (o Outcome, err error) {
	defer p.drop()
	if p.start, err = p.to.Position(ctx, p.stream, p.part); err != nil {
		return o, err
	}
	p.progress.Done = p.before
	p.advance(p.start.Rows, 0)
	total, ranges, err := p.left(ctx, p.start)
	if err != nil {
		return o, err
	}
	p.skip = p.start.Same
	for _, r := range ranges {
		err := p.from.ByArrival(ctx, p.stream, p.agents, r, func(rows arrow.RecordBatch) error { return p.take(ctx, rows) })
		if err == nil {
			err = p.flush(ctx) // a range is within a day, and so is what is written at once
		}
		if err != nil {
			return o, err
		}
	}
	end, err := p.to.Position(ctx, p.stream, p.part)
	if err != nil {
		return o, err
	}
	left := rowsIn(ranges) - min(p.start.Same, rowsIn(ranges))
	o = Outcome{Rows: total, Copied: end.Rows, Removed: max(0, p.start.Rows-(total-left))}
	if !o.Complete() {
		return o, nil
	}
	return o, p.to.Finish(ctx, p.stream, p.part)
}

// left is the number of rows of the part in the source, and the ranges that are not copied.
func (p *partCopy) left(ctx context.Context, from Position) (total int64, ranges []Range, err error) {
	ranges, err = p.from.Ranges(ctx, p.stream, p.agents, math.MinInt64)
	if total = rowsIn(ranges); err != nil || from.Rows == 0 {
		return total, ranges, err
	}
	ranges, err = p.from.Ranges(ctx, p.stream, p.agents, from.Arrived)
	return total, ranges, err
}

func rowsIn(ranges []Range) (rows int64) {
	for _, r := range ranges {
		rows += r.Rows
	}
	return rows
}

// take adds rows to the chunk, without those that are copied already.
func (p *partCopy) take(ctx context.Context, rows arrow.RecordBatch) error {
	n := int64(0)
	if p.skip > 0 {
		arrived, ok := rows.Column(rows.Schema().FieldIndices(archive.ArrivalColumn)[0]).(*array.Timestamp)
		for ok && n < rows.NumRows() && n < p.skip && int64(arrived.Value(int(n))) == p.start.Arrived {
			n++
		}
		p.skip -= n
		if n < rows.NumRows() {
			p.skip = 0
		}
	}
	if n == rows.NumRows() {
		return nil
	}
	p.chunk = append(p.chunk, rows.NewSlice(n, rows.NumRows()))
	p.rows += rows.NumRows() - n
	for _, c := range rows.Columns() {
		p.bytes += c.Data().SizeInBytes()
	}
	if p.rows >= p.options.ChunkRows || p.bytes >= chunkBytes {
		return p.flush(ctx)
	}
	return nil
}

// flush writes the chunk.
func (p *partCopy) flush(ctx context.Context) error {
	if p.rows == 0 {
		return nil
	}
	if err := p.to.Write(ctx, p.stream, p.part, p.chunk); err != nil {
		return err
	}
	p.advance(p.rows, p.rows)
	p.drop()
	return nil
}

func (p *partCopy) drop() {
	for _, rows := range p.chunk {
		rows.Release()
	}
	p.chunk, p.rows, p.bytes = nil, 0, 0
}
