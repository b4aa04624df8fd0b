package routerreport

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"pillion.dev/internal/outfile"
	"pillion.dev/probe/router"
)

// Draw writes an HTML file that draws a profile, with a title and with a text for browsers that run no scripts.
type Draw func(w io.Writer, title, text string, profile any) error

// drawing is what the report draws: the summary, and what only charts show (ui/report/profile.ts).
type drawing struct {
	Summary   Summary           `json:"summary"`
	Scope     string            `json:"scope"`
	Hint      string            `json:"hint"`
	Intervals []json.RawMessage `json:"intervals"`
	Stride    int               `json:"stride"` // one in this many intervals
	Pairs     [][]buckets       `json:"pairs"`  // of each stage
	Queues    []counts          `json:"queues"`
	Breaks    breakCounts       `json:"breaks"`
}

type buckets struct {
	Bounds []int64  `json:"bounds"`
	Counts []uint64 `json:"counts"`
}

// counts are how often a departing packet found 0, 1, 2 and so on packets in the queue, itself included, and how often so many
// arrived between two departures.
type counts struct {
	Found   []uint64 `json:"found"`
	Arrived []uint64 `json:"arrived"`
}

type breakCounts struct {
	Length  buckets  `json:"length"`
	Between []uint64 `json:"between"`
}

func bucketsOf(d router.Distribution) buckets { return buckets{d.Bounds, d.Counts} }

func newDrawing(s Summary, over series) drawing {
	d := drawing{
		Summary: s, Scope: s.Environment.scope(), Intervals: over.intervals, Stride: over.stride,
		Breaks: breakCounts{bucketsOf(s.Breaks.Length.all), s.Breaks.between},
	}
	if s.Forwarded == 0 {
		d.Hint = s.Environment.idle()
	}
	for _, p := range s.Pairs {
		d.Pairs = append(d.Pairs, []buckets{bucketsOf(p.Stages.InputQueuing.all), bucketsOf(p.Stages.Processing.all), bucketsOf(p.Stages.OutputQueuing.all)})
	}
	for _, q := range s.Queues {
		d.Queues = append(d.Queues, counts{q.sizes, q.came})
	}
	return d
}

// page is the file of the report. It is created before anything is measured, so that
// an invalid path does not cost the user a measurement.
type page struct{ file *outfile.File }

func createPage(ctx context.Context, path outfile.Path) (*page, error) {
	if path == "" {
		return &page{}, nil
	}
	file, err := path.Create(ctx, 0o666)
	if err != nil {
		return nil, fmt.Errorf("create report: %w", err)
	}
	return &page{file}, nil
}

func (p *page) write(draw Draw, s Summary, over series) error {
	if p.file == nil {
		return nil
	}
	title := "Router profile of " + s.Environment.where() + ", " + s.Start.Local().Format("2006-01-02 15:04:05 MST")
	buffer := bufio.NewWriter(p.file)
	if err := cmp.Or(draw(buffer, title, summaryText(s), newDrawing(s, over)), buffer.Flush()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if err := p.file.Commit(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func (p *page) close() {
	if p.file != nil {
		p.file.Close() // the previous file is left if this one is not complete
	}
}
