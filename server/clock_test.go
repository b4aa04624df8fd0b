package server_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/api/pillionv1"
	"pillion.dev/archive"
	"pillion.dev/archive/duckdb"
	"pillion.dev/measure"
	"pillion.dev/server/steady"
)

// TestStepOfTheClockRemovesNothing: rows that arrive before, during and after a step of the server's
// clock stay as long as their retention says, in time that elapses.
func TestStepOfTheClockRemovesNothing(t *testing.T) {
	const day = 24 * time.Hour
	for _, step := range []time.Duration{40 * day, -40 * day, 366 * day} {
		t.Run(step.String(), func(t *testing.T) {
			folder := t.TempDir()
			wall, up := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), time.Hour
			clock, err := steady.Open(steady.Options{
				Folder: folder, Boot: "one", Wall: func() time.Time { return wall }, Uptime: func() time.Duration { return up },
			})
			if err != nil {
				t.Fatal(err)
			}
			a, err := duckdb.Open(filepath.Join(folder, "archive.duckdb"), duckdb.Options{Now: clock.Now})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			schema := &measure.Schema{Name: "samples", Fields: []measure.Field{measure.TimeField}}
			a.SetRetention(schema.Name, archive.Retention{Age: 31 * day})
			sequence := uint64(0)
			arrive := func() {
				t.Helper()
				builder := array.NewRecordBuilder(memory.DefaultAllocator, schema.Arrow())
				defer builder.Release()
				builder.Field(0).(*array.TimestampBuilder).Append(arrow.Timestamp(wall.UnixNano()))
				record := builder.NewRecordBatch()
				defer record.Release()
				key := measure.Key{Stream: schema.Name, Epoch: 1, Sequence: sequence}
				if _, rejected, err := a.Store(t.Context(), []archive.Batch{{Agent: "north", Key: key, Schema: schema, Record: record}}); err != nil || len(rejected) > 0 {
					t.Fatal(err, rejected)
				}
				sequence++
			}
			pass := func(d time.Duration) (removed int64) {
				t.Helper()
				wall, up = wall.Add(d), up+d
				if _, err := clock.Step(); err != nil {
					t.Fatal(err)
				}
				all, err := a.Retain(t.Context(), clock.Cutoff())
				if err != nil {
					t.Fatal(err)
				}
				return all[schema.Name]
			}
			pass(20 * time.Minute)
			arrive()
			wall = wall.Add(step)
			arrive()
			if n := pass(time.Minute); n != 0 {
				t.Errorf("the step removes %d rows", n)
			}
			arrive()
			wall = wall.Add(-step)
			if n := pass(time.Minute); n != 0 {
				t.Errorf("the clock is right again, which removes %d rows", n)
			}
			arrive()
			if n := pass(30 * day); n != 0 {
				t.Errorf("after 30 days %d rows are removed", n)
			}
			if n := pass(day + time.Minute); n != 4 {
				t.Errorf("after 31 days %d rows are removed, want 4", n)
			}
		})
	}
}

// TestHeldRetentionIsSaid: a server whose clock was set forward while it was stopped says so.
func TestHeldRetentionIsSaid(t *testing.T) {
	folder := t.TempDir()
	month := time.Now().Add(-40 * 24 * time.Hour)
	kept, err := json.Marshal(map[string]any{"time": month, "cutoff": month, "settled": true, "boot": "another"})
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "clock.json"), kept, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, folder)
	client := s.client(t, s.operator)
	within(t, "health says it", func() bool {
		health, err := client.Server.Health(t.Context(), &pillionv1.HealthRequest{})
		if err != nil || health.Status != "ok" {
			t.Fatalf("health %v, %v", health, err)
		}
		for _, part := range health.Parts {
			if part.Name == "clock" {
				return strings.Contains(part.Detail, "retention held: by its clock, the server was off for 960h")
			}
		}
		return false
	})
	within(t, "an event says it", func() bool {
		events, err := client.Server.ListEvents(t.Context(), &pillionv1.ListEventsRequest{Kind: "retention-held", Limit: 9})
		return err == nil && len(events.Events) == 1
	})
}
