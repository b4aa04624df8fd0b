package answer

import (
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
)

const (
	// routerRowsMost limits the seconds of rows whose histograms are read; longer ranges are
	// sampled by the second.
	routerRowsMost = 3600
	// SizeMost is the largest value of the distributions of queues.
	SizeMost = 1023
)

// StagesShown are the stages that a packet passes in sequence; the stream also has sums
// and parts of these.
var StagesShown = []string{"input_queuing", "processing", "output_queuing"}

// Router builds the answer to archive.RouterDelays. Rows belong to the window in which
// their middle lies.
type Router struct {
	Question archive.RouterDelays
	Answer   archive.RouterDelaysAnswer

	stages map[stageKey]*histogram.Histogram
}

type stageKey struct {
	start time.Time
	stage string
}

// NewRouter checks a question. In the answer, stages are read from one second in every Answer.Sampled.
func NewRouter(question archive.RouterDelays) (*Router, error) {
	span := question.To.Sub(question.From)
	if span <= 0 || question.Step <= 0 {
		return nil, fmt.Errorf("%w: router delays require a time range and a step", archive.ErrQuery)
	}
	q := &Router{Question: question}
	q.Answer.Sampled = max(1, int64((span+routerRowsMost*time.Second-1)/(routerRowsMost*time.Second)))
	return q, nil
}

// Between are the ends, exclusive and inclusive, of rows whose middle can be in the range.
func (q *Router) Between() (after, until time.Time) {
	return q.Question.From.Add(-q.Question.Step), q.Question.To.Add(q.Question.Step)
}

// Choose sets the session of the answer to the first one of the question that has rows.
func (q *Router) Choose(found map[string]bool) {
	if i := slices.IndexFunc(q.Question.Sessions, func(name string) bool { return found[name] }); i >= 0 {
		q.Answer.Session = q.Question.Sessions[i]
	}
}

func (q *Router) timeOf(number int64) time.Time {
	return time.Unix(0, number*int64(q.Question.Step)).UTC()
}

// ReadStage reads the number of a window, a stage, and count, least, most and total of delays.
func (q *Router) ReadStage(r Row) {
	q.Answer.Stages = append(q.Answer.Stages, archive.StageWindow{
		Stage: r.Text(1), Start: q.timeOf(r.Int(0)),
		Delay: flows.Distribution{Count: r.Uint(2), Min: r.Int(3), Max: r.Int(4), Total: r.Total(5)},
	})
}

// ReadHistograms reads the number of a window, the columns of Buckets, and a stage. It needs the stages.
func (q *Router) ReadHistograms(r arrow.RecordBatch) error {
	if q.stages == nil {
		q.stages = map[stageKey]*histogram.Histogram{}
		for i := range q.Answer.Stages {
			s := &q.Answer.Stages[i]
			q.stages[stageKey{s.Start, s.Stage}] = &s.Delay.Histogram
		}
	}
	Buckets(r, 1, func(i int) *histogram.Histogram {
		row := RowOf(r, i)
		return q.stages[stageKey{q.timeOf(row.Int(0)), row.Text(4)}]
	})
	return nil
}

// ReadQueue reads the number of a window, interface, side, mean depth and largest backlog.
func (q *Router) ReadQueue(r Row) {
	q.Answer.Queues = append(q.Answer.Queues, archive.QueueWindow{
		Interface: r.Text(1), Side: r.Text(2), Start: q.timeOf(r.Int(0)), Mean: r.Float(3), Kernel: r.Float(4),
	})
}

// QueueDistribution is one of a queue's distributions.
type QueueDistribution struct {
	// Values and Counts are the columns that have it.
	Values, Counts string
	counted        func(*archive.QueueSizes) *[]archive.PacketCount
}

// QueueDistributions are the distributions in the stream router_queues.
var QueueDistributions = []QueueDistribution{
	{"sizes", "size_counts", func(s *archive.QueueSizes) *[]archive.PacketCount { return &s.Sizes }},
	{"gap_arrivals", "gap_counts", func(s *archive.QueueSizes) *[]archive.PacketCount { return &s.Arrivals }},
}

// ReadSizes returns the reader of one distribution: interface, side, value and count.
func (q *Router) ReadSizes(of *QueueDistribution) func(Row) {
	return func(r Row) {
		counts := of.counted(q.sizesOf(r.Text(0), r.Text(1)))
		*counts = append(*counts, archive.PacketCount{Packets: r.Uint(2), Count: r.Uint(3)})
	}
}

// sizesOf returns the distributions of a queue.
func (q *Router) sizesOf(device, side string) *archive.QueueSizes {
	i := slices.IndexFunc(q.Answer.Sizes, func(s archive.QueueSizes) bool { return s.Interface == device && s.Side == side })
	if i < 0 {
		i = len(q.Answer.Sizes)
		q.Answer.Sizes = append(q.Answer.Sizes, archive.QueueSizes{Interface: device, Side: side})
	}
	return &q.Answer.Sizes[i]
}

// ReadBreak reads time (ns), length, cause, task and depth of a coffee break.
func (q *Router) ReadBreak(r Row) {
	q.Answer.Breaks = append(q.Answer.Breaks, archive.CoffeeBreak{
		Time: time.Unix(0, r.Int(0)).UTC(), Length: time.Duration(r.Int(1)), Cause: r.Text(2), Task: r.Text(3), Depth: r.Uint(4),
	})
}
