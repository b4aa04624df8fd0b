package clickhouse

import (
	"context"
	"fmt"
	"strings"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/shopspring/decimal"

	"pillion.dev/archive"
	"pillion.dev/archive/query"
	"pillion.dev/measure/flows"
)

// rollBlock is the sums of some commits, as one block. A repeated one is the same: servers without
// tokens recognise it by that.
type rollBlock struct {
	level       *level
	after, next mark
	sums        []*rollSum
	at          time.Time
}

// insert rolls up the rows after a mark through the next one.
func (r *rolling) insert(ctx context.Context, v *level, after, next mark, from, to int64) error {
	l := r.l
	select {
	case l.a.rolls <- struct{}{}:
		defer func() { <-l.a.rolls }()
	case <-ctx.Done():
		return ctx.Err()
	}
	reading, cancel := context.WithTimeout(ctx, insertMost)
	defer cancel()
	sums, err := r.add(reading, v, after, next, from, to)
	if err != nil {
		return err
	}
	r.adapt(len(sums))
	ctx, cancel = context.WithTimeout(ctx, insertMost)
	defer cancel()
	b := &rollBlock{v, after, next, sums.sorted(), l.a.options.Now()}
	if err := r.store(ctx, b); err != nil {
		return err
	}
	commit, owner, err := r.last(ctx, v, after)
	if err == nil && owner > l.owner {
		return archive.ErrFenced
	}
	if err == nil && commit != next.commit {
		return fmt.Errorf("commits %d to %d were rolled up as %d", after.commit+1, next.commit, commit)
	}
	return err
}

// store inserts a block at one of the replicas.
func (r *rolling) store(ctx context.Context, b *rollBlock) error {
	l := r.l
	done, err := l.a.turn(ctx, l.replicas[0].shard, b.level.name)
	if err != nil {
		return fmt.Errorf("wait for other lanes: %w", err)
	}
	defer done()
	// A later owner registers before it ends inserts of this one, and this one was not inserting
	// while it read.
	if owner, err := l.a.lastOwner(ctx, l.number); err != nil {
		return fmt.Errorf("read owner: %w", err)
	} else if owner > l.owner {
		return archive.ErrFenced
	}
	for i := range l.replicas {
		n := l.replicas[(int(l.number)+i)%len(l.replicas)]
		if err = l.a.ensure(ctx, n); err == nil {
			err = r.storeAt(ctx, n, b)
		}
		if l.a.complete(ctx, err) {
			continue // nothing was inserted
		}
		if code(err) != 0 || err == nil || ctx.Err() != nil {
			break // without a code there was no connection; else what was done is read first
		}
	}
	return err
}

func (r *rolling) storeAt(ctx context.Context, n *node, b *rollBlock) error {
	f, err := n.identify(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, s := range summands {
		names = append(names, s.Name)
	}
	for _, of := range query.Distributions {
		names = append(names, packedColumn(of), unknownColumn(of))
	}
	names = append(names, laneColumn, commitColumn, ownerColumn, storedColumn)
	token := fmt.Sprintf("%d/%s/%d", r.l.number, b.level.shown, b.after.commit)
	id := fmt.Sprintf("%s%s-%d-%d", r.prefix(), b.level.shown, b.next.commit, time.Now().UnixNano())
	ctx = driver.Context(ctx, driver.WithQueryID(id), driver.WithSettings(f.insert(token, r.l.a.quorum())))
	batch, err := n.PrepareBatch(ctx, fmt.Sprintf("INSERT INTO %s (%s) VALUES", r.l.a.local(b.level.name), strings.Join(names, ", ")))
	if err != nil {
		return err
	}
	if err := b.fill(batch.Columns(), r.l); err != nil {
		_ = batch.Abort()
		return fmt.Errorf("encode sums: %w", err)
	}
	return batch.Send()
}

// fill appends the sums to the columns of an insert, in the order of summands.
func (b *rollBlock) fill(columns []column.Interface, l *lane) error {
	f := rollFiller{columns: columns, sums: b.sums}
	texts := filler{texts: map[string]*string{}}
	for i := range (rollKey{}).texts {
		put(&f, func(s *rollSum) *string { return texts.text(s.key.texts[i]) })
	}
	for i := range (rollKey{}).numbers {
		put(&f, func(s *rollSum) int64 { return s.key.numbers[i] })
	}
	put(&f, func(s *rollSum) int64 { return s.begun })
	put(&f, func(s *rollSum) int64 { return s.ended })
	put(&f, func(s *rollSum) uint64 { return s.rows })
	for i := range flows.CountNames {
		put(&f, func(s *rollSum) *uint64 { return known(*s.Counts.List()[i], s.counted[i]) })
	}
	put(&f, func(s *rollSum) *int64 { return known(s.ClockError.Ns, s.ClockError.Known) })
	for i := range query.Distributions {
		f.distribution(i)
	}
	for i := range query.Distributions {
		f.packed(i)
	}
	for _, value := range []uint64{l.number, b.next.commit, l.owner} {
		put(&f, func(*rollSum) uint64 { return value })
	}
	put(&f, func(*rollSum) time.Time { return b.at })
	return f.err
}

// rollFiller appends values of sums to columns, each the next one.
type rollFiller struct {
	columns []column.Interface
	sums    []*rollSum
	err     error
}

func (f *rollFiller) next() column.Interface {
	c := f.columns[0]
	f.columns = f.columns[1:]
	return c
}

// distribution appends one of the sums.
func (f *rollFiller) distribution(i int) {
	of := func(s *rollSum) *flows.Distribution { return s.distributions()[i] }
	put(f, func(s *rollSum) uint64 { return of(s).Count })
	put(f, func(s *rollSum) int64 { return of(s).Min })
	put(f, func(s *rollSum) int64 { return of(s).Max })
	put(f, func(s *rollSum) decimal.Decimal { return decimal.NewFromBigInt(of(s).Total.BigInt(), 0) })
	list(f, i, func(b *bucket) int64 { return b.bound })
	list(f, i, func(b *bucket) uint64 { return b.count })
	list(f, i, func(b *bucket) uint64 { return b.offsets })
	list(f, i, func(b *bucket) uint64 { return b.unknown })
}

// packed appends the histograms of a distribution as bytes.
func (f *rollFiller) packed(i int) {
	packed, unknown := make([]string, len(f.sums)), make([]string, len(f.sums))
	for j, s := range f.sums {
		head, tail := s.histograms[i].pack()
		packed[j], unknown[j] = string(head), string(tail)
	}
	for _, all := range [][]string{packed, unknown} {
		if to := f.next(); f.err == nil {
			_, f.err = to.Append(all)
		}
	}
}

// put appends a value of each sum.
func put[T any](f *rollFiller, value func(*rollSum) T) {
	all := make([]T, len(f.sums))
	for i, s := range f.sums {
		all[i] = value(s)
	}
	if to := f.next(); f.err == nil {
		_, f.err = to.Append(all)
	}
}

// list appends a value of each bucket of the histograms of a distribution.
func list[T any](f *rollFiller, distribution int, value func(*bucket) T) {
	to := f.next()
	var all []T
	for _, s := range f.sums {
		all = all[:0]
		for i := range s.histograms[distribution] {
			all = append(all, value(&s.histograms[distribution][i]))
		}
		if f.err == nil {
			f.err = to.AppendRow(all)
		}
	}
}

// known is nil for an unknown value.
func known[T any](value T, is bool) *T {
	if !is {
		return nil
	}
	return &value
}
