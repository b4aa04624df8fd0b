package alarm

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/measuretest"
	"pillion.dev/server/event"
)

// shared is the archive of a fleet of two servers, whose clock is that of the bed.
type shared struct {
	t      *testing.T
	now    time.Time
	flows  []measuretest.Fields
	events []event.Event
	of     [2]*watcher
	leader int
}

// watcher is one server.
type watcher struct {
	*Loss
	fleet *shared
}

// Event stores an event.
func (w *watcher) Event(e event.Event) { w.fleet.events = append(w.fleet.events, e) }
func (w *watcher) Change(event.Change) {}

func newShared(t *testing.T) *shared {
	s := &shared{t: t, now: start}
	s.restart(0)
	s.restart(1)
	return s
}

// restart makes a server forget everything.
func (s *shared) restart(i int) {
	w := &watcher{fleet: s}
	w.Loss = New(Limit{Share: 0.01, Over: 10 * time.Second, Packets: 100}, 1000, w)
	w.now = func() time.Time { return s.now }
	w.Join(Fleet{Archive: s, Leads: func() bool { return s.leader == i }})
	s.of[i] = w
}

// Export answers with the rows since a time.
func (s *shared) Export(_ context.Context, q archive.Export, rows func(arrow.RecordBatch) error) error {
	var record arrow.RecordBatch
	if q.Stream == measure.Flows.Name {
		with := measure.Flows
		with.Fields = append([]measure.Field{{Name: "agent", Type: measure.String}}, with.Fields...)
		var found []measuretest.Fields
		for _, f := range s.flows {
			if !f["time"].(time.Time).Before(q.From) {
				found = append(found, f)
			}
		}
		record = measuretest.Record(s.t, &with, found...)
	} else {
		with := measure.Events
		with.Fields = append([]measure.Field(nil), with.Fields...)
		var found []measuretest.Fields
		for _, e := range s.events {
			if e.Kind == q.Where["kind"] && !e.Time.Before(q.From) {
				found = append(found, measuretest.Fields{"time": e.Time, "kind": e.Kind, "about": e.Agent, "peer": e.Peer, "session": e.Session})
			}
		}
		record = measuretest.Record(s.t, &with, found...)
	}
	return rows(record)
}

// seconds lets time pass with a row of a > b each second that one server stores; the other hears of it
// unless it is lost.
func (s *shared) seconds(n, own int, heard bool, expected, lost uint64) {
	s.t.Helper()
	for range n {
		s.now = s.now.Add(time.Second)
		row := measuretest.Fields{"time": s.now, "session": "s", "source": "a", "interval_ns": int64(time.Second), "expected": expected, "lost": lost}
		batch := archive.Batch{Agent: "b", Record: measuretest.Record(s.t, &measure.Flows, row)}
		if own >= 0 {
			if err := s.of[own].Add(batch); err != nil {
				s.t.Error(err)
			}
		}
		if other := 1 - own; heard && other < 2 {
			if err := s.of[other].AddOthers(batch); err != nil {
				s.t.Error(err)
			}
		}
		archived := measuretest.Fields{"agent": "b"}
		for name, value := range row {
			archived[name] = value
		}
		s.flows = append(s.flows, archived)
		s.tick()
	}
}

func (s *shared) silence(n int) {
	for range n {
		s.now = s.now.Add(time.Second)
		s.tick()
	}
}

func (s *shared) tick() {
	s.t.Helper()
	for _, w := range s.of {
		w.Tick()
		if err := w.Recall(s.t.Context()); err != nil {
			s.t.Error(err)
		}
	}
}

// expect compares the kinds of all events.
func (s *shared) expect(want ...string) {
	s.t.Helper()
	var got []string
	for _, e := range s.events {
		got = append(got, e.Kind)
		if e.Agent != "a" || e.Peer != "b" || e.Session != "s" {
			s.t.Errorf("event %+v", e)
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		s.t.Fatalf("got %v, want %v", got, want)
	}
}

// TestLossMoves: when another server takes the rows of a pair, its ongoing loss is neither raised again nor
// forgotten, whether the server has heard of the rows before, has just started, or comes back.
func TestLossMoves(t *testing.T) {
	for name, prepare := range map[string]func(*shared){
		"warm": func(*shared) {}, "just started": func(s *shared) { s.restart(1) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newShared(t)
			s.seconds(20, 0, true, 1000, 50)
			s.expect("loss")
			prepare(s)
			s.seconds(20, 1, true, 1000, 50)
			s.expect("loss")
			s.seconds(20, 0, true, 1000, 50)
			s.expect("loss")
			s.seconds(20, 1, true, 1000, 0)
			s.seconds(30, 0, true, 1000, 0)
			s.expect("loss", "loss-ended")
			s.seconds(20, 1, true, 1000, 50)
			s.expect("loss", "loss-ended", "loss")
		})
	}
}

// TestLossAtTakeover: a loss that a server saw and could not report any more is reported by the next one,
// once, also if its rows were stored and nobody heard of them.
func TestLossAtTakeover(t *testing.T) {
	for name, heard := range map[string]bool{"heard": true, "only stored": false} {
		t.Run(name, func(t *testing.T) {
			s := newShared(t)
			s.seconds(20, 0, true, 1000, 0)
			s.seconds(1, -1, false, 1000, 0)
			s.of[0].events = discard{} // it stops before its event is stored
			s.seconds(1, 0, heard, 1000, 900)
			s.expect()
			s.restart(0)
			s.seconds(6, 1, true, 1000, 0)
			s.expect("loss")
			s.seconds(60, 1, true, 1000, 0)
			s.expect("loss", "loss-ended")
		})
	}
}

// TestLossOfNobody: the leading server ends a loss whose pair fell silent with the server that stored its
// rows; while that lives, it does so itself.
func TestLossOfNobody(t *testing.T) {
	for name, alive := range map[string]bool{"stopped": false, "alive": true} {
		t.Run(name, func(t *testing.T) {
			s := newShared(t)
			s.leader = 1
			s.seconds(20, 0, true, 1000, 50)
			s.expect("loss")
			if !alive {
				s.restart(0)
			}
			s.silence(90)
			s.expect("loss", "loss-ended")
		})
	}
}
