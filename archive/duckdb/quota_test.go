package duckdb

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"pillion.dev/archive"
	"pillion.dev/internal/quota"
	"pillion.dev/measure"
)

// TestAgentsCannotChangeStandardStreams: no agent widens or retypes a stream whose columns
// the server defines. A column of a newer version is kept by its sender.
func TestAgentsCannotChangeStandardStreams(t *testing.T) {
	a := open(t, filepath.Join(t.TempDir(), "a"), Options{})
	store(t, a, batch(t, archive.OwnAgent, &measure.Clock, 0, 0, 1))
	before := fmt.Sprint(a.catalog.Schemas["clock"])
	for name, row := range map[string]struct {
		field measure.Field
		want  error
		later bool
	}{
		"retyped":        {measure.Field{Name: "offset_ns", Type: measure.String}, archive.ErrSchema, false},
		"widened":        {measure.Field{Name: "tai_offset_s", Type: measure.Float64, Unit: "s"}, archive.ErrSchema, false},
		"other unit":     {measure.Field{Name: "offset_ns", Type: measure.Int64, Unit: "s"}, archive.ErrSchema, false},
		"unknown column": {measure.Field{Name: "junk", Type: measure.Int64}, archive.ErrUnknownColumn, true},
	} {
		t.Run(name, func(t *testing.T) {
			evil := &measure.Schema{Name: "clock", Fields: []measure.Field{measure.TimeField, row.field}}
			_, rejected := store(t, a, batch(t, "evil", evil, 0, 0, 1))
			if err := rejected[0]; !errors.Is(err, row.want) || archive.Temporary(err) != row.later {
				t.Errorf("got %v", err)
			}
		})
	}
	if after := fmt.Sprint(a.catalog.Schemas["clock"]); after != before {
		t.Errorf("the stream became %s", after)
	}
	if stored, rejected := store(t, a, batch(t, "good", &measure.Clock, 0, 0, 5)); !stored[0] || len(rejected) != 0 {
		t.Errorf("honest batch: %v, %v", stored, rejected)
	}
}

