package clickhouse

import (
	"testing"
	"time"

	"pillion.dev/archive"
	"pillion.dev/internal/test/clickhousetest"
	"pillion.dev/internal/test/hang"
	"pillion.dev/measure"
	"pillion.dev/measure/measuretest"
)

// TestMissingTables: a replica that lacks tables, because it was away or a server was
// interrupted when they were created, gets them once an insert has no quorum without it.
func TestMissingTables(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	a := openAt(t, clickhousetest.StartCluster(t, 1, 2).URL("missing"), &now)
	l, err := a.openLane(t.Context(), 0, 5)
	if err != nil {
		t.Fatal(err)
	}
	record := measuretest.Record(t, &measure.Flows, measuretest.Fields{"time": now, "source": "a", "packets": 1})
	batch := archive.Batch{Agent: "b", Key: measure.Key{Stream: measure.Flows.Name, Epoch: 1}, Schema: &measure.Flows, Record: record}
	if _, rejected, err := l.Store(t.Context(), []archive.Batch{batch}); err != nil || len(rejected) > 0 {
		t.Fatal(rejected, err)
	}
	away := a.shards[0][1] // of which the lane is not the first to ask
	for _, table := range []string{a.local(minute.name), a.own(marksTable)} {
		if err := away.exec(t.Context(), "DROP TABLE "+table); err != nil {
			t.Fatal(err)
		}
	}
	away.forget(measure.Flows.Name)
	away.founded = false
	// A new table counts for a quorum once its replica is active, which takes a moment.
	for end := time.Now().Add(hang.Limit); ; time.Sleep(time.Second) {
		if err = l.rolling.rollUp(t.Context(), all); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	for _, table := range []string{a.localName(minute.name), marksTable} {
		if columns, err := a.columns(t.Context(), away, table); err != nil || len(columns) == 0 {
			t.Errorf("the replica has no table %s, %v", table, err)
		}
	}
}
