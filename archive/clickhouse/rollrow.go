package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/shopspring/decimal"

	"pillion.dev/archive/query"
	"pillion.dev/measure/flows"
)

// rollRow reads the rows that are added up, one after the other.
type rollRow struct {
	rollSum
	counts     [len(flows.CountNames)]*uint64
	clockError *int64
	// means are read from rows of flows, totals from rows of roll-ups.
	means  [len(query.Distributions)]int64
	totals [len(query.Distributions)]decimal.Decimal
	// texts are the lists of rows of flows, or packed histograms, and unknown their other half.
	texts, unknown [len(query.Distributions)]string
	// lists and buckets are memory.
	lists   [3][]uint64
	buckets packedHistogram
	// targets are the columns of rollColumns.
	targets []any
}

func newRollRow(of query.Representation) *rollRow {
	r := &rollRow{}
	add := func(targets ...any) { r.targets = append(r.targets, targets...) }
	for i := range r.key.texts {
		add(&r.key.texts[i])
	}
	for i := range r.key.numbers {
		add(&r.key.numbers[i])
	}
	add(&r.begun, &r.ended, &r.rows)
	for i := range r.counts {
		add(&r.counts[i])
	}
	add(&r.clockError)
	for i, d := range r.distributions() {
		add(&d.Count, &d.Min, &d.Max)
		if of.Raw {
			add(&r.means[i])
		} else {
			add(&r.totals[i])
		}
		add(&r.texts[i])
		if !of.Raw {
			add(&r.unknown[i])
		}
	}
	return r
}

// rollColumns are the SQL of the summands as rollRow reads them, in their order. ClickHouse 18.16
// cannot print large decimals; the driver reads them, and lists, more slowly than the rest.
func rollColumns(r query.Representation) string {
	var list []string
	for _, s := range summands {
		of, value, _ := strings.Cut(s.Name, "_")
		switch {
		case value == "bounds_ns" && r.Raw:
			list = append(list, histogramText(of))
		case value == "bounds_ns":
			list = append(list, packedColumn(of), unknownColumn(of))
		case strings.HasPrefix(s.Kind, "Array"):
		case value == "total_ns" && r.Raw:
			list = append(list, "toInt64(ifNull("+of+"_mean_ns, 0))")
		default:
			list = append(list, r.Of(s.Name))
		}
	}
	return strings.Join(list, ", ")
}

// histogramText is the SQL of the lists of the histogram of a row of flows, one after the other,
// - standing for one that the row does not have. They can be of different lengths.
func histogramText(of string) string {
	offsets := "'-'"
	if of == "delay" {
		offsets = fmt.Sprintf("if(%sdelay_offsets_ns = 1, '-', toString(delay_offsets_ns))", nullPrefix)
	}
	return fmt.Sprintf("concat(toString(%[1]s_bounds_ns), toString(%[1]s_counts), %[2]s)", of, offsets)
}

// rollReadRows are read in one block. Of the default size, a block takes 40 MB, and the server
// more of its processor.
const rollReadRows = 8192

// add reads the rows of a level's input after a mark through the next one, and adds them up.
func (r *rolling) add(ctx context.Context, v *level, after, next mark, from, to int64) (sums rollSums, err error) {
	table, of := v.input(r.l.a)
	where := query.All(since(time.Unix(0, from)), until(time.Unix(0, to+1)))
	sql := fmt.Sprintf("SELECT %s FROM %s PREWHERE %s WHERE %s", rollColumns(of), table, r.source(after, next.commit), where)
	settings := r.l.a.consistency()
	settings["max_threads"], settings["max_block_size"] = 1, rollReadRows
	ctx, cancel := context.WithCancel(driver.Context(ctx, driver.WithSettings(settings)))
	defer cancel()
	err = r.l.anyReplica(ctx, func(n *node) error {
		sums = rollSums{}
		row := newRollRow(of)
		return n.query(ctx, sql, func(scan func(...any) error) error {
			if err := scan(row.targets...); err != nil {
				return err
			}
			if err := row.finish(of, v.width); err != nil {
				return err
			}
			sums.add(&row.rollSum)
			if len(sums) > r.sumsMost && r.rows > rollRows {
				cancel() // so that no other replica is asked
				return errManySums
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read rows: %w", err)
	}
	return sums, nil
}

// finish makes a sum of what was read, for windows of a width.
func (r *rollRow) finish(of query.Representation, width time.Duration) error {
	r.key.numbers[timeNumber] -= r.key.numbers[timeNumber] % int64(width)
	for i, to := range r.Counts.List() {
		if *to, r.counted[i] = 0, r.counts[i] != nil; r.counted[i] {
			*to = *r.counts[i]
		}
	}
	if r.ClockError = (flows.Bound{}); r.clockError != nil {
		r.ClockError = flows.BoundOf(*r.clockError)
	}
	for i, d := range r.distributions() {
		if of.Raw {
			d.Total = decimal128.FromI64(r.means[i]).Mul(decimal128.FromU64(d.Count))
		} else {
			d.Total = decimal128.FromBigInt(unscaled(r.totals[i], 0))
		}
		if err := r.histogram(i, of, d.Count > 0); err != nil {
			return err
		}
	}
	return nil
}

// histogram reads the histogram of a distribution, which is empty unless it is measured and its lists are of the
// same length.
func (r *rollRow) histogram(i int, of query.Representation, measured bool) (err error) {
	to := &r.histograms[i]
	if *to = (*to)[:0]; !measured {
		return nil
	}
	if !of.Raw {
		*to, err = to.unpack(r.texts[i], r.unknown[i], &r.buckets)
		return err
	}
	rest, known := r.texts[i], false
	for j := range r.lists {
		if r.lists[j], rest, known, err = parseList(r.lists[j][:0], rest); err != nil {
			return fmt.Errorf("read histogram %q: %w", r.texts[i], err)
		}
	}
	bounds, counts, offsets := r.lists[0], r.lists[1], r.lists[2]
	if len(counts) != len(bounds) || known && len(offsets) != len(bounds) {
		return nil
	}
	for j, bound := range bounds {
		b := bucket{bound: int64(bound), count: counts[j], unknown: 1}
		if known {
			b.offsets, b.unknown = offsets[j], 0
		}
		*to = append(*to, b)
	}
	return nil
}

var errList = errors.New("want lists of integers")

// parseList appends the integers of the list with which a text of ClickHouse begins, negative
// ones as of int64, and returns the rest of the text.
func parseList(to []uint64, text string) (list []uint64, rest string, present bool, err error) {
	if text == "" || text[0] != '[' && text[0] != '-' {
		return to, text, false, errList
	}
	if text[0] == '-' {
		return to, text[1:], false, nil
	}
	n, digits, negative := uint64(0), false, false
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c >= '0' && c <= '9':
			n, digits = n*10+uint64(c-'0'), true
		case c == '-':
			negative = true
		case c == ',' || c == ']':
			if negative {
				n = -n
			}
			if digits {
				to = append(to, n)
			}
			if c == ']' {
				return to, text[i+1:], true, nil
			}
			n, digits, negative = 0, false, false
		default:
			return to, text, false, errList
		}
	}
	return to, text, false, errList
}
