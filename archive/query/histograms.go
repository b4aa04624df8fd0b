package query

import (
	"context"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sync/errgroup"

	"pillion.dev/archive/answer"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
)

// group runs statements of a question at once, as many as the database can.
func group(ctx context.Context, e Engine) (*errgroup.Group, context.Context) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(e.Dialect().Concurrent)
	return g, ctx
}

// readHistograms adds the histograms of both distributions to the sums of rows; nil: to none. sum
// is called by one goroutine at a time.
func readHistograms(ctx context.Context, e Engine, s Source, keys []expression, every int64, sum func(answer.Row) *flows.Sum) error {
	var finding sync.Mutex
	g, ctx := group(ctx, e)
	for i, of := range Distributions {
		var turn sync.Mutex // protects the sums' histograms of this distribution
		find := func(row answer.Row) *histogram.Histogram {
			finding.Lock()
			defer finding.Unlock()
			if to := sum(row); to != nil {
				return &[...]*flows.Distribution{&to.Delay, &to.IPDV}[i].Histogram
			}
			return nil
		}
		buckets, packed := s.measuring(of, keys, every).histograms(of, keys)
		if buckets != "" {
			g.Go(func() error {
				return e.Read(ctx, buckets, nil, func(r arrow.RecordBatch) error {
					turn.Lock()
					defer turn.Unlock()
					answer.Buckets(r, len(keys), func(row int) *histogram.Histogram { return find(answer.RowOf(r, row)) })
					return nil
				})
			})
		}
		if packed != "" {
			g.Go(func() error { return e.(RollUps).ReadPacked(ctx, packed, len(keys), &turn, find) })
		}
	}
	return g.Wait()
}
