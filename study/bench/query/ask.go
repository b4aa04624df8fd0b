package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/archive/duckdb"
	"pillion.dev/study/bench/result"
)

const (
	firstPort = 10_000
	points    = 300
	hour      = 3600 // seconds
)

// question is about one flow: the weighted mean of its delay, the highest percentile and the packets lost, in steps.
type question struct {
	flow int
	from time.Time
	span int64 // seconds
}

// form is a way to ask.
type form struct {
	// stride is the distance of the flows of two questions, and so of their hours.
	stride int
	// ask returns the number of steps that have rows.
	ask func(ctx context.Context, a archive.Archive, q question) (steps int, err error)
}

// forms by name. The page asks for series; SQL runs in a process of its own.
var forms = map[string]form{
	"series": {stride: 37, ask: askSeries},
	"again":  {stride: 0, ask: askSeries},
	"sql":    {stride: 37, ask: askSQL},
}

func askCommand(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	path := f.String("archive", "archive.duckdb", "file that fill has made")
	name := f.String("form", "series", "series: another flow and hour each time; again: the same flow and hour; sql: as series, as a statement in SQL")
	rounds := f.Int("rounds", 20, "questions after the first one")
	return func(ctx context.Context) (result.Result, error) {
		asking, ok := forms[*name]
		if !ok {
			return nil, fmt.Errorf("invalid -form %q: want %s", *name, strings.Join(slices.Sorted(maps.Keys(forms)), ", "))
		}
		if *rounds < 1 {
			return nil, fmt.Errorf("invalid -rounds %d: want a positive number", *rounds)
		}
		seconds, err := secondsOf(ctx, *path)
		if err != nil {
			return nil, err
		}
		first, took, err := asking.time(ctx, *path, seconds, *rounds)
		if err != nil {
			return nil, err
		}
		return result.Result{
			"rows": seconds * flowCount, "first_ms": ms(first), "median_ms": ms(int64(took.Quantile(0.5))), "max_ms": ms(took[len(took)-1]),
		}, nil
	}
}

func ms(ns int64) float64 { return float64(ns) / 1e6 }

// secondsOf is the number of rows of each flow. The archive is closed again, so that the first question finds it as a
// server does after its start.
func secondsOf(ctx context.Context, path string) (int64, error) {
	a, err := duckdb.Open(path, duckdb.Options{})
	if err != nil {
		return 0, err
	}
	defer a.Close()
	streams, err := a.Streams(ctx)
	if err != nil {
		return 0, err
	}
	for _, s := range streams {
		if s.Schema.Name == flows.Name && s.Rows > 0 {
			return s.Rows / flowCount, nil
		}
	}
	return 0, fmt.Errorf("open archive %s: it has no rows of %s; make it with fill", path, flows.Name)
}

// time opens the archive and times a first question and more, in ns.
func (f form) time(ctx context.Context, path string, seconds int64, rounds int) (first int64, took result.Sample, err error) {
	a, err := duckdb.Open(path, duckdb.Options{})
	if err != nil {
		return 0, nil, err
	}
	defer a.Close()
	var all []int64
	for i := range rounds + 1 {
		q := questionOf(5+f.stride*i, seconds)
		begun := time.Now()
		steps, err := f.ask(ctx, a, q)
		all = append(all, int64(time.Since(begun)))
		if err != nil {
			return 0, nil, fmt.Errorf("ask for flow %d from %v: %w", q.flow, q.from, err)
		}
		if want := min(points, q.span); int64(steps) != want {
			return 0, nil, fmt.Errorf("ask for flow %d from %v: the answer has %d steps, not %d", q.flow, q.from, steps, want)
		}
	}
	return all[0], result.NewSample(all[1:]), nil
}

// questionOf is about one hour of one flow, or about all that there is.
func questionOf(flow int, seconds int64) question {
	flow %= flowCount
	span := min(int64(hour), seconds)
	return question{flow, start.Add(time.Duration(int64(flow)*7919%(seconds-span+1)) * time.Second), span}
}

func (q question) to() time.Time { return q.from.Add(time.Duration(q.span) * time.Second) }

func askSeries(ctx context.Context, a archive.Archive, q question) (int, error) {
	lines, err := a.Series(ctx, archive.Series{
		Stream: flows.Name, Where: map[string]string{"src": source(q.flow), "sport": fmt.Sprint(firstPort + q.flow)},
		Columns: []archive.Aggregate{{Column: "delay_mean_ns", Function: "avg", Weight: "delay_count"}, {Column: "delay_p99_ns", Function: "max"}, {Column: "lost", Function: "sum"}},
		From:    q.from, To: q.to(), Points: points,
	})
	if err != nil {
		return 0, err
	}
	if len(lines) != 1 {
		return 0, fmt.Errorf("the answer has %d lines", len(lines))
	}
	return len(lines[0].Times), nil
}

func askSQL(ctx context.Context, a archive.Archive, q question) (steps int, err error) {
	const layout = "2006-01-02 15:04:05"
	step := (q.span*1000 + points - 1) / points // ms, as Series rounds it
	sql := fmt.Sprintf(`SELECT (epoch_ms(time) - %d) // %d AS step, sum(delay_mean_ns * delay_count) / sum(delay_count) AS delay_mean_ns,
		max(delay_p99_ns) AS delay_p99_ns, sum(lost) AS lost FROM %s WHERE src = '%s' AND sport = %d AND time >= '%s' AND time < '%s' GROUP BY step ORDER BY step`,
		q.from.UnixMilli(), step, flows.Name, source(q.flow), firstPort+q.flow, q.from.Format(layout), q.to().Format(layout))
	err = a.Query(ctx, sql, nil, archive.Limits{}, func(r arrow.RecordBatch) error {
		steps += int(r.NumRows())
		return nil
	})
	return steps, err
}
