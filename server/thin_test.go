package server

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/oml/omsp/collect"
	"pillion.dev/server/ingest"
)

// blocked is an archive that stores nothing until free is closed.
type blocked struct {
	archive.Archive
	free chan struct{}
}

func (b blocked) Store(_ context.Context, batches []archive.Batch) ([]bool, map[int]error, error) {
	<-b.free
	return make([]bool, len(batches)), nil, nil
}

// journal is a log that can be read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) has(word string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Contains(j.text.String(), word)
}

// TestThinning: thinning begins when the queue is long and ends when it is short.
func TestThinning(t *testing.T) {
	events := &journal{}
	log := slog.New(slog.NewTextHandler(events, nil))
	slow := blocked{free: make(chan struct{})}
	in := ingest.New(ingest.Options{Archive: slow, QueueBytes: 1 << 20})
	local, err := ingest.NewLocal(in, log)
	if err != nil {
		t.Fatal(err)
	}
	collector := collect.New(collect.Options{})
	defer collector.Close()
	s := &server{ingest: in, local: local, log: log, applications: &applications{collector: collector}}
	ctx, cancel := context.WithCancel(t.Context())
	ticks, ended := make(chan time.Time), make(chan bool)
	go func() {
		s.thin(ctx, ticks)
		close(ended)
	}()
	now := time.Now()
	ticks <- now
	wide := measure.Schema{Name: "wide", Fields: []measure.Field{measure.TimeField, {Name: "b", Type: measure.Binary}}}
	b := array.NewRecordBuilder(memory.DefaultAllocator, wide.Arrow())
	defer b.Release()
	b.Field(0).AppendEmptyValue()
	b.Field(1).(*array.BinaryBuilder).Append(make([]byte, 700<<10))
	record := b.NewRecordBatch()
	defer record.Release()
	stored := make(chan error, 1)
	in.Put(&wide, record, func(err error) { stored <- err })
	ticks <- now.Add(time.Second)
	ticks <- now.Add(2 * time.Second) // by now the first tick has been handled
	if !events.has("kind=thinning ") || events.has("kind=thinning-ended") {
		t.Errorf("with a long queue: %s", &events.text)
	}
	close(slow.free)
	if err := <-stored; err != nil {
		t.Fatal(err)
	}
	ticks <- now.Add(20 * time.Second)
	ticks <- now.Add(21 * time.Second)
	if !events.has("kind=thinning-ended") {
		t.Errorf("with a short queue: %s", &events.text)
	}
	cancel()
	<-ended
	local.Close()
	in.Close()
}
