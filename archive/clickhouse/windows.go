package clickhouse

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
)

// Windows implements archive.Archive. An archive that never had a row of flows has
// no windows.
func (a *Archive) Windows(ctx context.Context, question archive.Windows) (archive.WindowsAnswer, error) {
	w, err := answer.NewWindows(question)
	if err != nil {
		return archive.WindowsAnswer{}, err
	}
	if _, err := a.schema(ctx, measure.Flows.Name); errors.Is(err, archive.ErrUnknown) {
		return w.Answer, nil
	} else if err != nil {
		return archive.WindowsAnswer{}, err
	}
	plan, err := a.survey(ctx, &w.Survey)
	if err != nil {
		return archive.WindowsAnswer{}, err
	}
	w.Least = plan.kept(w.From)
	if !w.Surveyed() {
		return w.Answer, nil
	}
	if err := a.readWindows(ctx, w, plan.source(&w.Survey, w.Answer.Step)); err != nil {
		return archive.WindowsAnswer{}, err
	}
	return w.Answer, nil
}

// readWindows asks for sums and histograms at once.
func (a *Archive) readWindows(ctx context.Context, w *answer.Windows, source source) error {
	number := numbered(int64(w.Answer.Step))
	from, r, keys := source.grouped([]expression{number}, sumNames...)
	sql := fmt.Sprintf("SELECT %s AS w, %s %s GROUP BY w ORDER BY w", keys[0], r.sums(), from)
	group, ctx := errgroup.WithContext(ctx)
	summed := make(chan struct{})
	group.Go(func() error {
		defer close(summed)
		return a.read(ctx, sql, nil, answer.Each(w.ReadSum))
	})
	group.Go(func() error {
		return a.readHistograms(ctx, source, []expression{number}, w.Answer.Sampled, func(r answer.Row) *flows.Sum {
			<-summed
			return w.Find(r.Int(0))
		})
	})
	return group.Wait()
}
