package clickhouse

import (
	"testing"
	"time"

	"pillion.dev/archive"
	"pillion.dev/internal/test/clickhousetest"
	"pillion.dev/measure"
	"pillion.dev/measure/measuretest"
)

// TestRetentionOfRollUps: each is listed with its default, before it has rows too, and what one
// server sets is that of the others.
func TestRetentionOfRollUps(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	url := clickhousetest.Start(t).URL("shared")
	a, b := openAt(t, url, &now), openAt(t, url, &now)
	expect := func(of *Archive, ages map[*level]time.Duration, rows int64) {
		t.Helper()
		list, err := of.RollUps(t.Context())
		if err != nil || len(list) != len(levels) {
			t.Fatalf("got %v, %v", list, err)
		}
		for i, l := range levels {
			want, set := ages[l]
			if !set {
				want = l.age
			}
			if s := list[i]; s.Schema.Name != l.shown || s.Rows != rows && l == minute || s.Retention != (archive.Retention{Age: want}) {
				t.Errorf("%s: got %+v, want age %v and %d rows", l.shown, s, want, rows)
			}
		}
	}
	expect(a, nil, 0)
	record := measuretest.Record(t, &measure.Flows, measuretest.Fields{"time": now, "source": "a", "packets": 7})
	batch := archive.Batch{Agent: "b", Key: measure.Key{Stream: measure.Flows.Name, Epoch: 1}, Schema: &measure.Flows, Record: record}
	if _, rejected, err := a.Store(t.Context(), []archive.Batch{batch}); err != nil || len(rejected) > 0 {
		t.Fatal(rejected, err)
	}
	if err := a.implicit.rolling.rollUp(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	ages := map[*level]time.Duration{minute: 60 * 24 * time.Hour, hourly: 0}
	for l, age := range ages {
		a.SetRetention(l.shown, archive.Retention{Age: age})
	}
	expect(a, ages, 1)
	expect(b, ages, 1)
	if b.retentionOf(minute) != ages[minute] || b.retentionOf(hourly) != unlimitedAge {
		t.Errorf("in force: %v, %v", b.retentionOf(minute), b.retentionOf(hourly))
	}
	b.SetRetention(minute.shown, archive.Retention{Age: time.Hour})
	if _, err := b.Retain(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Streams(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := a.retentionOf(minute); got != time.Hour {
		t.Errorf("%v is in force, want what another server has set", got)
	}
}
