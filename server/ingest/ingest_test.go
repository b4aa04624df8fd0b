package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/bus"
	"pillion.dev/internal/quota"
	"pillion.dev/measure"
	"pillion.dev/server/event"
)

// shelf is an archive that only stores.
type shelf struct {
	archive.Archive
	mu     sync.Mutex
	have   map[string]bool
	rows   map[string]int64
	oldest map[string]uint64 // sequence number still in the sender's spool, by series of batches
	fail   error
	begun  chan struct{} // receives at each commit, unless nil
	hold   chan struct{} // commits wait for it, unless nil
}

func newShelf() *shelf {
	return &shelf{have: map[string]bool{}, rows: map[string]int64{}, oldest: map[string]uint64{}}
}

func (s *shelf) Store(_ context.Context, batches []archive.Batch) ([]bool, map[int]error, error) {
	if s.begun != nil {
		s.begun <- struct{}{}
	}
	if s.hold != nil {
		<-s.hold
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return nil, nil, s.fail
	}
	stored, rejected := make([]bool, len(batches)), map[int]error{}
	for i, b := range batches {
		key := fmt.Sprint(b.Agent, b.Key)
		if b.Agent == "odd" {
			rejected[i] = archive.ErrSchema
			continue
		}
		series := fmt.Sprint(b.Agent, b.Stream, b.Epoch)
		stored[i] = !s.have[key] && b.Sequence >= s.oldest[series]
		s.oldest[series] = max(s.oldest[series], b.Oldest)
		if stored[i] {
			s.have[key] = true
			s.rows[b.Stream] += b.Record.NumRows()
		}
	}
	return stored, rejected, nil
}

// incidents is a stream of agents with the columns of events, which only the server
// writes.
var incidents = measure.Schema{Name: "incidents", Fields: measure.Events.Fields}

