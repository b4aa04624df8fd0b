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
	if err := a.look(ctx, &w.Survey); err != nil {
		return archive.WindowsAnswer{}, err
	}
	if !w.Surveyed() {
		return w.Answer, nil
	}
	number := fmt.Sprintf("intDiv(%s, %d)", middle, int64(w.Answer.Step))
	from := fmt.Sprintf("FROM %s WHERE %s", a.table(measure.Flows.Name), where(&w.Survey))
	sql := fmt.Sprintf("SELECT %s AS w, %s %s GROUP BY w ORDER BY w", number, sums, from)
	if err := a.read(ctx, sql, nil, answer.Each(w.ReadSum)); err != nil {
		return archive.WindowsAnswer{}, err
	}
	err = a.readHistograms(ctx, []string{number}, from, w.Answer.Sampled, func(r answer.Row) *flows.Sum { return w.Find(r.Int(0)) })
	if err != nil {
		return archive.WindowsAnswer{}, err
	}
	return w.Answer, nil
}
