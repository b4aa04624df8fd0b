package runner

import (
	"pillion.dev/probe/hook"
	"pillion.dev/probe/source"
	"pillion.dev/session"
)

// room is whether packets have room for marks, from one reading of the counters to the next.
type room struct {
	before map[string]uint64 // by reason
	marked uint64
	lacks  hook.Streak // readings that had enough packets
	text   string
}

// roomless are the reasons for which packets without room stay unmarked.
var roomless = []struct{ reason, text string }{
	{"mtu", "packets that exceed the MTU with a mark stay unmarked"},
	{"tcp_options", "TCP segments stay unmarked whose headers have no room for another option, or whose connections are not marked on this interface"},
	{"no_room", "packets stay unmarked for which the kernel makes no room"},
}

// roomLeast is how many packets have to pass before they say anything.
const roomLeast = 10

// limit says why a tenth of the packets, or more, have no room for their marks, in two readings: connections that began
// before the source lack it for a moment. Empty: most have.
func (r *room) limit(t source.Tally) string {
	marked, full, most, text := t.Marked-r.marked, uint64(0), uint64(0), ""
	for _, why := range roomless {
		n := t.Skipped[why.reason] - r.before[why.reason]
		if full += n; n > most {
			most, text = n, string(session.NoRoom)+why.text+" (skipped_"+why.reason+")"
		}
	}
	if marked+full < roomLeast {
		return r.text
	}
	r.before, r.marked, r.text = t.Skipped, t.Marked, ""
	if r.lacks.Add(full >= (marked+full)/10 && full > 0, 2) {
		r.text = text
	}
	return r.text
}

// hiddenText is the limit of a task whose program is hidden by another; empty: it is not.
func hiddenText(by string) string {
	if by == "" {
		return ""
	}
	return string(session.Hidden) + by
}
