package runner

import (
	"maps"
	"testing"

	"pillion.dev/measure"
)

// TestSentPacketsAreCounted: the state of a task that sends has the sums of its rows.
func TestSentPacketsAreCounted(t *testing.T) {
	task := runningTask{counters: map[string]uint64{}}
	sample := make(measure.Sample, len(measure.Send.Fields))
	for i, field := range measure.Send.Fields {
		switch field.Name {
		case "scheduled":
			sample[i] = measure.Uint64Value(10)
		case "sent":
			sample[i] = measure.Uint64Value(8)
		case "failed":
			sample[i] = measure.Uint64Value(2)
		default:
			if field.Type == measure.Uint64 {
				sample[i] = measure.Uint64Value(0)
			}
		}
	}
	task.count(&measure.Send, sample)
	task.count(&measure.Send, sample)
	task.count(&measure.SendPackets, measure.Sample{})
	want := map[string]uint64{"scheduled": 20, "sent": 16, "failed": 4, "late": 0, "late_dropped": 0, "cancelled": 0}
	if !maps.Equal(task.counters, want) || task.rows.Load() != 3 {
		t.Errorf("%v of %d rows, want %v", task.counters, task.rows.Load(), want)
	}
}
