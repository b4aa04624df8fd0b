package query

import (
	"context"
	"fmt"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/measure/flows"
)

// Windows answers archive.Windows. An archive that never had a row of flows has no windows.
func Windows(ctx context.Context, e Engine, question archive.Windows) (archive.WindowsAnswer, error) {
	w, err := answer.NewWindows(question)
	if err != nil {
		return archive.WindowsAnswer{}, err
	}
	plan, err := survey(ctx, e, &w.Survey)
	if err != nil {
		return archive.WindowsAnswer{}, err
	}
	if plan == nil {
		return w.Answer, nil
	}
	if w.Least = plan.Kept(w.From); w.Surveyed() {
		if err := readWindows(ctx, e, w, plan.Source(&w.Survey, w.Answer.Step)); err != nil {
			return archive.WindowsAnswer{}, err
		}
	}
	return w.Answer, nil
}

// readWindows asks for sums and histograms at once.
func readWindows(ctx context.Context, e Engine, w *answer.Windows, source Source) error {
	number := numbered(int64(w.Answer.Step))
	from, r, keys := source.grouped([]expression{number}, sumNames...)
	sql := fmt.Sprintf("SELECT %s AS w, %s %s GROUP BY w ORDER BY w", keys[0], r.sums(), from)
	g, ctx := group(ctx, e)
	summed := make(chan struct{})
	g.Go(func() error {
		defer close(summed)
		return e.Read(ctx, sql, nil, answer.Each(w.ReadSum))
	})
	g.Go(func() error {
		return readHistograms(ctx, e, source, []expression{number}, w.Answer.Sampled, func(r answer.Row) *flows.Sum {
			<-summed
			return w.Find(r.Int(0))
		})
	})
	return g.Wait()
}
