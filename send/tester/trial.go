package tester

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"pillion.dev/send"
	"pillion.dev/send/arrival"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/schedule"
	"pillion.dev/send/search"
)

// load is what a trial offers.
type load struct {
	size, frames    int
	framesPerSecond float64 // 0: as close as possible
	// learning: the rate does not matter, only that frames arrive; none is too late.
	learning bool
}

// Trial is what became of one load.
type Trial struct {
	Benchmark  string `json:"benchmark"`
	Size       int    `json:"size"`
	Repetition int    `json:"repetition"`
	// Asked and Offered rates in frames/s; Asked is 0 for as close as possible.
	Asked   float64 `json:"asked_frames_per_second,omitempty"`
	Offered float64 `json:"offered_frames_per_second"`
	// Frames of the load; those that the sender sent, and that arrived.
	Frames   uint64 `json:"frames"`
	Sent     uint64 `json:"sent"`
	Received uint64 `json:"received"`
	// Loss is the share of the frames sent that did not arrive.
	Loss    float64        `json:"loss"`
	Verdict search.Verdict `json:"verdict"`
	// Cause of an invalid trial.
	Cause string `json:"cause,omitempty"`
	// Delays from the hand-over to the sending device to the receipt by the kernel.
	Delays search.Delays `json:"delays_ns"`

	delays []int64
	stall  time.Duration // longest time between frames as close as possible
}

// trial runs a load, judges it and reports it.
func (t *Tester) trial(ctx context.Context, l load) (*Trial, error) {
	trial, err := t.run(ctx, l)
	if err != nil {
		return nil, err
	}
	t.judge(trial)
	if trial.Verdict == search.Invalid {
		t.invalid = trial.Cause
	}
	if t.JSON {
		err = t.view.Print(struct {
			Trial *Trial `json:"trial"`
		}{trial}, "")
	}
	if t.Progress != nil {
		fmt.Fprintf(t.Progress, "%s, %d bytes: %s offered, %d of %d frames lost: %s%s\n", t.benchmark, l.size,
			frameRate(trial.Offered), trial.Sent-trial.Received, trial.Sent, trial.Verdict, because(trial.Cause))
	}
	return trial, err
}

func because(cause string) string {
	if cause == "" {
		return ""
	}
	return " (" + cause + ")"
}

// burstGap is the longest time between frames that are to be as close as possible: a longer
// one makes two bursts. The kernel may process the arrivals of a virtual link between them.
const burstGap = time.Millisecond

// judge sets the verdict. Loss counts even if the sender left frames out; a trial without it
// passes only if the load was offered.
func (t *Tester) judge(trial *Trial) {
	trial.Delays = search.DelaysOf(trial.delays)
	shortfall := float64(trial.Frames-trial.Sent) / float64(trial.Frames)
	switch {
	case trial.Loss > t.Loss:
		trial.Verdict, trial.Cause = search.Lossy, ""
	case shortfall > t.Shortfall:
		trial.Verdict = search.Invalid
		trial.Cause = fmt.Sprintf("the sender left out %.2f %% of the frames: %s", shortfall*100, trial.Cause)
	case trial.stall > burstGap:
		trial.Verdict, trial.Cause = search.Invalid, fmt.Sprintf("the sender was stopped for %v within the burst", trial.stall.Round(time.Microsecond))
	default:
		trial.Verdict, trial.Cause = search.Passed, ""
	}
}

