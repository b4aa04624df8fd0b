package duckdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
)

// Windows implements archive.Archive. An archive that never had a row of flows has
// no windows.
func (a *Archive) Windows(ctx context.Context, question archive.Windows) (archive.WindowsAnswer, error) {
	span := question.To.Sub(question.From)
	if question.Step > 0 {
		question.Points = int(span/question.Step) + 1
	}
	if span <= 0 || question.Points < 1 || question.Points > pointsMax {
		return archive.WindowsAnswer{}, fmt.Errorf("%w: windows require a time range and 1 to %d points", archive.ErrQuery, pointsMax)
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
	answer.Windows = w.windows
	return answer, nil
}

// align extends the range to whole windows.
func (s *survey) align(step time.Duration) {
	from, to := s.from.UnixNano(), s.to.UnixNano()
	from -= from % int64(step)
	if rest := to % int64(step); rest != 0 {
		to += int64(step) - rest
	}
	s.from, s.to = time.Unix(0, from).UTC(), time.Unix(0, to).UTC()
}

// windowReader reads windows in their order: first the sums, then the histograms.
type windowReader struct {
	step    time.Duration
	windows []archive.Window
	at      int // window whose histogram is being read
}

func (w *windowReader) ask(ctx context.Context, c *connection, s *survey, every int64) error {
	where, arguments := s.where()
	number := fmt.Sprintf("(%s // %d)::BIGINT", middle, int64(w.step))
	from := fmt.Sprintf("FROM %s WHERE %s", tableOf(measure.Flows.Name), where)
	if err := c.query(ctx, fmt.Sprintf("SELECT %s AS w, %s %s GROUP BY w ORDER BY w", number, sums, from), arguments, each(w.read)); err != nil {
		return err
	}
	return c.askHistograms(ctx, number, from, arguments, every, w.find)
}

func (w *windowReader) read(r resultRow) {
	sum, _ := r.sum(1)
	w.windows = append(w.windows, archive.Window{Start: w.start(r.int(0)), Sum: sum})
}

func (w *windowReader) start(number int64) time.Time {
	return time.Unix(0, number*int64(w.step)).UTC()
}

// find expects numbers in ascending order, and restarts at a lower one.
func (w *windowReader) find(number int64) *flows.Sum {
	start := w.start(number)
	if w.at == len(w.windows) || start.Before(w.windows[w.at].Start) {
		w.at = 0
	}
	for w.at < len(w.windows) && w.windows[w.at].Start.Before(start) {
		w.at++
	}
	if w.at == len(w.windows) {
		return nil
	}
	return &w.windows[w.at].Sum
}
