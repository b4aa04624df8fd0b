package duckdb

import (
	"context"
	"errors"
	"fmt"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/measure"
)

// Windows implements archive.Archive. An archive that never had a row of flows has
// no windows.
func (a *Archive) Windows(ctx context.Context, question archive.Windows) (archive.WindowsAnswer, error) {
	w, err := answer.NewWindows(question)
	if err != nil {
		return archive.WindowsAnswer{}, err
	}
	if _, err := a.known(measure.Flows.Name); errors.Is(err, archive.ErrUnknown) {
		return w.Answer, nil
	}
	err = a.reader(ctx, 0, func(ctx context.Context, c *connection) error {
		if err := c.look(ctx, &w.Survey); err != nil || !w.Surveyed() {
			return err
		}
		return c.askWindows(ctx, w)
	})
	if err != nil {
		return archive.WindowsAnswer{}, err
	}
	return w.Answer, nil
}

func (c *connection) askWindows(ctx context.Context, w *answer.Windows) error {
	where, arguments := where(&w.Survey)
	number := fmt.Sprintf("(%s // %d)::BIGINT", middle, int64(w.Answer.Step))
	from := fmt.Sprintf("FROM %s WHERE %s", tableOf(measure.Flows.Name), where)
	sql := fmt.Sprintf("SELECT %s AS w, %s %s GROUP BY w ORDER BY w", number, sums, from)
	if err := c.query(ctx, sql, arguments, answer.Each(w.ReadSum)); err != nil {
		return err
	}
	return c.askHistograms(ctx, number, from, arguments, w.Answer.Sampled, w.Find)
}