// run sends the frames of a load and counts the arrivals.
func (t *Tester) run(ctx context.Context, l load) (*Trial, error) {
	if l.frames < 1 || l.frames > mostFrames {
		return nil, fmt.Errorf("%w: a trial of %d frames: must be 1 to %d", ErrOptions, l.frames, mostFrames)
	}
	trial := &Trial{Benchmark: t.benchmark, Size: l.size, Repetition: t.repetition, Asked: l.framesPerSecond, Frames: uint64(l.frames)}
	h := t.Header
	var w *arrival.Watch
	err := inside(t.ReceiveNamespace, func() (err error) {
		w, err = arrival.Open(t.Receive, arrival.Flow{
			Source: h.Source, Protocol: h.Protocol, Number: h.Number, SourcePort: h.SourcePort, DestinationPort: h.DestinationPort,
		}, l.frames)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if err := w.Begin(0, 1, l.frames); err != nil {
		return nil, err
	}
	dropLate := time.Duration(0)
	packets, err := schedule.Train(l.frames, l.size, 0, schedule.Trains{})
	if l.framesPerSecond > 0 {
		packets, err = schedule.Rate(l.frames, l.size, l.framesPerSecond*float64(l.size)*8, schedule.Trains{})
	}
	if l.framesPerSecond > 0 && !l.learning {
		for dropLate = t.Late; dropLate.Seconds()*l.framesPerSecond < 1; dropLate *= 2 {
		} // a frame that is late by less than the distance to the next one makes no burst
	}
	if err != nil {
		return nil, err
	}
	sender, err := t.open(dropLate)
	if err != nil {
		return nil, err
	}
	departed := make([]int64, l.frames)
	account := send.NewAccount(t.Late)
	var last int64
	job := send.Job{Schedule: packets, Headers: map[string]*frame.Header{"": h}}
	err = send.Run(ctx, sender, job, func(r dispatch.Record) {
		account.Add(r)
		if r.Fate != dispatch.Sent {
			return
		}
		departed[r.Number] = r.Departure()
		if last != 0 && l.framesPerSecond == 0 {
			trial.stall = max(trial.stall, time.Duration(r.Departure()-last))
		}
		last = r.Departure()
	})
	if err != nil {
		return nil, err
	}
	account.Close()
	trial.count(account, departed)
	wait := t.Wait
	if l.learning {
		wait = max(wait, learnWait)
	}
	return trial, t.await(ctx, trial, w, departed, wait)
}

// count takes what was sent.
func (trial *Trial) count(account *send.Account, departed []int64) {
	trial.Sent = account.Sent
	var causes []string
	if account.LateDropped > 0 {
		causes = append(causes, fmt.Sprintf("%d would have been too late", account.LateDropped))
	}
	for cause, n := range account.Failures {
		causes = append(causes, fmt.Sprintf("%d failed: %s", n, cause))
	}
	trial.Cause = strings.Join(causes, ", ")
	var first, last int64
	for _, at := range departed {
		if at != 0 {
			first, last = cmp.Or(first, at), at
		}
	}
	if trial.Asked > 0 {
		trial.Offered = trial.Asked * float64(trial.Sent) / float64(trial.Frames)
	} else if last > first {
		trial.Offered = float64(trial.Sent-1) / float64(last-first) * 1e9
	}
}

// learnWait is the least time to wait for frames from which the devices learn: a path may have to wake up.
const learnWait = time.Second

// await waits until all frames have arrived, or none has for this time, and takes the delays.
func (t *Tester) await(ctx context.Context, trial *Trial, w *arrival.Watch, departed []int64, wait time.Duration) error {
	const look = 20 * time.Millisecond
	changed := time.Now()
	for arrived := uint64(0); ; {
		trial.arrivals(w.Arrivals(len(departed)), departed)
		if trial.Received > arrived {
			arrived, changed = trial.Received, time.Now()
		}
		if arrived >= trial.Sent || time.Since(changed) > wait {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(look):
		}
	}
}

func (trial *Trial) arrivals(arrived, departed []int64) {
	trial.Received = 0
	trial.delays = make([]int64, len(departed))
	for i, at := range departed {
		trial.delays[i] = -1
		if at != 0 && arrived[i] != 0 {
			trial.Received++
			trial.delays[i] = max(0, arrived[i]-at)
		}
	}
	if trial.Sent > 0 {
		trial.Loss = float64(trial.Sent-trial.Received) / float64(trial.Sent)
	}
}
