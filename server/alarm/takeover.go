package alarm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/server/event"
)

// Of the servers of a fleet the one that stores the rows of a pair raises its events. All of them see all
// rows, so that the next one knows the loss of a pair that it takes over. What was raised before is in the
// archive, as are rows that were stored just before the other server stopped.

const (
	// settleFor is how long after the first own row of a pair the archive has the events of the server
	// that stored the previous ones.
	settleFor = 3 * time.Second
	// orphanFor is how much longer than other pairs one without rows may have a loss: the server that
	// would end it may have stopped.
	orphanFor = 10 * time.Second
	// recallFor is how old the event of an ongoing loss may be.
	recallFor = 24 * time.Hour
	// Limits of what is read at once.
	recallRows   = 2_000_000
	recallEvents = 100_000
)

// Fleet is what a Loss needs to know if other servers watch too.
type Fleet struct {
	Archive interface {
		Export(ctx context.Context, question archive.Export, rows func(arrow.RecordBatch) error) error
	}
	// Leads reports whether this server leads the others.
	Leads func() bool
}

// Join makes the server one of a fleet. It is called before Add.
func (l *Loss) Join(fleet Fleet) { l.fleet = &fleet }

// AddOthers adds the rows of a batch of flows that another server has stored.
func (l *Loss) AddOthers(batch archive.Batch) error {
	return l.add(flows.Rows(batch.Agent, batch.Record), false)
}

// stored notes which server stores the rows of a pair.
func (l *Loss) stored(p *pair, own bool, now time.Time) {
	first := p.lastRow.IsZero()
	switch {
	case !own:
		p.others, p.shown, p.orphan, p.taken = true, false, false, time.Time{}
	case l.fleet != nil && (first || p.others):
		p.others, p.orphan, p.taken = false, false, now
	}
}

// silent reports whether another server raises the events of the pair, or may have.
func (p *pair) silent() bool { return p.others || !p.taken.IsZero() }

// abandoned handles a loss that another server should have ended: the leading one does.
func (l *Loss) abandoned(p *pair, now time.Time, silence time.Duration) {
	switch quiet := now.Sub(p.lastTraffic); {
	case !p.others || quiet < silence+orphanFor:
	case l.fleet.Leads():
		p.others, p.orphan, p.taken = false, true, now.Add(-settleFor)
	case quiet >= silence+2*orphanFor:
		p.forget()
	}
}

// Recall compares the pairs that this server has taken over with the archive. It is called about once a
// second, after Tick.
func (l *Loss) Recall(ctx context.Context) error {
	taken := l.taken()
	if len(taken) == 0 {
		return nil
	}
	now := l.now()
	rows := New(l.limit, l.most, discard{})
	rows.now = l.now
	err := l.fleet.Archive.Export(ctx, archive.Export{
		Stream: measure.Flows.Name, Columns: []string{measure.TimeField.Name, "agent", "session", "source", "interval_ns", "expected", "lost"},
		From: now.Add(-l.limit.Over - 2*settleFor), To: now.Add(aheadMost), Limit: recallRows,
	}, func(record arrow.RecordBatch) error {
		return rows.add(flows.Stored(record), true)
	})
	if err != nil && !errors.Is(err, archive.ErrUnknown) {
		return fmt.Errorf("read the rows of pairs that were taken over: %w", err)
	}
	ongoing, err := l.ongoing(ctx, now)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range taken {
		if p := l.pairs[k]; p != nil && !p.taken.IsZero() {
			p.merge(rows.pairs[k])
			l.judge(k, p, now)
			l.settle(k, p, ongoing[k], now)
		}
	}
	return nil
}

// taken returns the pairs that are to be compared with the archive.
func (l *Loss) taken() (keys []key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for k, p := range l.pairs {
		if !p.taken.IsZero() && now.Sub(p.taken) >= settleFor {
			keys = append(keys, k)
		}
	}
	return keys
}

// settle continues a loss of which an event was raised, and raises that of one that has none.
func (l *Loss) settle(k key, p *pair, began, now time.Time) {
	p.taken = time.Time{}
	switch {
	case !began.IsZero():
		if p.since.IsZero() {
			p.calm, p.worst = time.Time{}, l.limit.Share
		}
		p.since, p.shown = began, true
	case p.orphan:
		p.forget()
	case !p.since.IsZero():
		lost, expected := p.sums(l.limit.Over)
		l.begin(k, p, lost, expected, now)
	}
	p.orphan = false
}

// ongoing are the losses of which an event was raised and none that they ended: when they began.
func (l *Loss) ongoing(ctx context.Context, now time.Time) (map[key]time.Time, error) {
	began, ended := map[key]time.Time{}, map[key]time.Time{}
	for kind, times := range map[string]map[key]time.Time{"loss": began, "loss-ended": ended} {
		err := l.fleet.Archive.Export(ctx, archive.Export{
			Stream: measure.Events.Name, Where: map[string]string{"kind": kind},
			From: now.Add(-recallFor), To: now.Add(aheadMost), Limit: recallEvents, Newest: true,
		}, func(record arrow.RecordBatch) error { return latest(record, times) })
		if err != nil && !errors.Is(err, archive.ErrUnknown) {
			return nil, fmt.Errorf("read the events of losses: %w", err)
		}
	}
	for k, at := range began {
		if end, has := ended[k]; has && !end.Before(at) {
			delete(began, k)
		}
	}
	return began, nil
}

// latest notes the time of the latest event of each pair.
func latest(record arrow.RecordBatch, times map[key]time.Time) error {
	column := map[string]int{}
	for _, name := range []string{measure.TimeField.Name, "about", "peer", "session"} {
		at := record.Schema().FieldIndices(name)
		if len(at) == 0 {
			return fmt.Errorf("read the events of losses: no column %q", name)
		}
		column[name] = at[0]
	}
	for i := range int(record.NumRows()) {
		value := func(name string) measure.Value {
			v, _ := measure.ValueAt(record.Column(column[name]), i)
			return v
		}
		k := key{value("session").Text(), value("about").Text(), value("peer").Text()}
		if k.destination == "" { // the source is unknown
			k.source, k.destination = "", k.source
		}
		if at := value(measure.TimeField.Name).Time(); at.After(times[k]) {
			delete(times, k)
			times[key{strings.Clone(k.session), strings.Clone(k.source), strings.Clone(k.destination)}] = at
		}
	}
	return nil
}

// merge adds what another window of the pair, which may be nil, has and this one lacks: most rows are in both.
func (p *pair) merge(o *pair) {
	if o == nil {
		return
	}
	for i, s := range o.slots {
		if own := &p.slots[i]; s.number > own.number || s.number == own.number && s.expected > own.expected {
			*own = s
		}
	}
	if o.newest.After(p.newest) {
		p.newest = o.newest
	}
	p.span = max(p.span, o.span)
}

// discard is an event.Sink.
type discard struct{}

// Event implements event.Sink, as Change does.
func (discard) Event(event.Event)   {}
func (discard) Change(event.Change) {}
