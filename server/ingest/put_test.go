package ingest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/internal/test/hang"
)

// recordOf returns a batch of rows like those of the server's own parts.
func recordOf(t *testing.T, rows int) arrow.RecordBatch {
	t.Helper()
	builder := array.NewRecordBuilder(memory.DefaultAllocator, incidents.Arrow())
	defer builder.Release()
	for range rows {
		for n := range incidents.Fields {
			switch b := builder.Field(n).(type) {
			case *array.TimestampBuilder:
				b.Append(1)
			case *array.StringBuilder:
				b.Append("x")
			}
		}
	}
	record := builder.NewRecordBatch()
	t.Cleanup(record.Release)
	return record
}

// TestPutIsRetried: even if no other batch arrives.
func TestPutIsRetried(t *testing.T) {
	s := newShelf()
	s.fail, s.begun = errors.New("disk full"), make(chan struct{}, 100)
	i := New(Options{Archive: s, Linger: time.Millisecond})
	defer i.Close()
	done := make(chan error, 2)
	i.Put(&incidents, recordOf(t, 3), func(err error) { done <- err })
	<-s.begun
	s.mu.Lock()
	s.fail = nil
	s.mu.Unlock()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(hang.Limit):
		t.Fatal("it was not retried")
	}
	if s.rows[incidents.Name] != 3 || len(done) != 0 {
		t.Errorf("%d rows, %d more answers", s.rows[incidents.Name], len(done))
	}
}

// TestHurry: a server that stops does not wait for an archive that stores nothing.
func TestHurry(t *testing.T) {
	s := newShelf()
	s.fail, s.begun = errors.New("disk full"), make(chan struct{}, 100)
	i := New(Options{Archive: s, Linger: time.Millisecond, QueueBytes: 1})
	done := make(chan error, 2)
	put := func() {
		i.Put(&incidents, recordOf(t, 3), func(err error) { done <- err })
	}
	put()
	<-s.begun
	waits := make(chan struct{})
	go func() {
		put()
		close(waits)
	}()
	i.Hurry()
	<-waits
	i.Close()
	for range 2 {
		if err := <-done; !errors.Is(err, errClosing) {
			t.Errorf("answered %v", err)
		}
	}
}

// TestConcurrentPuts: batches put concurrently are never duplicates.
func TestConcurrentPuts(t *testing.T) {
	s := newShelf()
	i := New(Options{Archive: s, Linger: time.Microsecond, CommitBytes: 1})
	record := recordOf(t, 3)
	var putting, answered sync.WaitGroup
	for range 8 {
		putting.Go(func() {
			for range 200 {
				answered.Add(1)
				i.Put(&incidents, record, func(error) { answered.Done() })
			}
		})
	}
	putting.Wait()
	answered.Wait()
	i.Close()
	if got := s.rows[incidents.Name]; got != 8*200*3 || i.Stats().Duplicates != 0 {
		t.Errorf("%d rows, %d duplicates", got, i.Stats().Duplicates)
	}
}