// TestAgentCannotFillTables: an agent creates and extends streams within its quotas; others
// are unaffected, and the quotas outlive a restart.
func TestAgentCannotFillTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	options := Options{Quota: archive.Quota{Streams: 3, Columns: 20}}
	a := open(t, path, options)
	shape := func(name string, columns int) *measure.Schema {
		s := &measure.Schema{Name: name, Fields: []measure.Field{measure.TimeField}}
		for i := range columns - 1 {
			s.Fields = append(s.Fields, measure.Field{Name: fmt.Sprint("c", i), Type: measure.Int64})
		}
		return s
	}
	sequence := uint64(0)
	try := func(agent, stream string, columns int) string {
		t.Helper()
		sequence++
		_, rejected := store(t, a, batch(t, agent, shape(stream, columns), sequence, 0, 1))
		if rejected[0] == nil {
			return ""
		}
		if q := quota.Of(rejected[0]); q != nil && !archive.Temporary(rejected[0]) {
			return q.Quota
		}
		return rejected[0].Error()
	}
	for _, row := range []struct {
		agent, stream string
		columns       int
		want          string
	}{
		{"evil", "a", 5, ""}, {"evil", "b", 5, ""}, {"evil", "b", 10, ""}, {"evil", "b", 11, ""}, {"evil", "b", 17, "columns"},
		{"evil", "c", 2, ""}, {"evil", "d", 2, "streams"}, {"evil", "a", 5, ""}, {"good", "d", 5, ""}, {"good", "clocks", 5, ""},
		{"evil", "d", 5, ""}, {"evil", "d", 6, "streams"},
	} {
		if got := try(row.agent, row.stream, row.columns); got != row.want {
			t.Errorf("%s sends %s with %d columns: refused for %q, want %q", row.agent, row.stream, row.columns, got, row.want)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = open(t, path, options)
	if got := try("evil", "e", 2); got != "streams" {
		t.Errorf("after a restart: refused for %q", got)
	}
	// Streams whose rows have expired are dropped after a day, which frees the quota.
	a.SetRetention("c", archive.Retention{Age: time.Hour})
	for _, hours := range []int{2, 3, 30} {
		if _, err := a.Retain(t.Context(), time.Now().Add(time.Duration(hours)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if a.catalog.Schemas["c"] != nil || a.catalog.Schemas["a"] == nil {
		t.Errorf("streams: %v", a.catalog.Schemas)
	}
	if got := try("evil", "e", 2); got != "" {
		t.Errorf("after one expired: refused for %q", got)
	}
}

// TestCrashLoopDoesNotFillDeliveryState: an agent that begins sequence after sequence has a
// quota of them; superseded ones expire, their counts are kept, and no batch is stored
// twice.
func TestCrashLoopDoesNotFillDeliveryState(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	path := filepath.Join(t.TempDir(), "a")
	options := Options{Quota: archive.Quota{Sequences: 100}, Now: func() time.Time { return now }}
	a := open(t, path, options)
	send := func(agent string, epoch, number uint64) error {
		t.Helper()
		one := batch(t, agent, &measure.Clock, number, 0, 2)
		one.Epoch = epoch
		stored, rejected := store(t, a, one)
		if rejected[0] == nil && !stored[0] {
			return errors.New("duplicate")
		}
		return rejected[0]
	}
	for n := range uint64(100) {
		if err := send("loop", n, 0); err != nil {
			t.Fatal(n, err)
		}
	}
	err := send("loop", 1000, 0)
	if q := quota.Of(err); q == nil || q.Quota != "sequences" || !archive.Temporary(err) {
		t.Errorf("beyond the quota: %v", err)
	}
	if err := errors.Join(send("loop", 99, 1), send("honest", 1, 0)); err != nil {
		t.Errorf("known sequence, or another agent: %v", err)
	}
	now = now.Add(2 * time.Minute)
	if err := send("loop", 1000, 0); err == nil {
		t.Error("sequences expire at once")
	}
	for range 70 {
		now = now.Add(time.Minute)
		_ = send("loop", 99, uint64(now.Unix()))
	}
	if err := send("loop", 1000, 0); err == nil {
		t.Error("sequences expire although none was begun after them")
	}
	// A loop of an hour and a half, a start each minute.
	a.book.Quota.Sequences = 110
	refused := 0
	for n := range uint64(200) {
		now = now.Add(time.Minute)
		if send("loop", 2000+n, 0) != nil {
			refused++
		}
	}
	if n, _ := a.book.Holding("loop"); n > 110 || refused > 60 {
		t.Errorf("%d sequences are kept, %d were refused", n, refused)
	}
	if err := send("loop", 2199, 0); err == nil || err.Error() != "duplicate" {
		t.Errorf("sent again: %v", err)
	}
	check := func() {
		t.Helper()
		all, err := a.Delivered(t.Context(), "loop")
		if want := count(t, a, "SELECT count(*) FROM clock WHERE agent = 'loop'"); err != nil || all["clock"].Rows != want || all["clock"].Batches != want/2 {
			t.Errorf("delivered %+v of %d rows, %v", all, want, err)
		}
	}
	check()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = open(t, path, options)
	check()
	if n, _ := a.book.Holding("loop"); n > 110 {
		t.Errorf("%d sequences after a restart", n)
	}
}

// TestGapsAreBounded: an agent that sends every second batch only has a quota of them over
// all its sequences.
func TestGapsAreBounded(t *testing.T) {
	a := open(t, filepath.Join(t.TempDir(), "a"), Options{Quota: archive.Quota{Gaps: 50}})
	var refused error
	for n := range uint64(80) {
		one := batch(t, "evil", &measure.Clock, 2*n+1, 0, 1)
		one.Epoch = n % 4
		if _, rejected := store(t, a, one); rejected[0] != nil {
			refused = rejected[0]
		}
	}
	_, gaps := a.book.Holding("evil")
	if q := quota.Of(refused); q == nil || q.Quota != "gaps" || !q.Later || gaps > 51 {
		t.Errorf("%v, %d gaps", refused, gaps)
	}
	if stored, rejected := store(t, a, batch(t, "honest", &measure.Clock, 5, 0, 1)); !stored[0] {
		t.Errorf("honest batch: %v", rejected)
	}
}

// TestArrival: the archive notes when a row arrived, whatever its time says, and agents
// cannot write that column.
func TestArrival(t *testing.T) {
	now := time.Unix(1_800_000_000, 5)
	path := filepath.Join(t.TempDir(), "a")
	a := open(t, path, Options{Now: func() time.Time { return now }})
	forged := &measure.Schema{Name: "forged", Fields: []measure.Field{measure.TimeField, archive.ArrivalField}}
	store(t, a, batch(t, "x", &measure.Clock, 0, 0, 10), batch(t, "x", forged, 0, 0, 10), batch(t, "x", everything, 0, 0, 10))
	for _, stream := range []string{"clock", "forged", "everything"} {
		if n := count(t, a, "SELECT count(*) FROM "+stream+" WHERE epoch_ns(arrived) = ?", now.UnixNano()); n != 10 {
			t.Errorf("%s: %d rows have the time of arrival", stream, n)
		}
	}
	other := &measure.Schema{Name: "other", Fields: []measure.Field{measure.TimeField, {Name: archive.ArrivalColumn, Type: measure.Float64}}}
	if _, rejected := store(t, a, batch(t, "x", other, 0, 0, 1)); !errors.Is(rejected[0], archive.ErrSchema) {
		t.Errorf("a column of that name and another type: %v", rejected)
	}
}
