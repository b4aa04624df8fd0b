package ingest

import (
	"errors"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/measure"
)

// recordOf is a batch of rows as the server's own parts make them.
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

// TestPutIsTriedAgain: also where nobody else sends anything.
func TestPutIsTriedAgain(t *testing.T) {
	s := newShelf()
	s.fail, s.begun = errors.New("disk full"), make(chan struct{}, 100)
	i := New(Options{Archive: s, Linger: time.Millisecond})
	defer i.Close()
	done := make(chan error, 2)
	i.Put(measure.Key{Stream: incidents.Name, Epoch: 1}, &incidents, recordOf(t, 3), func(err error) { done <- err })
	<-s.begun
	s.mu.Lock()
	s.fail = nil
	s.mu.Unlock()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it was not tried again")
	}
	if s.rows[incidents.Name] != 3 || len(done) != 0 {
		t.Errorf("%d rows, told again: %v", s.rows[incidents.Name], len(done))
	}
}

// TestHurry: a server that ends does not wait for an archive that takes nothing.
func TestHurry(t *testing.T) {
	s := newShelf()
	s.fail, s.begun = errors.New("disk full"), make(chan struct{}, 100)
	i := New(Options{Archive: s, Linger: time.Millisecond, QueueBytes: 1})
	done := make(chan error, 2)
	put := func(n uint64) {
		i.Put(measure.Key{Stream: incidents.Name, Epoch: 1, Sequence: n}, &incidents, recordOf(t, 3), func(err error) { done <- err })
	}
	put(1)
	<-s.begun
	waits := make(chan struct{})
	go func() {
		put(2)
		close(waits)
	}()
	i.Hurry()
	<-waits
	i.Close()
	for range 2 {
		if err := <-done; !errors.Is(err, errClosing) {
			t.Errorf("told %v", err)
		}
	}
}
