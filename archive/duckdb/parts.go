package duckdb

import (
	"pillion.dev/archive/ledger"

	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
)

const (
	// partsMost limits the transactions of one commit: queries need processors too.
	partsMost = 4
	// partRows is the minimum size of a transaction: a DuckDB row group, which is written
	// compressed to the file and not to the log.
	partRows = 122_880
)

// divide splits a commit into parts that can be written in parallel: all batches of a
// sender are in the same part.
func (c *commit) divide(most int) []*commit {
	rows, total := map[ledger.Sender]int64{}, int64(0)
	for _, i := range c.Fresh() {
		n := c.Batches[i].Record.NumRows()
		rows[ledger.SenderOf(&c.Batches[i])] += n
		total += n
	}
	n := min(int64(most), total/partRows, int64(len(rows)))
	if n < 2 {
		return []*commit{c}
	}
	parts, filled, place := make([]*commit, n), make([]int64, n), map[ledger.Sender]int{}
	for _, key := range slices.SortedFunc(maps.Keys(rows), func(a, b ledger.Sender) int { return cmp.Compare(rows[b], rows[a]) }) {
		emptiest := slices.Index(filled, slices.Min(filled))
		place[key] = emptiest
		filled[emptiest] += rows[key]
	}
	for k := range parts {
		parts[k] = &commit{ledger.Commit{At: c.At, Batches: c.Batches, Stored: make([]bool, len(c.Stored)), States: map[ledger.Sender]*ledger.Delivery{}, Streams: map[string][]int{}}}
	}
	for _, i := range c.Fresh() {
		key := ledger.SenderOf(&c.Batches[i])
		p := parts[place[key]]
		p.Stored[i], p.States[key] = true, c.States[key]
		p.Streams[key.Stream] = append(p.Streams[key.Stream], i)
	}
	return parts
}

// writeAtOnce writes the parts of a large commit in parallel, and returns those that are
// not on disk. A small commit is returned unwritten.
func (a *Archive) writeAtOnce(ctx context.Context, c *commit) (left []*commit, err error) {
	parts := c.divide(1 + len(a.more))
	if len(parts) == 1 || a.untidy() || a.shape(ctx, c) != nil {
		return []*commit{c}, nil // the caller's attempt reports the error
	}
	faults := make([]error, len(parts))
	var writing sync.WaitGroup
	for i, on := range append([]*connection{a.writer}, a.more...)[:len(parts)] {
		writing.Go(func() { faults[i] = a.fill(ctx, on, parts[i]) })
	}
	writing.Wait()
	if err := errors.Join(faults...); err != nil {
		if failed := a.recall(ctx); failed != nil {
			a.doubt = true
			return nil, errors.Join(err, failed)
		}
	}
	for i, p := range parts {
		if faults[i] == nil {
			a.accept(p)
		} else if !a.holds(p) {
			left = append(left, p)
		}
	}
	return left, nil
}
