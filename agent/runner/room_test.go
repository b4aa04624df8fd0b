package runner

import (
	"testing"

	"pillion.dev/probe/source"
)

// TestRoom: a tenth of the packets without room, in two readings, is said, and which lack it most.
func TestRoom(t *testing.T) {
	const mtu, options = "no room: packets that exceed the MTU with a mark stay unmarked (skipped_mtu)", "no room: TCP segments stay unmarked whose headers have no room for another option, or whose connections are not marked on this interface (skipped_tcp_options)"
	var r room
	for i, row := range []struct {
		marked, mtu, options uint64
		want                 string
	}{
		{0, 0, 0, ""},
		{100, 5, 0, ""},
		{104, 9, 0, ""}, // too few to say anything
		{110, 15, 0, ""},
		{111, 15, 0, ""}, // the same
		{120, 25, 0, mtu},
		{121, 25, 0, mtu},
		{220, 26, 0, ""},
		{230, 26, 0, ""},
		{250, 30, 80, ""},
		{270, 30, 180, options},
		{270, 30, 180, options},
		{370, 30, 180, ""},
		{370, 60, 180, ""},
		{470, 60, 180, ""}, // once only
		{470, 90, 180, ""},
	} {
		got := r.limit(source.Tally{Marked: row.marked, Skipped: map[string]uint64{"mtu": row.mtu, "tcp_options": row.options}})
		if got != row.want {
			t.Errorf("%d: %q, want %q", i, got, row.want)
		}
	}
}
