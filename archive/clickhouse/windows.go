package clickhouse

import (
	"context"
	"errors"
	"fmt"

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
	plan, err := a.plan(ctx)
	if err != nil {
		return archive.WindowsAnswer{}, err
	}
	if err := a.look(ctx, &w.Survey, plan); err != nil {
		return archive.WindowsAnswer{}, err
	}
	w.Least = plan.kept(w.From)
	if !w.Surveyed() {
		return w.Answer, nil
	}
	step := int64(w.Answer.Step)
	source := plan.source(&w.Survey, w.Answer.Step)
	from, r, keys := source.grouped([]expression{numbered(step)}, sumNames...)
	sql := fmt.Sprintf("SELECT %s AS w, %s %s GROUP BY w ORDER BY w", keys[0], r.sums(), from)
	if err := a.read(ctx, sql, nil, answer.Each(w.ReadSum)); err != nil {
		return archive.WindowsAnswer{}, err
	}
	err = a.readHistograms(ctx, source, []expression{numbered(step)}, w.Answer.Sampled, func(r answer.Row) *flows.Sum { return w.Find(r.Int(0)) })
	if err != nil {
		return archive.WindowsAnswer{}, err
	}
	return w.Answer, nil
}
