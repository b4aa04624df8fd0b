//go:build long

package transfer_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"errors"
	"strings"

	"pillion.dev/archive"
	"pillion.dev/archive/archivetest"
	"pillion.dev/archive/transfer"
	"pillion.dev/internal/test/clickhousetest"
	"pillion.dev/measure"
)

// TestLongInterrupted: a copy that is interrupted at random points and goes on has each row once.
func TestLongInterrupted(t *testing.T) {
	for name, start := range map[string]func() *clickhousetest.Cluster{
		"one server": func() *clickhousetest.Cluster { return clickhousetest.Start(t) },
		"cluster":    func() *clickhousetest.Cluster { return clickhousetest.StartCluster(t, 2, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			from, servers := newSource(t), start()
			from.fill(t)
			to := openTarget(t, servers.URL("interrupted"))
			random := rand.New(rand.NewPCG(7, 8))
			most := 300 * time.Millisecond
			for try := 0; ; try++ {
				ctx, cancel := context.WithCancel(t.Context())
				timer := time.AfterFunc(time.Duration(random.Int64N(int64(most))), cancel)
				// A replica counts for a quorum only some time after its table was made.
				outcomes, err := transfer.Copy(ctx, from, to, transfer.Options{Source: "one", Lane: laneOf, ChunkRows: 300, Patience: time.Minute})
				ended := ctx.Err() != nil
				timer.Stop()
				cancel()
				if err == nil {
					complete(t, outcomes, nil)
					t.Log("interrupted", try, "times")
					break
				}
				if !ended {
					t.Fatal(err)
				}
				most += most / 5
			}
			same(t, from, to)
		})
	}
}

// TestLongKilled: a copy whose server is killed goes on when it is back, or when it is repeated.
func TestLongKilled(t *testing.T) {
	from, servers := newSource(t), clickhousetest.Start(t)
	from.fill(t)
	to := openTarget(t, servers.URL("killed"))
	for _, after := range []int64{3000, 9000, 15_000} {
		kill := sync.OnceFunc(servers.Nodes[0][0].Kill)
		_, err := transfer.Copy(t.Context(), &watched{source: from, after: after, then: kill}, to, transfer.Options{Source: "one", Lane: laneOf, ChunkRows: 500})
		if err == nil {
			t.Fatal("complete without a server")
		}
		servers.Nodes[0][0].Start()
		servers.Nodes[0][0].Ready()
	}
	kill, failed := sync.OnceFunc(servers.Nodes[0][0].Kill), 0
	outcomes, err := transfer.Copy(t.Context(), &watched{source: from, after: 2000, then: kill}, to, transfer.Options{
		Source: "one", Lane: laneOf, ChunkRows: 500, Patience: time.Minute,
		Failed: func(error) {
			if failed++; failed == 1 {
				servers.Nodes[0][0].Start()
			}
		},
	})
	complete(t, outcomes, err)
	if failed == 0 {
		t.Error("did not fail")
	}
	same(t, from, to)
}

// watched calls then once so many rows were read.
type watched struct {
	*source
	after, read int64
	then        func()
}

// ByArrival implements transfer.Source.
func (w *watched) ByArrival(ctx context.Context, stream string, agents []string, of transfer.Range, rows func(arrow.RecordBatch) error) error {
	return w.source.ByArrival(ctx, stream, agents, of, func(r arrow.RecordBatch) error {
		if w.read += r.NumRows(); w.read >= w.after {
			w.then()
		}
		return rows(r)
	})
}

// TestLongCopy: both archives answer the same; a second copy has nothing to do, a later one
// copies what has arrived since.
func TestLongCopy(t *testing.T) {
	from, servers := newSource(t), clickhousetest.Start(t)
	from.fill(t)
	to := openTarget(t, servers.URL("copied"))
	var last transfer.Progress
	states := -1
	options := transfer.Options{Source: "one", Lane: laneOf, ChunkRows: 700, Ready: func(n int) { states = n }, Progress: func(p transfer.Progress) { last = p }}
	outcomes, err := transfer.Copy(t.Context(), from, to, options)
	complete(t, outcomes, err)
	if states != len(from.Deliveries()) || last.Total == 0 || last.Done > last.Total {
		t.Errorf("%d states, progress %+v", states, last)
	}
	same(t, from, to)
	archivetest.CompareCopy(t, from, to)
	var again int64
	options.Progress = func(p transfer.Progress) { again = p.New }
	outcomes, err = transfer.Copy(t.Context(), from, openTarget(t, servers.URL("copied")), options)
	complete(t, outcomes, err)
	if again != 0 {
		t.Errorf("copied %d rows twice", again)
	}
	from.now = from.now.Add(time.Minute)
	from.store(t, batch(t, "x", typesOf(measure.Int64), 50, 100_000, 10))
	outcomes, err = transfer.Copy(t.Context(), from, to, options)
	complete(t, outcomes, err)
	same(t, from, to)
	removed, err := to.Retain(t.Context(), from.now.Add(10_000*24*time.Hour-30*time.Second))
	if n := strings.Count(contents(t, to, "everything"), "\n"); err != nil || removed["everything"] != 18_000 || n != 6010 { // a whole day at a time
		t.Errorf("%d rows are left of which %v were removed, %v", n, removed, err)
	}
	outcomes, err = transfer.Copy(t.Context(), from, to, options)
	complete(t, outcomes, err)
}

// TestLongAcknowledged: batches that the source has stored are not stored again, others are, and
// servers do not use a target before it knows which.
func TestLongAcknowledged(t *testing.T) {
	from, servers := newSource(t), clickhousetest.Start(t)
	from.fill(t)
	to := openTarget(t, servers.URL("acknowledged"))
	options := transfer.Options{Source: "one", Lane: laneOf}
	options.Ready = func(int) { // servers start while rows are copied
		for i, agent := range []string{"x", "y", "z"} {
			l, err := to.OpenLane(t.Context(), int(laneOf(agent)), 5)
			if err != nil {
				t.Fatal(err)
			}
			for sequence, want := range map[int]bool{0: false, 3 * (i + 1): false, 3*(i+1) + 1: true} {
				stored, rejected, err := l.Store(t.Context(), []archive.Batch{batch(t, agent, typesOf(measure.Int64), uint64(sequence), 200_000+i, 1)})
				if err != nil || len(rejected) > 0 || stored[0] != want {
					t.Errorf("batch %d of %s: stored %v, %v, %v", sequence, agent, stored, rejected, err)
				}
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	outcomes, err := transfer.Copy(t.Context(), from, to, options)
	complete(t, outcomes, err)
	if d, err := to.Delivered(t.Context(), "x"); err != nil || d["everything"].Rows != 8001 {
		t.Errorf("delivered %+v, %v", d, err)
	}
	options.Ready = nil
	outcomes, err = transfer.Copy(t.Context(), from, to, options)
	complete(t, outcomes, err)
	from.now = from.now.Add(time.Minute)
	from.store(t, batch(t, "x", typesOf(measure.Int64), 90, 300_000, 1))
	if _, err := transfer.Copy(t.Context(), from, to, options); !errors.Is(err, transfer.ErrContinued) {
		t.Errorf("stored after servers use the target: %v", err)
	}
	options.Source = "two"
	if _, err := transfer.Copy(t.Context(), from, to, options); !errors.Is(err, transfer.ErrOpened) {
		t.Errorf("into a target in use: %v", err)
	}
	options.Stopped = true
	if _, err := transfer.Copy(t.Context(), from, to, options); err != nil {
		t.Errorf("while servers are stopped: %v", err)
	}
}
