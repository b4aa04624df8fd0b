package clickhouse

import (
	"errors"
	"testing"
	"time"

	"pillion.dev/archive"
	"pillion.dev/internal/test/clickhousetest"
	"pillion.dev/measure"
	"pillion.dev/measure/measuretest"
)

// ledgerStream is a stream whose rows have a number.
var ledgerStream = &measure.Schema{Name: "ledger", Fields: []measure.Field{measure.TimeField, {Name: "n", Type: measure.Int64}}}

func ledgerBatch(t testing.TB, agent string, sequence uint64, rows int) archive.Batch {
	t.Helper()
	var list []measuretest.Fields
	for i := range rows {
		list = append(list, measuretest.Fields{"time": time.Unix(1_700_000_000, int64(i)), "n": int(sequence)*rows + i})
	}
	return archive.Batch{Agent: agent, Key: measure.Key{Stream: ledgerStream.Name, Epoch: 1, Sequence: sequence}, Schema: ledgerStream, Record: measuretest.Record(t, ledgerStream, list...)}
}

func rowsOf(t testing.TB, a *Archive) (n int64) {
	t.Helper()
	streams, err := a.Streams(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range streams {
		if s.Schema.Name == ledgerStream.Name {
			n = s.Rows
		}
	}
	return n
}

// TestLanes: batches of a lane are stored once, whoever owns it, and an earlier owner stores
// nothing after a later one has.
func TestLanes(t *testing.T) {
	servers := clickhousetest.StartCluster(t, 2, 2)
	first, second := open(t, servers.URL("lanes")), open(t, servers.URL("lanes"))
	takeLane := func(a *Archive, lane int, owner uint64) archive.Lane {
		t.Helper()
		l, err := a.OpenLane(t.Context(), lane, owner)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	store := func(l archive.Lane, batch archive.Batch) bool {
		t.Helper()
		stored, rejected, err := l.Store(t.Context(), []archive.Batch{batch})
		if err != nil || len(rejected) > 0 {
			t.Fatal(rejected, err)
		}
		return stored[0]
	}
	for lane, agent := range []string{"a", "b"} { // one in each shard
		old := takeLane(first, lane, 5)
		for sequence := range uint64(3) {
			if !store(old, ledgerBatch(t, agent, sequence, 10)) {
				t.Errorf("batch %d of %s is not new", sequence, agent)
			}
		}
		next := takeLane(second, lane, 7)
		if store(next, ledgerBatch(t, agent, 2, 10)) {
			t.Error("stored again after the lane was taken over")
		}
		if !store(next, ledgerBatch(t, agent, 3, 10)) {
			t.Error("a new batch is not stored")
		}
		if _, err := first.OpenLane(t.Context(), lane, 6); !errors.Is(err, archive.ErrFenced) {
			t.Errorf("an earlier owner opens the lane: %v", err)
		}
		if d, err := first.Delivered(t.Context(), agent); err != nil || d[ledgerStream.Name] != (archive.Delivered{Batches: 4, Rows: 40}) {
			t.Errorf("delivered %+v, %v", d, err)
		}
		if err := next.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := rowsOf(t, second); n != 80 {
		t.Errorf("%d rows, want 80", n)
	}
}
