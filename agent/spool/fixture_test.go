package spool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/internal/test/hang"
	"pillion.dev/measure"
)

func schemaOf(name string) *measure.Schema {
	return &measure.Schema{Name: name, Fields: []measure.Field{
		measure.TimeField, {Name: "value", Type: measure.Uint64}, {Name: "padding", Type: measure.Binary},
	}}
}

// record has the values first, first+1, ... and padding bytes in each row.
func record(schema *measure.Schema, first uint64, rows, padding int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema.Arrow())
	defer b.Release()
	for i := range rows {
		b.Field(0).(*array.TimestampBuilder).Append(arrow.Timestamp(i))
		b.Field(1).(*array.Uint64Builder).Append(first + uint64(i))
		b.Field(2).(*array.BinaryBuilder).Append(make([]byte, padding))
	}
	return b.NewRecordBatch()
}

func openAt(t testing.TB, dir string, options Options) *Spool {
	t.Helper()
	s, err := Open(dir, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t testing.TB, s *Spool, stream string, first uint64, padding int) {
	t.Helper()
	schema := schemaOf(stream)
	r := record(schema, first, 1, padding)
	defer r.Release()
	if err := s.Put(schema, r); err != nil {
		t.Fatal(err)
	}
}

// server stores each key once.
type server struct {
	mu     sync.Mutex
	seen   map[measure.Key]bool
	floor  map[string]uint64 // highest Oldest by stream and epoch
	values map[uint64]int    // times each value was stored
	order  []measure.Key     // of first arrival
	faults []string
	// fail may return an error before or after a batch is stored.
	fail func(e measure.Envelope) (before, after error)
}

func newServer() *server {
	return &server{seen: map[measure.Key]bool{}, floor: map[string]uint64{}, values: map[uint64]int{}}
}

var errAway = errors.New("server is away")

func (v *server) send(ctx context.Context, e measure.Envelope) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	var before, after error
	if v.fail != nil {
		before, after = v.fail(e)
	}
	if before != nil {
		return before
	}
	v.store(e)
	return after
}

func (v *server) store(e measure.Envelope) {
	if e.Oldest > e.Sequence {
		v.faults = append(v.faults, fmt.Sprintf("%v: oldest %d", e.Key, e.Oldest))
	}
	if v.seen[e.Key] {
		return
	}
	line := fmt.Sprint(e.Stream, e.Epoch)
	if e.Sequence < v.floor[line] {
		v.faults = append(v.faults, fmt.Sprintf("%v: is new although %d was announced as the oldest", e.Key, v.floor[line]))
	}
	v.floor[line] = max(v.floor[line], e.Oldest)
	_, r, err := e.Decode()
	if err != nil {
		v.faults = append(v.faults, err.Error())
		return
	}
	defer r.Release()
	v.seen[e.Key] = true
	v.order = append(v.order, e.Key)
	for _, n := range r.Column(1).(*array.Uint64).Uint64Values() {
		v.values[n]++
	}
}

// has reports whether a value is stored.
func (v *server) has(value uint64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.values[value] > 0
}

// check fails on damage, a wrong Oldest, or a duplicate value.
func (v *server) check(t *testing.T) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, fault := range v.faults {
		t.Error(fault)
	}
	for n, times := range v.values {
		if times != 1 {
			t.Errorf("value %d is stored %d times", n, times)
		}
	}
}

// run delivers in the background until the test ends or stop is called.
func run(t testing.TB, s *Spool, send Send) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, send) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func drain(t testing.TB, s *Spool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang.Limit)
	defer cancel()
	if err := s.Drain(ctx); err != nil {
		t.Fatal(err)
	}
}

// until waits for a condition.
func until(t testing.TB, holds func() bool) {
	t.Helper()
	ticks := time.NewTicker(5 * time.Millisecond)
	defer ticks.Stop()
	for end := time.Now().Add(hang.Limit); !holds(); <-ticks.C {
		if time.Now().After(end) {
			t.Fatal("timed out")
		}
	}
}
