package answer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure/flows"
)

const (
	flowsMost = 10_000
	// candidates limits the flows, those with most packets, that are ordered by a
	// quantile: each needs its histogram.
	candidates = 50_000
)

// granularities of archive.Flows.
var granularities = []string{"flow", "host-port", "host", "host-protocol", "pair", "protocol"}

// flowOrders are the orders that need no histogram.
var flowOrders = []string{"packets", "bytes", "lost", "max", "last"}

// quantileOrders are the orders that need histograms.
var quantileOrders = map[string]float64{"p50": 0.5, "p90": 0.9, "p99": 0.99}

// Flows builds the answer to archive.Flows, of rows in the order of the flows: first the
// sums, then the histograms.
type Flows struct {
	Survey
	Question archive.Flows
	// Order is the order of rows. It names a figure that is no histogram; flows without a value come last whether
	// Descending or not, and flows with the same value are in ascending order of their texts and ports. Limit is
	// the maximum number of flows to read.
	Order      string
	Descending bool
	Limit      int

	// Found is how many flows there are without the limit: those that were read, or more.
	Found int64

	flows []archive.Flow
	parts int64
	every int64
}

// NewFlows checks a question. Ordered by a quantile, flows are those with most packets,
// at most 50,000.
func NewFlows(question archive.Flows) (*Flows, error) {
	_, ordered := quantileOrders[question.Order]
	if !question.From.Before(question.To) || !slices.Contains(granularities, question.Granularity) || !slices.Contains(flowOrders, question.Order) && !ordered ||
		question.Limit < 1 || question.Limit > flowsMost {
		return nil, fmt.Errorf("%w: flows require a time range, a granularity, an order and a limit of 1 to %d", archive.ErrQuery, flowsMost)
	}
	f := &Flows{
		Survey:   newSurvey(question.Selection, question.From, question.To, time.Time{}),
		Question: question, Order: question.Order, Descending: !question.Ascending, Limit: question.Limit,
	}
	if ordered {
		f.Order, f.Descending, f.Limit = "packets", true, candidates
	}
	return f, nil
}

// ReadSum reads, from the second on, the columns source address or agent, destination, protocol,
// source port, destination port, start of the first row, end of the last one, the value that
// orders them, and the sum. Flows are in their order.
func (f *Flows) ReadSum(r Row) {
	sum, parts := r.Sum(9)
	f.flows = append(f.flows, archive.Flow{
		Flow:   FlowOf(r, 1),
		Window: archive.Window{Start: time.Unix(0, r.Int(6)).UTC(), Sum: sum},
		Last:   time.Unix(0, r.Int(7)).UTC(),
	})
	f.parts += parts
	f.Found++
}

// FlowOf reads the columns of a flow, the first of which is at.
func FlowOf(r Row, at int) flows.Flow {
	return flows.Flow{Src: r.Text(at), Dst: r.Text(at + 1), Proto: r.Text(at + 2), Sport: portOf(r.Int(at + 3)), Dport: portOf(r.Int(at + 4))}
}

func portOf(n int64) uint32 { return uint32(max(0, min(n, math.MaxUint32))) }

// Read is the number of flows that were read.
func (f *Flows) Read() int { return len(f.flows) }

// Places are the places of the flows that were read.
func (f *Flows) Places() map[flows.Flow]int64 {
	places := make(map[flows.Flow]int64, len(f.flows))
	for i := range f.flows {
		places[f.flows[i].Flow] = int64(i)
	}
	return places
}

// All reports whether the survey has found no more pairs than are read, nor more rows than
// histograms are read of: both can be read at once.
func (f *Flows) All() bool {
	return f.Question.Granularity == "pair" && f.Question.Search == "" && len(f.Elected) < f.Limit && every(f.Parts, f.Question.Sample) == 1
}

// Every is n if histograms are read of one row in n. It needs the sums.
func (f *Flows) Every() int64 {
	f.every = every(f.parts, f.Question.Sample)
	return f.every
}

// Find returns the sum of the flow at a place, or nil.
func (f *Flows) Find(place int64) *flows.Sum {
	if place < 0 || place >= int64(len(f.flows)) {
		return nil
	}
	return &f.flows[place].Sum
}

// Answer is what was read. Flows without a value come last in both directions.
func (f *Flows) Answer() archive.FlowsAnswer {
	if quantile, ordered := quantileOrders[f.Question.Order]; ordered {
		f.sort(quantile)
	}
	return archive.FlowsAnswer{Flows: f.flows[:min(len(f.flows), f.Question.Limit)], Found: f.Found, Sampled: max(f.every, 1)}
}

// sort orders by a quantile, NaN last.
func (f *Flows) sort(q float64) {
	by := make(map[flows.Flow]float64, len(f.flows))
	for i := range f.flows {
		by[f.flows[i].Flow] = f.flows[i].Delay.Quantile(q)
	}
	slices.SortStableFunc(f.flows, func(a, b archive.Flow) int {
		x, y := by[a.Flow], by[b.Flow]
		if math.IsNaN(x) || math.IsNaN(y) || !f.Question.Ascending {
			x, y = y, x // NaN compares as least
		}
		return cmp.Compare(x, y)
	})
}