// envelope is a batch of incidents with that many rows.
func envelope(t testing.TB, sequence uint64, rows int) measure.Envelope {
	t.Helper()
	var made measure.Envelope
	stream, err := measure.NewStream(&incidents, measure.StreamOptions{}, func(schema *measure.Schema, record arrow.RecordBatch) (err error) {
		made, err = measure.Encode(measure.Key{Stream: schema.Name, Epoch: 7, Sequence: sequence}, record)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for range rows {
		text := measure.StringValue("x")
		if err := stream.Append(measure.Sample{measure.TimeValue(time.Unix(1, 0)), text, text, text, text, text, text}); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	return made
}

// answers collects one answer for each delivery.
type answers struct {
	mu  sync.Mutex
	got map[string][]error
	all sync.WaitGroup
}

func (a *answers) of(agent string, e measure.Envelope) bus.Delivery {
	a.all.Add(1)
	return bus.Delivery{Agent: agent, Envelope: e, Answer: func(err error) {
		a.mu.Lock()
		a.got[agent] = append(a.got[agent], err)
		a.mu.Unlock()
		a.all.Done()
	}}
}

func TestEveryBatchIsAnsweredOnce(t *testing.T) {
	s := newShelf()
	i := New(Options{Archive: s, Linger: time.Millisecond})
	w := i.Live().Watch([]string{"incidents"}, 100)
	a := &answers{got: map[string][]error{}}
	good, damaged := envelope(t, 0, 3), envelope(t, 1, 2)
	damaged.Payload = append([]byte(nil), damaged.Payload...)
	damaged.Payload[40] ^= 1
	for _, d := range []bus.Delivery{
		a.of("a", good), a.of("a", good), a.of("b", good), a.of("broken", damaged), a.of("odd", good),
	} {
		i.Accept(d)
	}
	a.all.Wait()
	i.Close()
	for agent, want := range map[string]error{"broken": measure.ErrBatch, "odd": bus.ErrRejected} {
		if err := a.got[agent]; len(err) != 1 || !errors.Is(err[0], want) {
			t.Errorf("%s was answered %v, want %v", agent, err, want)
		}
	}
	if len(a.got["a"]) != 2 || errors.Join(a.got["a"]...) != nil || errors.Join(a.got["b"]...) != nil {
		t.Errorf("answers: %v", a.got)
	}
	if st := i.Stats(); st.Batches != 2 || st.Rows != 6 || st.Duplicates != 1 || st.Rejected != 2 || st.QueueBytes != 0 {
		t.Errorf("stats: %+v", st)
	}
	var live int64
	for b := range w.Batches() {
		live += b.Record.NumRows()
		b.Record.Release()
	}
	if live != 6 || w.Missed() != 0 {
		t.Errorf("%d rows were watched, %d missed", live, w.Missed())
	}
}

func TestFailureIsTemporary(t *testing.T) {
	s := newShelf()
	s.fail = archive.ErrFull
	i := New(Options{Archive: s, Linger: time.Millisecond})
	a := &answers{got: map[string][]error{}}
	i.Accept(a.of("a", envelope(t, 0, 1)))
	a.all.Wait()
	if err := a.got["a"][0]; !errors.Is(err, archive.ErrFull) || errors.Is(err, bus.ErrRejected) {
		t.Errorf("answered %v", err)
	}
	s.mu.Lock()
	s.fail = nil
	s.mu.Unlock()
	i.Accept(a.of("a", envelope(t, 0, 1)))
	a.all.Wait()
	i.Close()
	if st := i.Stats(); a.got["a"][1] != nil || st.Failed != 1 || st.Batches != 1 {
		t.Errorf("answered %v, %+v", a.got["a"], st)
	}
	i.Accept(a.of("late", envelope(t, 1, 1)))
	if err := a.got["late"]; len(err) != 1 || err[0] == nil {
		t.Errorf("after close: %v", err)
	}
}

// TestQueueIsBounded: a sender waits while the archive is slow.
func TestQueueIsBounded(t *testing.T) {
	s := newShelf()
	s.begun, s.hold = make(chan struct{}), make(chan struct{})
	e := envelope(t, 0, 10)
	i := New(Options{Archive: s, Linger: time.Nanosecond, QueueBytes: int64(3 * len(e.Payload)), CommitBytes: 1})
	a := &answers{got: map[string][]error{}}
	const batches = 50
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range batches {
			e := envelope(t, uint64(n), 10)
			i.Accept(a.of("a", e))
			if st := i.Stats(); st.QueueBytes > int64(3*len(e.Payload)) {
				t.Errorf("%d bytes queued", st.QueueBytes)
			}
		}
	}()
	for range batches {
		<-s.begun
		s.hold <- struct{}{}
	}
	<-done
	a.all.Wait()
	i.Close()
	if st := i.Stats(); st.Batches != batches || st.Commits != batches {
		t.Errorf("stats: %+v", st)
	}
}

func TestSlowWatcherMissesRows(t *testing.T) {
	i := New(Options{Archive: newShelf(), Linger: time.Millisecond})
	slow, other := i.Live().Watch(nil, 1), i.Live().Watch([]string{"flows"}, 1)
	a := &answers{got: map[string][]error{}}
	for n := range 4 {
		i.Accept(a.of("a", envelope(t, uint64(n), 5)))
		a.all.Wait()
	}
	i.Close()
	var rows int64
	for b := range slow.Batches() {
		rows += b.Record.NumRows()
		b.Record.Release()
	}
	if rows+int64(slow.Missed()) != 20 || slow.Missed() != 15 || i.Stats().LiveMissed != 3 {
		t.Errorf("%d rows received, %d missed", rows, slow.Missed())
	}
	if _, open := <-other.Batches(); open {
		t.Error("the watcher of another stream got a batch")
	}
	slow.Close()
	other.Close()
	i.Live().Watch(nil, 1).Close()
}

func TestEventsAndChangesAreStored(t *testing.T) {
	s := newShelf()
	i := New(Options{Archive: s})
	l, err := NewLocal(i, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		l.Event(event.Event{Kind: "agent-lost", Level: event.Warning, Agent: fmt.Sprint("a", n), Message: "lost contact"})
	}
	l.Change(event.Change{Token: "operator", Role: "admin", Method: "StopSession", Outcome: "ok"})
	l.Close()
	i.Close()
	if s.rows["events"] != 3 || s.rows["audit"] != 1 || l.Dropped() != 0 {
		t.Errorf("stored %v, dropped %d", s.rows, l.Dropped())
	}
}

// TestOwnRowsAreKeptWhileTheDiskIsFull: no spool has them, so they are held in memory.
func TestOwnRowsAreKeptWhileTheDiskIsFull(t *testing.T) {
	for _, row := range []struct {
		name            string
		recovers        bool
		stored, dropped int64
	}{{"disk recovers", true, 6, 0}, {"disk stays full", false, 0, 6}} {
		t.Run(row.name, func(t *testing.T) {
			s := newShelf()
			s.fail = archive.ErrFull
			i := New(Options{Archive: s, Linger: time.Millisecond})
			l, err := NewLocal(i, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			for range 5 {
				l.Event(event.Event{Kind: "agent-lost", Level: event.Warning})
			}
			a := &answers{got: map[string][]error{}}
			for i.Failing() == nil || i.Stats().Failed < 2 {
				i.Accept(a.of("a", envelope(t, 0, 1)))
				a.all.Wait()
			}
			s.mu.Lock()
			if row.recovers {
				s.fail = nil
			}
			s.mu.Unlock()
			l.Event(event.Event{Kind: "agent-connected", Level: event.Info})
			l.Close()
			i.Close()
			if s.rows["events"] != row.stored || int64(l.Dropped()) != row.dropped || (i.Failing() == nil) != row.recovers {
				t.Errorf("stored %d rows, dropped %d, %v", s.rows["events"], l.Dropped(), i.Failing())
			}
		})
	}
}

// TestAgentsCannotWriteServerStreams: only the server writes events and audit records.
func TestAgentsCannotWriteServerStreams(t *testing.T) {
	s := newShelf()
	i := New(Options{Archive: s, Linger: time.Millisecond})
	a := &answers{got: map[string][]error{}}
	for name, row := range map[string]struct{ agent, stream string }{
		"events": {"events", "events"}, "audit": {"audit", "audit"}, "server's name": {OwnAgent, "incidents"},
	} {
		t.Run(name, func(t *testing.T) {
			e := envelope(t, 0, 1)
			e.Stream = row.stream
			i.Accept(a.of(row.agent, e))
			a.all.Wait()
			if err := a.got[row.agent]; len(err) != 1 || !errors.Is(err[0], bus.ErrRejected) {
				t.Errorf("answered %v", err)
			}
		})
	}
	i.Close()
	if len(s.rows) != 0 {
		t.Errorf("stored %v", s.rows)
	}
}

// TestWatchersHoldBoundedBytes: the backlog of a watcher that does not read is limited
// in bytes, whatever the limit in batches.
func TestWatchersHoldBoundedBytes(t *testing.T) {
	w := newLive().Watch(nil, 1000)
	for range 100 {
		if w.hasRoom(watcherBytes / 4) {
			w.c <- archive.Batch{}
			w.sizes = append(w.sizes, watcherBytes/4)
		}
	}
	if len(w.c) != 4 {
		t.Fatalf("%d quarters are queued", len(w.c))
	}
	for range 4 {
		<-w.c
	}
	if !w.hasRoom(2*watcherBytes) || len(w.sizes) != 0 {
		t.Error("one large batch alone is refused")
	}
}

// TestImplausibleTimesAreCounted: rows of a wrong clock are stored, and counted.
func TestImplausibleTimesAreCounted(t *testing.T) {
	i := New(Options{Archive: newShelf(), Linger: time.Millisecond})
	a := &answers{got: map[string][]error{}}
	i.Accept(a.of("a", envelope(t, 0, 7))) // of 1970
	a.all.Wait()
	i.Close()
	if s := i.Stats(); s.Rows != 7 || s.Implausible != 7 || a.got["a"][0] != nil {
		t.Errorf("%+v, answered %v", s, a.got)
	}
}

// TestQuotasAreReported: a batch beyond a quota of its agent is reported; it is rejected for
// good only if nothing can expire.
func TestQuotasAreReported(t *testing.T) {
	for name, later := range map[string]bool{"later": true, "never": false} {
		t.Run(name, func(t *testing.T) {
			full := &quota.Error{Quota: "streams", Later: later}
			s := &refusing{shelf: newShelf(), reason: full}
			reported := 0
			i := New(Options{Archive: s, Linger: time.Millisecond, Refused: func(agent string, err error) {
				if agent == "a" && quota.Of(err) == full {
					reported++
				}
			}})
			a := &answers{got: map[string][]error{}}
			i.Accept(a.of("a", envelope(t, 0, 1)))
			a.all.Wait()
			i.Close()
			if err := a.got["a"][0]; reported != 1 || quota.Of(err) != full || errors.Is(err, bus.ErrRejected) == later {
				t.Errorf("answered %v, reported %d times", err, reported)
			}
		})
	}
}

// refusing is an archive that rejects all batches.
type refusing struct {
	*shelf
	reason error
}

func (r *refusing) Store(_ context.Context, batches []archive.Batch) ([]bool, map[int]error, error) {
	rejected := map[int]error{}
	for i := range batches {
		rejected[i] = r.reason
	}
	return make([]bool, len(batches)), rejected, nil
}
