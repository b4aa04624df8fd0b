package alarm

import (
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/internal/quantity"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
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

// add adds a row to the window of the rule.
func (s *sum) add(row *flows.Row, now time.Time) {
	bad, total, most := row.Lost, row.Expected, int64(0)
	if s.rule.delays() {
		if row.Delay.Count == 0 {
			return
		}
		bad, total, most = later(&row.Delay, s.rule.delay), row.Delay.Count, row.Delay.Max
	}
	at, old, reset := s.move(row.End, now, s.rule.Over, row.Interval)
	if old {
		return
	}
	if reset {
		if s.calm = (time.Time{}); s.firing() {
			s.since = at
		}
	}
	s.window.add(at, s.rule.Over, bad, total, most)
}

// later counts the delays above a limit. Those in the bucket of the limit count by their mean.
func later(d *flows.Distribution, limit time.Duration) (n uint64) {
	switch {
	case d.Max <= int64(limit):
		return 0
	case d.Min > int64(limit):
		return d.Count
	case d.Histogram.Empty():
		return 1 // the maximum, at least
	}
	h, own := &d.Histogram, histogram.Bound(histogram.Index(int64(limit)))
	for i, bound := range h.Bounds {
		above := bound > own
		if bound == own && h.Offsets != nil && h.Counts[i] > 0 {
			above = bound+int64(h.Offsets[i]/h.Counts[i]) > int64(limit)
		}
		if above {
			n += h.Counts[i]
		}
	}
	return min(max(n, 1), d.Count)
}

// judgeSum evaluates a rule after new rows.
func (e *Evaluator) judgeSum(p *pair, s *sum, now time.Time) {
	sums := s.sums(s.rule.Over)
	if sums.total == 0 {
		return
	}
	share := float64(sums.bad) / float64(sums.total)
	enough := sums.total >= s.rule.Packets
	if (s.firing() || share > s.rule.share) && enough {
		s.worst = max(s.worst, share)
	}
	k := key{s.rule.Name, p.Subject}
	switch s.judge(s.rule, enough && share > s.rule.share, share <= s.rule.share/2, s.newest) {
	case begins:
		s.worst = share
		e.begin(k, s.rule, &s.phase, now, s.found(k, sums, share))
	case ends:
		e.end(k, &s.phase, s.calm, now, s.over(), s.atWorst()+"; now "+percent(share))
	}
}

// found says what began an alarm.
func (s *sum) found(k key, sums slot, share float64) string {
	if s.rule.On == Loss {
		return fmt.Sprintf("%s lost %s (%s of %s packets) in %s, threshold %s",
			k.words(), percent(share), count(sums.bad), count(sums.total), span(s.span), percent(s.rule.share))
	}
	return fmt.Sprintf("%s: %s of %s packets in %s took longer than %s, at most %s (%s)",
		k.words(), percent(share), count(sums.total), span(s.span), quantity.FormatNanos(int64(s.rule.delay)), quantity.FormatNanos(sums.most), s.rule.On)
}

// over and atWorst say what ended.
func (s *sum) over() string {
	if s.rule.On == Loss {
		return "loss is over"
	}
	return "delay is over"
}

func (s *sum) atWorst() string {
	if s.rule.On == Loss {
		return fmt.Sprintf("at worst %s in %s", percent(s.worst), span(s.span))
	}
	return fmt.Sprintf("at worst %s of the packets in %s took longer than %s", percent(s.worst), span(s.span), quantity.FormatNanos(int64(s.rule.delay)))
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
