// Package send sends packets at exact times: schedules (package schedule) become frames
// (package frame), which a mechanism hands to a device (package dispatch, seed 5). It
// reports what became of every packet, and each account is closed: scheduled = sent +
// late-dropped + cancelled + failed.
//
// Of the packages below, model draws traffic and traffic describes what sessions send, which task
// sends; estimator measures capacity and available bandwidth, tester benchmarks devices, arrival,
// observer and reply see where packets went.
//
// It measures the departure only. With marks of probe/source on the same device the
// packets are one-way measurements, too.
package send

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/schedule"
)

// DefaultLate is the lateness from which a sent packet counts as late.
const DefaultLate = 100 * time.Microsecond

// DefaultDelay is the time between the moment at which everything is ready to send and the
// start of a schedule.
const DefaultDelay = 5 * time.Millisecond

// Job is a schedule, and what to send it with.
type Job struct {
	Schedule schedule.Schedule
	// Headers by flow; the empty name is the default flow.
	Headers map[string]*frame.Header
	// Prepare, if not nil, changes each packet's copy of its flow's header. Each packet is
	// then built by itself.
	Prepare func(h *frame.Header, e *schedule.Entry)
	// Check, if not nil, returns why a packet is not to be sent: it then fails.
	Check func(e *schedule.Entry) error
	// Delay to the start of the schedule once everything is ready; 0: DefaultDelay.
	Delay time.Duration
}

// Run sends the job's packets and reports each.
func Run(ctx context.Context, sender dispatch.Sender, job Job, report func(dispatch.Record)) error {
	delay := job.Delay
	if delay == 0 {
		delay = DefaultDelay
	}
	return sender.Send(ctx, delay, job.packets(), report)
}

// Frames are the packets of the job as complete frames, with their due times, for a
// capture file. Packets that cannot be built are passed to failed.
func (j *Job) Frames(failed func(error)) iter.Seq2[time.Duration, []byte] {
	return func(yield func(time.Duration, []byte) bool) {
		for p, err := range j.packets() {
			if err == nil {
				err = p.Invalid
			}
			if err != nil {
				failed(err)
				continue
			}
			if !yield(p.Due, p.Frame.AppendTo(nil)) {
				return
			}
		}
	}
}

func noFlow(name string) string {
	if name == "" {
		return "the packet names no flow, and there is no default one (--to)"
	}
	return "no flow " + name
}

// errTruncated is a packet of a capture that holds only its beginning.
var errTruncated = errors.New("packet was captured only in part")

// shape is what packets with the same template have in common.
type shape struct {
	flow string
	size int
}

// templates kept for reuse; a schedule with more different sizes builds some again.
const templates = 4096

// packets builds the frames, as they are drawn.
func (j *Job) packets() iter.Seq2[dispatch.Packet, error] {
	return func(yield func(dispatch.Packet, error) bool) {
		cache := map[shape]*frame.Template{}
		for e, err := range j.Schedule {
			if err != nil {
				yield(dispatch.Packet{}, err)
				return
			}
			t, err := j.template(cache, &e)
			p := dispatch.Packet{Due: e.Due, Train: e.Train, Number: e.Number, Frame: frame.Frame{Template: t}, Invalid: err, Together: e.Together}
			if err == nil && t.PatchAt > 0 {
				p.Frame.Patch = frame.Tag{Train: e.Train, Number: e.Number, Due: uint64(e.Due)}.Patch()
			}
			if !yield(p, nil) {
				return
			}
		}
	}
}

func (j *Job) template(cache map[shape]*frame.Template, e *schedule.Entry) (*frame.Template, error) {
	if j.Check != nil {
		if err := j.Check(e); err != nil {
			return nil, err
		}
	}
	if e.Frame != nil {
		if len(e.Frame) < e.Size {
			return nil, errTruncated
		}
		return frame.Complete(e.Frame)
	}
	h, ok := j.Headers[e.Flow]
	if !ok {
		return nil, fmt.Errorf("%w: %s", frame.ErrHeader, noFlow(e.Flow))
	}
	if j.Prepare != nil {
		own := *h
		j.Prepare(&own, e)
		return own.Build(e.Size, e.Payload)
	}
	if e.Payload != nil {
		return h.Build(e.Size, e.Payload)
	}
	if t, ok := cache[shape{e.Flow, e.Size}]; ok {
		return t, nil
	}
	t, err := h.Build(e.Size, nil)
	if err == nil {
		if len(cache) >= templates {
			clear(cache)
		}
		cache[shape{e.Flow, e.Size}] = t
	}
	return t, err
}
