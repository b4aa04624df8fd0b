package clickhouse

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/internal/test/clickhousetest"
	"pillion.dev/measure"
	"pillion.dev/measure/measuretest"
)

// openAt opens an archive of which the clock is a variable. It is not rolled up by itself.
func openAt(t *testing.T, url string, now *time.Time) *Archive {
	t.Helper()
	_, location, _ := strings.Cut(url, ":")
	a, err := Open(location, Options{RollUp: time.Hour, Now: func() time.Time { return *now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// all levels are due.
func all(*level, time.Time) bool { return true }

// TestRollUpsOfLanes: another owner goes on where the last one stopped, also when that made a
// roll-up without its mark, and rows stay until they are rolled up.
func TestRollUpsOfLanes(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	a := openAt(t, clickhousetest.StartCluster(t, 1, 2).URL("lanes"), &now)
	take := func(owner uint64) *lane {
		t.Helper()
		l, err := a.openLane(t.Context(), 3, owner)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	store := func(l *lane, sequence uint64) {
		t.Helper()
		record := measuretest.Record(t, &measure.Flows, measuretest.Fields{"time": now, "source": "a", "packets": 1 + sequence})
		batch := archive.Batch{Agent: "b", Key: measure.Key{Stream: measure.Flows.Name, Epoch: 1, Sequence: sequence}, Schema: &measure.Flows, Record: record}
		if _, rejected, err := l.Store(t.Context(), []archive.Batch{batch}); err != nil || len(rejected) > 0 {
			t.Fatal(rejected, err)
		}
	}
	rolled := func(l *level) (packets uint64, rows int64) {
		t.Helper()
		err := a.query(a.consistent(t.Context()), "SELECT sum(packets), toInt64(count()) FROM "+a.table(l.name), func(scan func(...any) error) error { return scan(&packets, &rows) })
		if err != nil {
			t.Fatal(err)
		}
		return packets, rows
	}
	expect := func(l *level, packets uint64, rows int64) {
		t.Helper()
		if p, n := rolled(l); p != packets || n != rows {
			t.Errorf("%s has %d packets in %d rows, want %d in %d", l.shown, p, n, packets, rows)
		}
	}
	first := take(5)
	store(first, 0)
	store(first, 1)
	if err := first.rolling.rollUp(t.Context(), func(l *level, _ time.Time) bool { return l == minute }); err != nil {
		t.Fatal(err)
	}
	expect(minute, 3, 1)
	// One that ends between the roll-up and its mark.
	store(first, 2)
	m := first.rolling.marks[minute]
	if err := first.rolling.insert(t.Context(), minute, m, mark{m.commit + 1, now}, now.Add(-time.Hour).UnixNano(), now.Add(time.Hour).UnixNano()); err != nil {
		t.Fatal(err)
	}
	second := take(7)
	store(second, 3)
	if err := second.rolling.rollUp(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	expect(minute, 1+2+3+4, 3)
	expect(hourly, 1+2+3+4, 1)
	expect(sixHours, 1+2+3+4, 1)
	if err := first.rolling.insert(t.Context(), minute, m, mark{m.commit + 2, now}, now.Add(-time.Hour).UnixNano(), now.Add(time.Hour).UnixNano()); !errors.Is(err, archive.ErrFenced) {
		t.Errorf("an earlier owner rolls up: %v", err)
	}
	expect(minute, 1+2+3+4, 3)
}

// TestDue: an hour is rolled up once it has ended, and what a lane did before it is known at once.
func TestDue(t *testing.T) {
	half := time.Unix(1_800_001_800, 0)
	r := &rolling{marks: map[*level]mark{hourly: {at: half}}}
	for _, row := range []struct {
		level *level
		after time.Duration
		due   bool
	}{
		{minute, 0, true}, {hourly, 29*time.Minute + 59*time.Second, false}, {hourly, 30 * time.Minute, true}, {hourly, 3 * time.Hour, true}, {sixHours, 0, true},
	} {
		if r.due(row.level, half.Add(row.after)) != row.due {
			t.Errorf("%s, %v after it was rolled up last: want %v", row.level.shown, row.after, row.due)
		}
	}
}

// TestRollUpRetention: rows outlive their retention until they are rolled up.
func TestRollUpRetention(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	a := openAt(t, clickhousetest.Start(t).URL("kept"), &now)
	record := measuretest.Record(t, &measure.Flows, measuretest.Fields{"time": now, "source": "a", "session": "s", "packets": 7})
	if _, rejected, err := a.Store(t.Context(), []archive.Batch{{Agent: "b", Key: measure.Key{Stream: measure.Flows.Name, Epoch: 1}, Schema: &measure.Flows, Record: record}}); err != nil || len(rejected) > 0 {
		t.Fatal(rejected, err)
	}
	sent := now
	a.SetRetention(measure.Flows.Name, archive.Retention{Age: time.Hour})
	now = now.Add(3 * 24 * time.Hour)
	if removed, err := a.Retain(t.Context(), now); err != nil || len(removed) > 0 {
		t.Errorf("removed %v before it was rolled up, %v", removed, err)
	}
	if err := a.implicit.rolling.rollUp(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	a.implicit.rolling.stop()
	a.options.RollUp = time.Nanosecond // readers go by the mark at once
	if removed, err := a.Retain(t.Context(), now); err != nil || removed[measure.Flows.Name] != 1 {
		t.Errorf("removed %v, %v", removed, err)
	}
	var packets string
	err := a.Query(t.Context(), "SELECT packets FROM flows_1m WHERE session = 's'", nil, archive.Limits{Rows: 10, Time: time.Minute}, func(r arrow.RecordBatch) error {
		packets += r.Column(0).String()
		return nil
	})
	if err != nil || packets != "[7]" {
		t.Errorf("flows_1m has %s packets, %v", packets, err)
	}
	answer, err := a.Windows(t.Context(), archive.Windows{From: sent.Add(-10 * time.Minute), To: sent.Add(10 * time.Minute), Points: 100})
	if err != nil || len(answer.Windows) != 1 || answer.Windows[0].Packets != 7 || answer.Step != time.Minute {
		t.Errorf("%+v, %v", answer, err)
	}
}
