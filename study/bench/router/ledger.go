package main

import (
	"maps"
	"slices"

	"pillion.dev/probe/router"
	"pillion.dev/study/bench/result"
)

// ledger says of each packet that sender and rival sent what became of it: the profile
// measured all four of its times, or a reason is named why not. Both ends count outside the
// profile, at the devices of the hosts.
type ledger struct {
	sent, received uint64
	measured       uint64
	dropped        uint64 // in the router, by the kernel
	// reasons of those that were not measured, by name.
	reasons map[string]uint64
	// unnamed is what remains, positive if packets disappeared.
	unnamed int64
}

func newLedger(s *shot, a *router.Account, seen *packets) ledger {
	l := ledger{sent: s.tests + s.rivals, received: s.received, measured: seen.measured, reasons: map[string]uint64{}}
	note := func(reason string, n uint64) {
		if n > 0 {
			l.reasons[reason] += n
		}
	}
	note("not seen by the profile", uint64(max(int64(l.sent)-int64(a.Seen), 0)))
	note("arrival not seen", seen.noArrival)
	l.dropped = a.Dropped
	for reason, n := range a.DropReasons {
		note("dropped: "+reason, n)
	}
	for reason, n := range a.LostReasons {
		note("lost by the profile: "+reason, n)
	}
	note("record lost", a.Forwarded-a.Below-seen.measured-seen.noArrival)
	note("forwarded below IP", a.Below)
	note("local", a.Local)
	note("merged", a.Merged)
	note("in flight", a.InFlight)
	l.unnamed = int64(l.sent - l.measured)
	for _, n := range l.reasons {
		l.unnamed -= int64(n)
	}
	return l
}

func (l ledger) put(r result.Result) {
	r["sent"], r["received"], r["measured"], r["unnamed"] = l.sent, l.received, l.measured, l.unnamed
	r["not_measured"], r["dropped"] = int64(l.sent)-int64(l.measured), l.dropped
	r["lost"] = l.sent - min(l.received, l.sent)
	for _, reason := range slices.Sorted(maps.Keys(l.reasons)) {
		r.AddRow(map[string]any{"histogram": "fate", "at": 0, "width": 0, "packets": l.reasons[reason], "unit": "", "reason": reason})
	}
}
