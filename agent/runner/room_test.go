package runner

import (
	"testing"

	"pillion.dev/probe/source"
)

// TestRoom: from one reading to the next, a tenth of the packets without room is said, and which lack it most.
func TestRoom(t *testing.T) {
	const mtu, options = "no room: packets that exceed the MTU with a mark stay unmarked (skipped_mtu)", "no room: TCP segments without room for another option stay unmarked (skipped_tcp_options)"
	var r room
	for i, row := range []struct {
		marked, mtu, options uint64
		want                 string
	}{
		{0, 0, 0, ""},
		{100, 5, 0, ""},
		{104, 9, 0, ""}, // too few to say anything
		{110, 15, 0, mtu},
		{111, 15, 0, mtu},
		{220, 16, 0, ""},
		{230, 16, 0, ""},
		{250, 20, 80, options},
		{250, 20, 80, options},
		{350, 20, 80, ""},
	} {
		got := r.limit(source.Tally{Marked: row.marked, Skipped: map[string]uint64{"mtu": row.mtu, "tcp_options": row.options}})
		if got != row.want {
			t.Errorf("%d: %q, want %q", i, got, row.want)
		}
	}
}
