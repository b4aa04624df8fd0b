// Package live adds up rows of the stream flows as they are stored: in windows of
// time for those who watch one pair of hosts, and by the second for those who watch
// all. What it adds up is forgotten soon; the archive has the rest.
//
// It decides nothing about who may watch. In the flow it stands beside the archive,
// between ingest and the API.
package live

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/archive"
	"pillion.dev/measure"
)

// textMost bounds what an agent can put into a text that is kept.
const textMost = 256

// figures are the columns of one distribution.
type figures struct {
	count                         func(int) (uint64, bool)
	min, mean, p50, p90, p99, max func(int) (int64, bool)
}

// rows reads a batch of flows by the names of its columns. A column that is missing,
// or of another type, has nothing but nulls.
type rows struct {
	agent                                                       string
	n                                                           int
	time, interval, ours, theirs                                func(int) (int64, bool)
	session, source, src, dst, proto                            func(int) string
	sport, dport                                                func(int) uint32
	packets, bytes, expected, lost, duplicated, reordered, late func(int) (uint64, bool)
	delay, ipdv                                                 figures
	bounds, counts                                              *array.List
	lower                                                       *array.Int64
	number                                                      *array.Uint64
}

func rowsOf(batch archive.Batch) *rows {
	column := func(name string) arrow.Array {
		if j := batch.Schema.Index(name); j >= 0 && int64(j) < batch.Record.NumCols() {
			return batch.Record.Column(j)
		}
		return nil
	}
	signed := func(name string) func(int) (int64, bool) { return signedAt(column(name)) }
	count := func(name string) func(int) (uint64, bool) { return countAt(column(name)) }
	text := func(name string) func(int) string { return textAt(column(name)) }
	of := func(name string) figures {
		return figures{
			count(name + "_count"), signed(name + "_min_ns"), signed(name + "_mean_ns"), signed(name + "_p50_ns"),
			signed(name + "_p90_ns"), signed(name + "_p99_ns"), signed(name + "_max_ns"),
		}
	}
	r := &rows{
		agent: batch.Agent, n: int(batch.Record.NumRows()),
		time: signed(measure.TimeField.Name), interval: signed("interval_ns"),
		ours: signed("clock_error_ns"), theirs: signed("source_clock_error_ns"),
		session: text("session"), source: text("source"), src: text("src"), dst: text("dst"), proto: text("proto"),
		sport: portAt(column("sport")), dport: portAt(column("dport")),
		packets: count("packets"), bytes: count("bytes"), expected: count("expected"), lost: count("lost"),
		duplicated: count("duplicated"), reordered: count("reordered"), late: count("late"),
		delay: of("delay"), ipdv: of("ipdv"),
	}
	if bounds, ok := column("delay_bounds_ns").(*array.List); ok {
		r.lower, _ = bounds.ListValues().(*array.Int64)
		r.bounds = bounds
	}
	if counts, ok := column("delay_counts").(*array.List); ok {
		r.number, _ = counts.ListValues().(*array.Uint64)
		r.counts = counts
	}
	return r
}

// span is when a row's interval ended, and how long it was.
func (r *rows) span(i int) (end time.Time, interval time.Duration, ok bool) {
	at, ok := r.time(i)
	length, _ := r.interval(i)
	return time.Unix(0, at), time.Duration(max(0, min(length, int64(archive.IntervalMax)))), ok
}

// buckets walks the histogram of a row. Two lists of different lengths are walked as
// far as both go.
func (r *rows) buckets(i int, each func(bound int64, n uint64)) {
	if r.lower == nil || r.number == nil || r.bounds.IsNull(i) || r.counts.IsNull(i) {
		return
	}
	from, to := r.bounds.ValueOffsets(i)
	first, last := r.counts.ValueOffsets(i)
	n := min(to-from, last-first)
	if from < 0 || first < 0 || from+n > int64(r.lower.Len()) || first+n > int64(r.number.Len()) {
		return
	}
	for j := range n {
		if a, b := int(from+j), int(first+j); r.lower.IsValid(a) && r.number.IsValid(b) {
			each(r.lower.Value(a), r.number.Value(b))
		}
	}
}

// clock is the bound of what both clocks together may be off, ns; NaN: unknown.
func (r *rows) clock(i int) float64 {
	ours, known := r.ours(i)
	theirs, both := r.theirs(i)
	if !known || !both {
		return math.NaN()
	}
	return max(0, float64(ours)+float64(theirs))
}

func signedAt(a arrow.Array) func(int) (int64, bool) {
	switch a := a.(type) {
	case *array.Int64:
		return func(i int) (int64, bool) {
			if a.IsNull(i) {
				return 0, false
			}
			return a.Value(i), true
		}
	case *array.Timestamp:
		unit := int64(a.DataType().(*arrow.TimestampType).Unit.Multiplier())
		return func(i int) (int64, bool) {
			if a.IsNull(i) {
				return 0, false
			}
			return int64(a.Value(i)) * unit, true
		}
	}
	return func(int) (int64, bool) { return 0, false }
}

func countAt(a arrow.Array) func(int) (uint64, bool) {
	counts, ok := a.(*array.Uint64)
	return func(i int) (uint64, bool) {
		if !ok || counts.IsNull(i) {
			return 0, false
		}
		return counts.Value(i), true
	}
}

func portAt(a arrow.Array) func(int) uint32 {
	ports, ok := a.(*array.Uint32)
	return func(i int) uint32 {
		if !ok || ports.IsNull(i) {
			return 0
		}
		return ports.Value(i)
	}
}

// textAt gives what belongs to the record.
func textAt(a arrow.Array) func(int) string {
	texts, ok := a.(*array.String)
	return func(i int) string {
		if !ok || texts.IsNull(i) {
			return ""
		}
		text := texts.Value(i)
		return text[:min(len(text), textMost)]
	}
}

// own is a text that may be kept, and is valid in a message.
func own(text string) string { return strings.ToValidUTF8(strings.Clone(text), "�") }

// survive turns what a batch that cannot be read does into an error.
func survive(err *error) {
	if cause := recover(); cause != nil {
		*err = fmt.Errorf("read rows of flows: %v", cause)
	}
}
