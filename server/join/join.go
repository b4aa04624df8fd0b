// Package join brings together what sources have sent and what destinations have received:
// it passes the rows of the stream sent_flows on to the agent of the destination, which alone
// knows what is still on its way, and counts the rest as lost in its own rows.
//
// It keeps a short queue for each destination and nothing on disk. Rows come from agents and
// are not trusted: the source that a report names is the agent that delivered the rows, and a
// destination accepts from it only reports of flows from its addresses. What is not passed on,
// since it is too old or too much, is counted; a later report of the same flow covers it.
package join

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"pillion.dev/archive"
	"pillion.dev/session"
)

const (
	// ageMost is how old rows may be: a destination does not remember flows for ever.
	ageMost = time.Minute
	// TickEvery is how often Tick is to be called.
	TickEvery = 250 * time.Millisecond
	// askEvery is the shortest time between two requests to one agent.
	askEvery = 500 * time.Millisecond
	// askTime bounds a request.
	askTime = 5 * time.Second
)

// Agents are the agents of a server.
type Agents interface {
	// TakesReports reports whether an agent is connected and understands reports.
	TakesReports(agent string) bool
	// ClockAhead is how far the clock of an agent is ahead of the server's.
	ClockAhead(agent string) time.Duration
	// Report passes reports to an agent.
	Report(ctx context.Context, agent string, reports []session.SentReport) error
}

// Join passes rows on. Its methods are safe for concurrent use.
type Join struct {
	agents Agents
	now    func() time.Time

	passed, dropped atomic.Uint64

	mu     sync.Mutex
	queues map[string]*queue // by destination
	asking sync.WaitGroup
}

// queue are the reports for one destination.
type queue struct {
	reports []waiting
	flows   int
	asking  bool
	asked   time.Time
}

// waiting is a report and when its interval ended, by the server's clock.
type waiting struct {
	session.SentReport
	ended time.Time
}

// New returns a Join without rows.
func New(agents Agents) *Join {
	return &Join{agents: agents, now: time.Now, queues: map[string]*queue{}}
}

// Passed returns the flows in reports that destinations have taken, Dropped those that were
// not passed on.
func (j *Join) Passed() uint64 { return j.passed.Load() }

// Dropped is explained at Passed.
func (j *Join) Dropped() uint64 { return j.dropped.Load() }

// Add takes a batch of sent_flows. Invalid rows are dropped, and are part of the error.
func (j *Join) Add(batch archive.Batch) error {
	reports, invalid, err := read(batch.Agent, batch.Record)
	j.dropped.Add(uint64(invalid))
	now, ahead := j.now(), j.agents.ClockAhead(batch.Agent)
	able := map[string]bool{}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, report := range reports {
		if _, known := able[report.destination]; !known {
			able[report.destination] = j.agents.TakesReports(report.destination)
		}
		w := waiting{report.SentReport, report.end.Add(-ahead)}
		if !able[report.destination] || now.Sub(w.ended) > ageMost {
			j.dropped.Add(uint64(len(w.Flows)))
			continue
		}
		j.queue(report.destination).add(w, j.drop)
	}
	return err
}

func (j *Join) drop(flows int) { j.dropped.Add(uint64(flows)) }

func (j *Join) queue(destination string) *queue {
	q := j.queues[destination]
	if q == nil {
		q = &queue{}
		j.queues[destination] = q
	}
	return q
}

// add appends a report; the oldest give way.
func (q *queue) add(w waiting, drop func(int)) {
	q.reports = append(q.reports, w)
	q.flows += len(w.Flows)
	for q.flows > queueFlows || len(q.reports) > queueReports {
		drop(len(q.reports[0].Flows))
		q.flows -= len(q.reports[0].Flows)
		q.reports = q.reports[1:]
	}
}

const (
	// queueFlows bounds the flows that wait for one destination, queueReports their reports.
	queueFlows   = 16 * session.SentFlowsMax
	queueReports = 4 * session.SentReportsMax
)

// Tick passes on what waits. An agent gets one request at a time.
func (j *Join) Tick(ctx context.Context) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.now()
	for destination, q := range j.queues {
		if q.asking || now.Sub(q.asked) < askEvery {
			continue
		}
		reports := q.take(now, j.drop)
		if len(reports) == 0 {
			if len(q.reports) == 0 {
				delete(j.queues, destination)
			}
			continue
		}
		q.asking, q.asked = true, now
		j.asking.Go(func() { j.ask(ctx, destination, q, reports) })
	}
}

// take returns the reports of one request.
func (q *queue) take(now time.Time, drop func(int)) (reports []session.SentReport) {
	flows := 0
	for len(q.reports) > 0 && len(reports) < session.SentReportsMax {
		w := q.reports[0]
		if flows += len(w.Flows); flows > session.SentFlowsMax {
			break
		}
		q.reports = q.reports[1:]
		q.flows -= len(w.Flows)
		age := max(0, now.Sub(w.ended))
		if age > ageMost {
			drop(len(w.Flows))
			continue
		}
		w.Age = session.Duration(age)
		reports = append(reports, w.SentReport)
	}
	return reports
}

func (j *Join) ask(ctx context.Context, destination string, q *queue, reports []session.SentReport) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	count := uint64(0)
	for _, report := range reports {
		count += uint64(len(report.Flows))
	}
	if err := j.agents.Report(ctx, destination, reports); err != nil {
		j.dropped.Add(count)
	} else {
		j.passed.Add(count)
	}
	j.mu.Lock()
	q.asking = false
	j.mu.Unlock()
}

// Close waits for the requests, whose context has ended.
func (j *Join) Close() { j.asking.Wait() }
