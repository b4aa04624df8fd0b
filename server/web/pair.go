package web

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/archive"
	rows "pillion.dev/measure/flows"
)

// pairIdle is how long a pair without rows keeps its metrics when the limit of pairs is
// reached.
const pairIdle = time.Hour

// sweepEvery is the minimum time between two searches for idle pairs: with far more pairs
// than the limit, nearly every row would start one.
const sweepEvery = 10 * time.Second

// otherLabel stands for all pairs beyond the limit.
const otherLabel = "other"

// pairKey identifies a source, a destination and a session.
type pairKey struct{ source, destination, session string }

// pair is the sum of all rows of one pair since the server started.
type pair struct {
	started, seen time.Time
	rows.Sum
}

// pairColumns of the stream flows become counters, in the order of rows.CountNames.
var pairColumns = [...]struct{ name, help string }{
	{"pillion_packets_total", "Packets received: marked ones, and others of flows with sparse marks."},
	{"pillion_bytes_total", "IP bytes of the packets that pillion_packets_total counts, without marks."},
	{"pillion_expected_packets_total", "Packets whose sequence numbers are accounted for."},
	{"pillion_lost_packets_total", "Expected packets that were not received (RFC 7680)."},
	{"pillion_duplicated_packets_total", "Packets received more than once (RFC 5560)."},
	{"pillion_reordered_packets_total", "Packets received after one that was sent later (RFC 4737)."},
	{"pillion_late_packets_total", "Packets received so late that they count as lost."},
	{"pillion_unchecked_packets_total", "Packets of flows with sparse marks: duplicates and reordering among them are not detected."},
}

var pairLabels = []string{"source", "destination", "session"}

// pairs sums the rows of the stream flows for Prometheus. The number of pairs is
// bounded; the rows of further pairs are summed under the label other, and counted.
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
			"One-way delay (RFC 7679), in classic and native buckets; the sum decreases with negative delays.",
			pairLabels, nil),
		overflowed: prometheus.NewDesc("pillion_pairs_overflow_rows_total",
			"Rows of flows that were summed under the label other because there were too many pairs.", nil, nil),
	}
	for i, c := range pairColumns {
		p.counters[i] = prometheus.NewDesc(c.name, c.help, pairLabels, nil)
	}
	return p
}

// Describe implements prometheus.Collector.
func (p *pairs) Describe(to chan<- *prometheus.Desc) {
	to <- p.delay
	to <- p.overflowed
	for _, d := range p.counters {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (p *pairs) Collect(to chan<- prometheus.Metric) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	to <- prometheus.MustNewConstMetric(p.overflowed, prometheus.CounterValue, float64(p.overflow))
	p.collect(to, nil)
}

// scopedPairs collects the metrics of the pairs in a scope.
type scopedPairs struct {
	*pairs
	scope *archive.Scope
}

// Collect implements prometheus.Collector.
func (p scopedPairs) Collect(to chan<- prometheus.Metric) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.collect(to, p.scope)
}

func (p *pairs) collect(to chan<- prometheus.Metric, scope *archive.Scope) {
	for _, key := range slices.SortedFunc(maps.Keys(p.known), comparePairs) {
		if !scope.HasPair(key.source, key.destination) {
			continue
		}
		one := p.known[key]
		of := series{labels: prometheus.MakeLabelPairs(p.delay, []string{key.source, key.destination, key.session}), started: timestamppb.New(one.started)}
		counts := one.Counts.List()
		for i, d := range p.counters {
			to <- &countMetric{d, of, float64(*counts[i])}
		}
		to <- newDelay(p.delay, &one.Delay.Histogram, one.Delay.Total.ToFloat64(0)/1e9, of)
	}
}

// series is what the metrics of a pair share.
type series struct {
	labels  []*dto.LabelPair
	started *timestamppb.Timestamp
}

// countMetric is a counter of a pair.
type countMetric struct {
	desc *prometheus.Desc
	series
	value float64
}

// Desc implements prometheus.Metric.
func (m *countMetric) Desc() *prometheus.Desc { return m.desc }

// Write implements prometheus.Metric.
func (m *countMetric) Write(out *dto.Metric) error {
	out.Label, out.Counter = m.labels, &dto.Counter{Value: &m.value, CreatedTimestamp: m.started}
	return nil
}

// comparePairs is the order in which the registry sorts series, by the names of the labels; it is much faster with what is sorted.
func comparePairs(a, b pairKey) int {
	return cmp.Or(strings.Compare(a.destination, b.destination), strings.Compare(a.session, b.session), strings.Compare(a.source, b.source))
}

// add sums the rows of a batch of flows.
func (p *pairs) add(batch archive.Batch) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for row, err := range rows.Rows(batch.Agent, batch.Record) {
		if err != nil {
			return err
		}
		p.find(pairKey{labelText(row.Source), labelText(row.Destination), labelText(row.Session)}).Merge(&row.Sum)
	}
	return nil
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
		one = &pair{started: now}
		p.known[pairKey{strings.Clone(key.source), strings.Clone(key.destination), strings.Clone(key.session)}] = one
	}
	one.seen = now
	return one
}

// sweep drops idle pairs.
func (p *pairs) sweep(now time.Time) {
	p.swept = now
	for key, one := range p.known {
		if now.Sub(one.seen) > pairIdle {
			delete(p.known, key)
		}
	}
}

// labelText limits the text that an agent can put into a label.
func labelText(s string) string { return validText(s[:min(len(s), 64)]) }
