package runner

import (
	"testing"
	"time"

	"pillion.dev/measure/flows"
)

// TestClocksApart: sources whose clocks may put packets into other blocks have no figures, and are named
// with the reason for as long as that holds.
func TestClocksApart(t *testing.T) {
	ms := func(n int64) flows.Bound { return flows.BoundOf(n * int64(time.Millisecond)) }
	var a apart
	for _, row := range []struct {
		source string
		bound  flows.Bound
		fits   bool
		limit  string
	}{
		{"a", ms(499), true, ""},
		{"a", ms(500), false, "altmark has no figures of packets from a (error bounds of both clocks 500ms): the clocks must agree to half a block of 1s; synchronise them, or choose longer blocks"},
		{"b", flows.Bound{}, false, "altmark has no figures of packets from a (error bounds of both clocks 500ms), b (clock error unknown): the clocks must agree to half a block of 1s; synchronise them, or choose longer blocks"},
		{"a", ms(3), true, "altmark has no figures of packets from b (clock error unknown): the clocks must agree to half a block of 1s; synchronise them, or choose longer blocks"},
		{"b", ms(0), true, ""},
	} {
		if got := a.fits(row.source, row.bound, time.Second, 10); got != row.fits {
			t.Errorf("%+v: %v", row, got)
		}
		if got := a.limit(time.Second); got != row.limit {
			t.Errorf("%s: %q, want %q", row.source, got, row.limit)
		}
	}
	if a.packets != 20 {
		t.Errorf("%d packets", a.packets)
	}
	for _, source := range []string{"a", "b", "c", "d", "e"} {
		a.fits(source, ms(16000), time.Minute/4, 0)
	}
	if got, want := a.limit(time.Minute/4), "altmark has no figures of packets from a (error bounds of both clocks 16s), b (error bounds of both clocks 16s), "+
		"c (error bounds of both clocks 16s), 2 other sources: the clocks must agree to half a block of 15s; synchronise them, or choose longer blocks"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
