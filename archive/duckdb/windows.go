package duckdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/histogram"
)

// Windows implements archive.Archive. An archive that never had a row of flows has
// no windows.
func (a *Archive) Windows(ctx context.Context, question archive.Windows) (archive.WindowsAnswer, error) {
	span := question.To.Sub(question.From)
	if question.Step > 0 {
		question.Points = int(span/question.Step) + 1
	}
	if span <= 0 || question.Points < 1 || question.Points > pointsMax {
		return archive.WindowsAnswer{}, fmt.Errorf("%w: windows want a range of time and 1 to %d points", archive.ErrQuery, pointsMax)
	}
	least := (span + time.Duration(question.Points) - 1) / time.Duration(question.Points)
	answer := archive.WindowsAnswer{Step: cmp.Or(question.Step, archive.StepOf(least)), Sampled: 1}
	if _, err := a.known(measure.Flows.Name); errors.Is(err, archive.ErrUnknown) {
		return answer, nil
	}
	s := &survey{selection: question.Selection, from: question.From, to: question.To, before: question.Before}
	w := &windowReader{}
	err := a.reader(ctx, 0, func(ctx context.Context, c *connection) error {
		if err := s.look(ctx, c); err != nil {
			return err
		}
		answer.Sessions = s.sessions
		if s.rows == 0 {
			return nil
		}
		if question.Step == 0 {
			answer.Step = max(answer.Step, archive.StepOf(s.interval))
		}
		answer.Sampled = every(s.rows, question.Sample)
		s.align(answer.Step)
		w.step = answer.Step
		return w.ask(ctx, c, s, answer.Sampled)
	})
	if err != nil {
		return archive.WindowsAnswer{}, err
	}
	for i := range w.windows {
		w.finish(i, question.Histograms)
	}
	answer.Windows = w.windows
	return answer, nil
}

// align moves the range outwards to whole windows.
func (s *survey) align(step time.Duration) {
	from, to := s.from.UnixNano(), s.to.UnixNano()
	from -= from % int64(step)
	if rest := to % int64(step); rest != 0 {
		to += int64(step) - rest
	}
	s.from, s.to = time.Unix(0, from).UTC(), time.Unix(0, to).UTC()
}

// windowReader builds windows: first all but the histograms, then these.
type windowReader struct {
	step      time.Duration
	windows   []archive.Window
	quantiles []int64 // rows with quantiles of their own
	at        int     // window whose histogram is being read
}

func (w *windowReader) ask(ctx context.Context, c *connection, s *survey, every int64) error {
	where, arguments := s.where()
	number := fmt.Sprintf("(%s // %d)::BIGINT", middle, int64(w.step))
	table := tableOf(measure.Flows.Name)
	sql := fmt.Sprintf("SELECT %s AS w, %s FROM %s WHERE %s GROUP BY w ORDER BY w", number, sums, table, where)
	if err := c.query(ctx, sql, arguments, w.read); err != nil {
		return err
	}
	sql = fmt.Sprintf(`SELECT w, bound, sum(n)::DOUBLE FROM (
		SELECT %s AS w, unnest(delay_bounds_ns) AS bound, unnest(delay_counts) AS n FROM %s WHERE %s AND %s)
		WHERE bound IS NOT NULL AND n > 0 GROUP BY w, bound ORDER BY w, bound`, number, table, where, thinned("time", every))
	return c.query(ctx, sql, arguments, w.readBuckets)
}

// thinned keeps one in so many rows, by a hash: the same ones each time.
func thinned(key string, every int64) string {
	if every <= 1 {
		return "true"
	}
	return fmt.Sprintf("hash(%s) %% %d = 0", key, every)
}

func (w *windowReader) read(r arrow.RecordBatch) error {
	numbers := r.Column(0).(*array.Int64)
	for i := range int(r.NumRows()) {
		reader := sumReader{r, 1}
		window, quantiles, _ := reader.window(i)
		window.Start = time.Unix(0, numbers.Value(i)*int64(w.step)).UTC()
		w.windows, w.quantiles = append(w.windows, window), append(w.quantiles, quantiles)
	}
	return nil
}

// readBuckets takes buckets in the order of windows.
func (w *windowReader) readBuckets(r arrow.RecordBatch) error {
	numbers, bounds, counts := r.Column(0).(*array.Int64), r.Column(1).(*array.Int64), r.Column(2).(*array.Float64)
	for i := range int(r.NumRows()) {
		start := numbers.Value(i) * int64(w.step)
		for w.at < len(w.windows) && w.windows[w.at].Start.UnixNano() < start {
			w.at++
		}
		if w.at == len(w.windows) {
			return nil
		}
		w.windows[w.at].Buckets.AddBucket(bounds.Value(i), countOf(counts.Value(i)))
	}
	return nil
}

// countOf is a sum as a count, at most the largest.
func countOf(sum float64) uint64 {
	if sum >= 1<<64 {
		return 1<<64 - 1
	}
	return uint64(sum)
}

// finish puts the quantiles in. One row has better ones of its own.
func (w *windowReader) finish(i int, histograms bool) {
	window := &w.windows[i]
	if w.quantiles[i] != 1 && !window.Buckets.Empty() {
		window.Delay.Spread(&window.Buckets)
	}
	if !histograms {
		window.Buckets = histogram.Histogram{}
	}
}
