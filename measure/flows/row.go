// Package flows is the row of the stream flows: its fields by name, to and from
// samples and record batches, and the one sum of rows that windows, pairs, metrics
// and archives show.
//
// Rows come from agents and are not trusted: what is read from a batch is checked and
// bounded here, and nowhere else. The package decides neither which rows are added up,
// except in Elect, nor what is shown of them.
package flows

import (
	"fmt"
	"iter"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"pillion.dev/measure"
	"pillion.dev/measure/histogram"
)

const (
	// IntervalMax is the longest interval of a row; longer ones are cut to it.
	IntervalMax = time.Hour
	// TextMax bounds each text of a row, bytes.
	TextMax = 256
	// CountMax bounds the values of a distribution in one row, so that sums fit 128 bits.
	CountMax = 1 << 40
)

// Row is what was measured of a flow, or of several put together, in one interval.
type Row struct {
	// End of the interval, which is at most IntervalMax long.
	End      time.Time
	Interval time.Duration
	// Session asked for the row, the agent Source marked the packets, the agent
	// Destination read the marks on Device.
	Session, Source, Destination, Device string
	Flow
	Sum
	// DestinationClock and SourceClock bound the errors of the two clocks.
	DestinationClock, SourceClock Bound
}

// Flow is one flow; fields in which those put together differ are zero.
type Flow struct {
	Src, Dst, Proto string
	Sport, Dport    uint32
}

// Middle of the interval, which tells the window that the row belongs to.
func (r *Row) Middle() time.Time { return r.End.Add(-r.Interval / 2) }

// Sample appends the row in the order of measure.Flows.
func (r *Row) Sample(to measure.Sample) measure.Sample {
	for _, get := range inOrder {
		to = append(to, get(r))
	}
	return to
}

// Rows reads a record batch of flows that an agent delivered, but for rows without a
// time. A column that is missing or of another type holds nulls. The row is good until the next one, its texts and
// lists until the record is released. An error ends the rows.
func Rows(agent string, record arrow.RecordBatch) iter.Seq2[*Row, error] {
	agent = cut(agent)
	return func(yield func(*Row, error) bool) {
		for row, err := range Stored(record) {
			if err == nil {
				row.Destination = agent
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// Stored is Rows for a record batch of the archive, which has the agent in a column.
func Stored(record arrow.RecordBatch) iter.Seq2[*Row, error] {
	names := make([]string, record.NumCols())
	for i := range names {
		names[i] = record.ColumnName(i)
	}
	return func(yield func(*Row, error) bool) {
		scanner := NewScanner(names)
		for i := range int(record.NumRows()) {
			row, err := scanner.scanRecord(record, i)
			if err != nil {
				yield(nil, fmt.Errorf("read rows of flows: %w", err))
				return
			}
			if !row.End.IsZero() && !yield(row, nil) {
				return
			}
		}
	}
}

// Scanner reads rows whose columns have the names, in this order.
type Scanner struct {
	columns []column
	draft   draft
}

// NewScanner ignores columns that flows does not have.
func NewScanner(names []string) *Scanner {
	s := &Scanner{columns: make([]column, len(names))}
	for i, name := range names {
		s.columns[i] = columns[name]
	}
	return s
}

// Scan reads one row, which is valid until the next call; value returns the value of a column.
func (s *Scanner) Scan(value func(column int) measure.Value) *Row {
	s.draft = draft{}
	for i, c := range s.columns {
		if c.set == nil {
			continue
		}
		if v := value(i); v.Type() == c.kind {
			c.set(&s.draft, v)
		}
	}
	return s.draft.finish()
}

// scanRecord turns the panic of Arrow at damaged offsets into an error.
func (s *Scanner) scanRecord(record arrow.RecordBatch, i int) (row *Row, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("row %d: %v", i, cause)
		}
	}()
	return s.Scan(func(column int) measure.Value {
		value, _ := measure.ValueAt(record.Column(column), i)
		return value
	}), nil
}

// draft is a row that is being read.
type draft struct {
	Row
	delay, ipdv partial
}

// partial is a distribution of which some columns may be missing.
type partial struct{ count, min, mean, max, bounds, counts, offsets measure.Value }

func (d *draft) finish() *Row {
	r := &d.Row
	r.Interval = max(0, min(r.Interval, IntervalMax))
	r.Delay, r.IPDV = d.delay.finish(), d.ipdv.finish()
	if r.DestinationClock.Known && r.SourceClock.Known {
		r.Sum.ClockError = BoundOf(int64(min(uint64(r.DestinationClock.Ns)+uint64(r.SourceClock.Ns), math.MaxInt64)))
	}
	return r
}

// finish is empty unless the distribution has a count, a mean and extremes.
func (p *partial) finish() Distribution {
	count, least, mean, most := p.count.Uint64(), p.min.Int64(), p.mean.Int64(), p.max.Int64()
	if count == 0 || count > CountMax || p.min.IsNull() || p.mean.IsNull() || p.max.IsNull() || least > most {
		return Distribution{}
	}
	h := histogram.Histogram{Bounds: signed(p.bounds.List()), Counts: p.counts.List()}
	if !p.offsets.IsNull() {
		h.Offsets = p.offsets.List()
	}
	if h.Validate() != nil {
		h = histogram.Histogram{}
	}
	return NewDistribution(count, least, mean, most, h)
}

// signed reads the same memory.
func signed(list []uint64) []int64 {
	return arrow.Int64Traits.CastFromBytes(arrow.Uint64Traits.CastToBytes(list))
}

// cut bounds a text from outside and makes it valid for messages. It copies only what
// it changes.
func cut(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), TextMax)], "\uFFFD")
	for len(text) > TextMax {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}

// WholeMean rounds toward zero; of one row it is as measured. It needs a value.
func (d *Distribution) WholeMean() int64 {
	mean, _ := d.Total.Div(decimal128.FromU64(d.Count))
	return int64(mean.LowBits())
}
