package alarm

import (
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
)

// aheadMost is how far a row's time may be ahead of the server's clock.
const aheadMost = time.Minute

// Add adds the rows of a batch of flows, or of sent_flows. Rows with impossible counts are ignored.
func (e *Evaluator) Add(batch archive.Batch) error {
	if len(e.rules) == 0 {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if batch.Schema != nil && batch.Schema.Name == measure.Sent.Name {
		return e.addSent(batch.Agent, batch.Record)
	}
	return e.addFlows(batch)
}

func (e *Evaluator) addFlows(batch archive.Batch) (failed error) {
	now, ahead := e.Now(), e.Agents.ClockAhead(batch.Agent)
	touched := map[*pair]bool{}
	for row, err := range flows.Rows(batch.Agent, batch.Record) {
		if err != nil {
			failed = err
			break
		}
		if row.Expected > flows.CountMax || row.Lost > row.Expected {
			continue
		}
		p := e.find(Subject{Session: row.Session, Source: row.Source, Destination: row.Destination})
		if p == nil {
			continue
		}
		p.lastRow = now
		if row.Expected > 0 || row.Delay.Count > 0 {
			p.lastTraffic = now
		}
		if row.Packets > 0 || row.Expected > row.Lost {
			p.received = now
			p.quiet.arrived(row.End.Add(-ahead))
		}
		for _, s := range p.sums {
			s.add(row, now)
		}
		e.addFlow(p, row, now)
		touched[p] = true
	}
	// Only now, since one interval has a row for each flow.
	for p := range touched {
		for _, s := range p.sums {
			if s.lastRow.Equal(now) {
				e.judgeSum(p, s, now)
			}
		}
		e.judgeFlows(p, now)
		e.judgeSilence(p, now)
	}
	return failed
}

// addSent adds what a source has sent.
func (e *Evaluator) addSent(agent string, record arrow.RecordBatch) error {
	columns := map[string]arrow.Array{}
	for i, field := range record.Schema().Fields() {
		columns[field.Name] = record.Column(i)
	}
	for _, name := range []string{measure.TimeField.Name, "session", "peer", "interval_ns", "packets"} {
		if columns[name] == nil {
			return fmt.Errorf("read what %s sent: no column %s", agent, name)
		}
	}
	now, ahead := e.Now(), e.Agents.ClockAhead(agent)
	type interval struct {
		session, peer string
		end           int64
		length        time.Duration
	}
	sent := map[interval]uint64{}
	for i := range int(record.NumRows()) {
		value := func(name string) measure.Value {
			v, _ := measure.ValueAt(columns[name], i)
			return v
		}
		row := interval{value("session").Text(), value("peer").Text(), value(measure.TimeField.Name).Time().UnixNano(), time.Duration(value("interval_ns").Int64())}
		if row.peer != "" && row.length > 0 && row.length <= flows.IntervalMax {
			sent[row] += min(value("packets").Uint64(), flows.CountMax)
		}
	}
	for row, packets := range sent {
		end := time.Unix(0, row.end).Add(-ahead)
		if len(row.session) > flows.TextMax || len(row.peer) > flows.TextMax || now.Sub(end) > time.Minute+row.length || end.After(now.Add(aheadMost)) {
			continue // of a spool, after the agent was disconnected
		}
		if p := e.find(Subject{Session: row.session, Source: agent, Destination: row.peer}); p != nil {
			p.quiet.left(end, row.length, packets, now)
			e.judgeSilence(p, now)
		}
	}
	return nil
}
