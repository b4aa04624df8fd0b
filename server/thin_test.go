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
	"pillion.dev/omsp/collect"
	"pillion.dev/server/ingest"
)

// stuck is an archive that takes nothing until it is let go.
type stuck struct {
	archive.Archive
	free chan struct{}
}

func (s stuck) Store(_ context.Context, batches []archive.Batch) ([]bool, map[int]error, error) {
	<-s.free
	return make([]bool, len(batches)), nil, nil
}

// said is a log that can be read while it is written.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) has(word string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.text.String(), word)
}

// TestThinningOfTheServer begins when the queue is long and ends when it is not.
func TestThinningOfTheServer(t *testing.T) {
	heard := &said{}
	log := slog.New(slog.NewTextHandler(heard, nil))
	slow := stuck{free: make(chan struct{})}
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
	ticks <- now.Add(2 * time.Second) // by now the first has been heard
	if !heard.has("kind=thinning ") || heard.has("kind=thinning-ended") {
		t.Errorf("with a long queue: %s", &heard.text)
	}
	close(slow.free)
	if err := <-stored; err != nil {
		t.Fatal(err)
	}
	ticks <- now.Add(20 * time.Second)
	ticks <- now.Add(21 * time.Second)
	if !heard.has("kind=thinning-ended") {
		t.Errorf("with a short queue: %s", &heard.text)
	}
	cancel()
	<-ended
	local.Close()
	in.Close()
}
