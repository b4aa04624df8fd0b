package clock

import (
	"testing"
	"time"
)

func TestInjection(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	i := &Injection{From: start, SkewPPB: 50_000, Step: 3 * time.Millisecond, StepAt: start.Add(time.Minute)}
	silent := *i
	silent.Silent = true
	for _, row := range []struct {
		name             string
		of               *Injection
		after            time.Duration
		offset, reported time.Duration
	}{
		{"none", nil, time.Minute, 0, 0},
		{"before", i, -time.Minute, 0, 0},
		{"drift", i, 10 * time.Second, 500 * time.Microsecond, 0},
		{"step", i, 100 * time.Second, 8 * time.Millisecond, 3 * time.Millisecond},
		{"silent step", &silent, 100 * time.Second, 8 * time.Millisecond, 0},
	} {
		at := start.Add(row.after)
		if got, reported := row.of.Offset(at), row.of.reported(at); got != row.offset || reported != row.reported {
			t.Errorf("%s: offset %v, reported %v, want %v and %v", row.name, got, reported, row.offset, row.reported)
		}
	}
}
