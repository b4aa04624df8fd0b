//go:build long

package transfer_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive/transfer"
	"pillion.dev/internal/test/clickhousetest"
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
