package duckdb

import (
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/measure"
)

// reader follows the arrivals of the stream clock and notes how often each row came.
type reader struct {
	t       *testing.T
	mark    uint64
	times   map[arrow.Timestamp]int
	removed int64
}

func (r *reader) read(a *Archive, most int64) (more bool) {
	r.t.Helper()
	got, err := a.Arrived(r.t.Context(), measure.Clock.Name, r.mark, most, func(record arrow.RecordBatch) error {
		at := record.Schema().FieldIndices(measure.TimeField.Name)[0]
		for _, time := range record.Column(at).(*array.Timestamp).Values() {
			r.times[time]++
		}
		return nil
	})
	if err != nil || got.Mark < r.mark {
		r.t.Fatalf("%+v, %v", got, err)
	}
	r.mark, r.removed = got.Mark, r.removed+got.Removed
	return got.More
}

// TestArrivals: every row of the stream that is followed comes once, whatever the clock does,
// whether it was stored in one transaction or in several, and after the archive was opened again.
func TestArrivals(t *testing.T) { everyRowArrivesOnce(t, 20) }

// everyRowArrivesOnce stores in so many rounds, and reopens the archive after every twenty.
func everyRowArrivesOnce(t *testing.T, rounds int) {
	now := time.Unix(1_800_000_000, 0)
	path := filepath.Join(t.TempDir(), "a")
	options := Options{Arrivals: []string{measure.Clock.Name}, Now: func() time.Time { return now }}
	a := open(t, path, options)
	if mark, err := a.LastArrival(t.Context(), measure.Clock.Name); mark != 0 || err != nil {
		t.Fatalf("mark %d, %v", mark, err)
	}
	r := &reader{t: t, times: map[arrow.Timestamp]int{}}
	random := rand.New(rand.NewPCG(1, 2))
	stored, sequence := 0, uint64(0)
	for round := range rounds {
		now = now.Add([]time.Duration{0, 0, time.Second, -time.Minute, -2*time.Hour + time.Duration(random.IntN(1e9))}[random.IntN(5)])
		rows := 1 + random.IntN(50)
		batches := []archive.Batch{
			batch(t, "x", &measure.Clock, sequence, stored, stored+rows),
			batch(t, "x", &measure.Host, sequence, 0, 3), // not followed
			batch(t, "x", &measure.Clock, sequence, stored, stored+rows),
		}
		stored, sequence = stored+rows, sequence+1
		store(t, a, batches...)
		store(t, a, batches...) // they were stored before
		if random.IntN(3) == 0 {
			for r.read(a, int64(1+random.IntN(100))) {
			}
		}
		if round%20 == 19 {
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			a = open(t, path, options)
		}
	}
	// In parallel transactions.
	var large []archive.Batch
	for _, agent := range []string{"p", "q"} {
		large = append(large, batch(t, agent, &measure.Clock, 0, stored, stored+2*partRows))
		stored += 2 * partRows
	}
	store(t, a, large...)
	for r.read(a, 10) {
	}
	if last, err := a.LastArrival(t.Context(), measure.Clock.Name); last != r.mark || err != nil {
		t.Errorf("read up to %d, the last is %d, %v", r.mark, last, err)
	}
	for _, n := range r.times {
		if n != 1 {
			t.Fatalf("a row came %d times", n)
		}
	}
	if len(r.times) != stored || r.removed != 0 {
		t.Errorf("%d rows came, %d were removed, %d were stored", len(r.times), r.removed, stored)
	}
	if _, err := a.Arrived(t.Context(), measure.Host.Name, 0, 1, nil); err == nil {
		t.Error("a stream that is not followed has arrivals")
	}
}

// TestRemovedArrivals: rows that retention removed before they were read are counted, and what was
// read is forgotten at last, but not the last mark.
func TestRemovedArrivals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	options := Options{Arrivals: []string{measure.Clock.Name}}
	a := open(t, path, options)
	for n := range arrivalsMost + 10 {
		store(t, a, batch(t, "x", &measure.Clock, uint64(n), n, n+1))
	}
	r := &reader{t: t, times: map[arrow.Timestamp]int{}}
	r.read(a, arrivalsMost)
	a.SetRetention(measure.Clock.Name, archive.Retention{Rows: 1})
	if _, err := a.Retain(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	kept := count(t, a, "SELECT count(*) FROM clock")
	for r.read(a, 1) {
	}
	r.read(a, 1)
	if got := int64(len(r.times)) + r.removed; got != arrivalsMost+10 || r.removed == 0 {
		t.Errorf("%d rows came and %d were removed, of %d; %d are kept", len(r.times), r.removed, arrivalsMost+10, kept)
	}
	mark := r.mark
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = open(t, path, options)
	if last, err := a.LastArrival(t.Context(), measure.Clock.Name); last != mark || err != nil {
		t.Errorf("the last mark is %d, want %d, %v", last, mark, err)
	}
	var left int64
	if err := a.writer.query(t.Context(), "SELECT count(*) FROM pillion.arrivals", nil, answer.Each(func(r answer.Row) { left = r.Int(0) })); err != nil || left > 20 {
		t.Errorf("%d marks are kept, %v", left, err)
	}
}
