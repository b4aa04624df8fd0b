package answer

import (
	"cmp"
	"fmt"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure/flows"
)

// pointsMax is the most windows of an answer, and points of a line.
const pointsMax = 100_000

// Windows builds the answer to archive.Windows, of rows in the order of the windows: first
// the sums, then the histograms.
type Windows struct {
	Survey
	Answer archive.WindowsAnswer
	// Least is the shortest window for which there are rows or sums of rows, unless the
	// question has a step.
	Least time.Duration

	question archive.Windows
	at       int // window whose histogram is being read
}

// NewWindows checks a question. Until rows are read the answer is that there are none.
func NewWindows(question archive.Windows) (*Windows, error) {
	span := question.To.Sub(question.From)
	if question.Step > 0 {
		question.Points = int(span/question.Step) + 1
	}
	if span <= 0 || question.Points < 1 || question.Points > pointsMax {
		return nil, fmt.Errorf("%w: windows require a time range and 1 to %d points", archive.ErrQuery, pointsMax)
	}
	least := (span + time.Duration(question.Points) - 1) / time.Duration(question.Points)
	return &Windows{
		Survey:   newSurvey(question.Selection, question.From, question.To, question.Before),
		Answer:   archive.WindowsAnswer{Step: cmp.Or(question.Step, archive.StepOf(least)), Sampled: 1},
		question: question,
	}, nil
}

// Surveyed ends the survey and reports whether there are rows to read: the rows of the extended range, in windows
// of Answer.Step. Histograms are read from one row in every Answer.Sampled.
func (w *Windows) Surveyed() bool {
	w.Elect()
	w.Answer.Sessions = w.Sessions
	if w.Rows == 0 {
		return false
	}
	if w.question.Step == 0 {
		w.Answer.Step = max(w.Answer.Step, archive.StepOf(w.Interval), w.Least)
	}
	w.Answer.Sampled = every(w.Parts, w.question.Sample)
	w.align(w.Answer.Step)
	return true
}

// ReadSum reads the number of a window and its sum.
func (w *Windows) ReadSum(r Row) {
	sum, _ := r.Sum(1)
	w.Answer.Windows = append(w.Answer.Windows, archive.Window{Start: w.start(r.Int(0)), Sum: sum})
}

func (w *Windows) start(number int64) time.Time {
	return time.Unix(0, number*int64(w.Answer.Step)).UTC()
}

// Find returns the sum of a window, or nil. It expects numbers in ascending order, and
// restarts at a lower one.
func (w *Windows) Find(number int64) *flows.Sum {
	start, all := w.start(number), w.Answer.Windows
	if w.at == len(all) || start.Before(all[w.at].Start) {
		w.at = 0
	}
	for w.at < len(all) && all[w.at].Start.Before(start) {
		w.at++
	}
	if w.at == len(all) || !all[w.at].Start.Equal(start) {
		return nil
	}
	return &all[w.at].Sum
}
