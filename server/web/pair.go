package web

import (
	"slices"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/prometheus/client_golang/prometheus"

	"pillion.dev/archive"
)

// pairIdle is after how long without a row a pair's metrics are forgotten, when
// there is no room for another.
const pairIdle = time.Hour

// sweepEvery is the least time between two searches for such pairs: with many more
// pairs than there is room for, every other row would begin one.
const sweepEvery = 10 * time.Second

// otherLabel stands for all pairs beyond the limit.
const otherLabel = "other"

// delayEdges are the upper bounds of the histogram's buckets, in nanoseconds. The
// first takes the negative delays of clocks that disagree.
var delayEdges = func() []int64 {
	edges := []int64{0}
	for decade := int64(10_000); decade <= 1_000_000_000; decade *= 10 {
		edges = append(edges, decade, 2*decade, 5*decade)
	}
	return append(edges, 10_000_000_000)
}()

// pairKey is one source, one destination, one session.
type pairKey struct{ source, destination, session string }

// pair are the sums of all rows of one pair since the server started.
type pair struct {
	seen time.Time
	// delays[i] counts those of at most delayEdges[i] and above the edge before.
	delays   []uint64
	count    uint64
	sum      float64 // seconds
	counters [len(pairColumns)]float64
}

// pairColumns of the stream flows become counters.
var pairColumns = [...]struct{ column, name, help string }{
	{"packets", "pillion_packets_total", "Marked packets that came."},
	{"bytes", "pillion_bytes_total", "IP bytes of these, without marks."},
	{"expected", "pillion_expected_packets_total", "Packets whose numbers are accounted for."},
	{"lost", "pillion_lost_packets_total", "Expected packets that did not come (RFC 7680)."},
	{"duplicated", "pillion_duplicated_packets_total", "Packets that came once more (RFC 5560)."},
	{"reordered", "pillion_reordered_packets_total", "Packets that came after one sent later (RFC 4737)."},
}

var pairLabels = []string{"source", "destination", "session"}

// pairs sums the rows of the stream flows for Prometheus. The number of pairs is
// bounded; what is beyond is summed under the label other, and counted.
type pairs struct {
	limit int
	now   func() time.Time

	mutex    sync.Mutex
	known    map[pairKey]*pair
	overflow uint64 // rows
	swept    time.Time

	delay, overflowed *prometheus.Desc
	counters          [len(pairColumns)]*prometheus.Desc
}

func newPairs(limit int, now func() time.Time) *pairs {
	p := &pairs{
		limit: limit, now: now, known: map[pairKey]*pair{},
		delay: prometheus.NewDesc("pillion_delay_seconds",
			"One-way delay (RFC 7679), counted at the lower bound of the bucket that the probe put it into; the sum falls where delays are negative.",
			pairLabels, nil),
		overflowed: prometheus.NewDesc("pillion_pairs_overflow_rows_total",
			"Rows of flows that were summed under the label other, because there were too many pairs.", nil, nil),
	}
	for i, c := range pairColumns {
		p.counters[i] = prometheus.NewDesc(c.name, c.help, pairLabels, nil)
	}
	return p
}

// Describe gives all descriptions.
func (p *pairs) Describe(to chan<- *prometheus.Desc) {
	to <- p.delay
	to <- p.overflowed
	for _, d := range p.counters {
		to <- d
	}
}

// Collect gives all metrics.
func (p *pairs) Collect(to chan<- prometheus.Metric) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	to <- prometheus.MustNewConstMetric(p.overflowed, prometheus.CounterValue, float64(p.overflow))
	for key, one := range p.known {
		labels := []string{key.source, key.destination, key.session}
		for i, d := range p.counters {
			to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, one.counters[i], labels...)
		}
		buckets, below := map[float64]uint64{}, uint64(0)
		for i, edge := range delayEdges {
			below += one.delays[i]
			buckets[float64(edge)/1e9] = below
		}
		to <- prometheus.MustNewConstHistogram(p.delay, one.count, one.sum, buckets, labels...)
	}
}

// add sums the rows of a batch of flows.
func (p *pairs) add(batch archive.Batch) {
	column := func(name string) arrow.Array {
		if j := batch.Schema.Index(name); j >= 0 {
			return batch.Record.Column(j)
		}
		return nil
	}
	source, session := textAt(column("source")), textAt(column("session"))
	var numbers [len(pairColumns)]func(int) uint64
	for i, c := range pairColumns {
		numbers[i] = countAt(column(c.column))
	}
	delays := delaysOf(column("delay_bounds_ns"), column("delay_counts"))
	count, mean := countAt(column("delay_count")), column("delay_mean_ns")

	p.mutex.Lock()
	defer p.mutex.Unlock()
	for i := range int(batch.Record.NumRows()) {
		one := p.find(pairKey{labelText(source(i)), labelText(batch.Agent), labelText(session(i))})
		for j, number := range numbers {
			one.counters[j] += float64(number(i))
		}
		if means, ok := mean.(*array.Int64); ok && !means.IsNull(i) {
			one.sum += float64(means.Value(i)) / 1e9 * float64(count(i))
		}
		delays(i, func(bound int64, n uint64) {
			one.count += n
			if edge, _ := slices.BinarySearch(delayEdges, bound); edge < len(delayEdges) {
				one.delays[edge] += n
			}
		})
	}
}

func (p *pairs) find(key pairKey) *pair {
	one, now := p.known[key], p.now()
	if one == nil && len(p.known) >= p.limit && now.Sub(p.swept) >= sweepEvery {
		p.sweep(now)
	}
	if one == nil && len(p.known) >= p.limit {
		p.overflow++
		key = pairKey{otherLabel, otherLabel, otherLabel}
		one = p.known[key]
	}
	if one == nil {
		one = &pair{delays: make([]uint64, len(delayEdges))}
		p.known[key] = one
	}
	one.seen = now
	return one
}

// sweep forgets the pairs without rows.
func (p *pairs) sweep(now time.Time) {
	p.swept = now
	for key, one := range p.known {
		if now.Sub(one.seen) > pairIdle {
			delete(p.known, key)
		}
	}
}

// labelText bounds what an agent can put into a label.
func labelText(s string) string { return validText(s[:min(len(s), 64)]) }

func textAt(a arrow.Array) func(int) string {
	texts, ok := a.(*array.String)
	return func(i int) string {
		if !ok || texts.IsNull(i) {
			return ""
		}
		return texts.Value(i)
	}
}

func countAt(a arrow.Array) func(int) uint64 {
	counts, ok := a.(*array.Uint64)
	return func(i int) uint64 {
		if !ok || counts.IsNull(i) {
			return 0
		}
		return counts.Value(i)
	}
}

// delaysOf walks the histogram of a row. Two lists of different lengths are
// walked as far as both go.
func delaysOf(a, b arrow.Array) func(i int, each func(bound int64, n uint64)) {
	bounds, isList := a.(*array.List)
	counts, isListToo := b.(*array.List)
	if !isList || !isListToo {
		return func(int, func(int64, uint64)) {}
	}
	lower, isInt := bounds.ListValues().(*array.Int64)
	number, isUint := counts.ListValues().(*array.Uint64)
	return func(i int, each func(int64, uint64)) {
		if !isInt || !isUint || bounds.IsNull(i) || counts.IsNull(i) {
			return
		}
		from, to := bounds.ValueOffsets(i)
		first, last := counts.ValueOffsets(i)
		for j := range min(to-from, last-first) {
			each(lower.Value(int(from+j)), number.Value(int(first+j)))
		}
	}
}
