package sender

import (
	"context"
	"time"

	"pillion.dev/send"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/reply"
)

// replies holds records back until their reply is there, or awaited no longer.
type replies struct {
	listener *reply.Listener
	wait     time.Duration
	print    func(dispatch.Record, *reply.Reply)
	held     []dispatch.Record
	summary  replySummary
}

// replySummary is what replies add up to.
type replySummary struct {
	Replied    uint64                `json:"replied"`
	Unanswered uint64                `json:"unanswered"`
	Duplicates uint64                `json:"duplicates"`
	Kinds      map[reply.Kind]uint64 `json:"kinds,omitempty"`
	// RoundTrip from the departure to the kernel's receipt of the reply, in nanoseconds.
	RoundTrip send.Spread `json:"round_trip_ns"`
}

func (r *replies) add(record dispatch.Record) {
	r.held = append(r.held, record)
	r.release(dispatch.Now() - int64(r.wait))
}

// release prints the records at the head that have their reply or were sent before a time.
func (r *replies) release(before int64) {
	for len(r.held) > 0 {
		head := r.held[0]
		got, ok := r.listener.Of(head.Train, head.Number)
		if !ok && head.Fate == dispatch.Sent && head.Departure() > before {
			return
		}
		r.held = r.held[1:]
		if head.Fate != dispatch.Sent {
			r.print(head, nil)
			continue
		}
		if !ok {
			r.summary.Unanswered++
			r.print(head, nil)
			continue
		}
		r.summary.Replied++
		r.summary.Kinds[got.Kind]++
		r.summary.RoundTrip.Add(got.At - head.Departure())
		r.print(head, &got)
	}
}

// end waits for the last replies.
func (r *replies) end(ctx context.Context, sent uint64) {
	r.listener.Await(ctx, sent, r.wait)
	r.release(dispatch.Now())
	r.summary.Duplicates = r.listener.Duplicates()
	r.summary.RoundTrip.Close()
}
