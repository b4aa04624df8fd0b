//go:build long

package send

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/schedule"
)

// TestClockIsStepped: steps of the real-time clock move no packet, make no driver's time
// wrong, and leave the account closed. It sets the clock, so it runs in the emulated machine
// (lab/machine) and nowhere else.
func TestClockIsStepped(t *testing.T) {
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil || !strings.Contains(string(line), "PILLION_GUEST=1") {
		t.Fatalf("not in the emulated machine: %q, %v", line, err)
	}
	r := newRig(t)
	r.introduce()
	h := r.header(farAddress, frame.UDP)
	const packets = 300
	for _, m := range mechanisms() {
		t.Run(m.Name, func(t *testing.T) {
			r := *r
			r.TB = t
			o := r.observe(h, 1, packets)
			s, err := schedule.Train(packets, 120, time.Millisecond, schedule.Trains{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stepped := make(chan int)
			go func() { stepped <- stepClock(ctx, t, func() bool { return o.Sight(0, 20).Copies > 0 }) }()
			sender := r.open(dispatch.Options{Mechanism: m.Name})
			a, records, err := r.send(ctx, sender, jobOf(t, h, s, err))
			cancel()
			if steps := <-stepped; err != nil || a.Sent != packets || steps < 2 {
				t.Fatalf("%d steps, scheduled %d, sent %d, failed %d, %v, %v", steps, a.Scheduled, a.Sent, a.Failed, a.Failures, err)
			}
			for _, record := range records {
				seen := o.Sight(0, int(record.Number))
				if seen.Copies != 1 || seen.At < record.Intended || seen.At > record.Intended+int64(step)/2 {
					t.Errorf("%+v, seen %+v", record, seen)
				}
				if record.Driver != 0 && (record.Driver < record.Handed || record.Driver > seen.At+int64(sender.Uncertainty()[record.Source])) {
					t.Errorf("driver's time of %+v, seen %+v", record, seen)
				}
			}
		})
	}
}

// step is far longer than an emulated processor is late.
const step = time.Hour

// stepClock moves the real-time clock back and forth, once begun, until the context ends. It returns
// how often.
func stepClock(ctx context.Context, t *testing.T, begun func() bool) (steps int) {
	for by := step; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		if !begun() {
			continue
		}
		at := unix.NsecToTimespec(time.Now().Add(by).UnixNano())
		if err := unix.ClockSettime(unix.CLOCK_REALTIME, &at); err != nil {
			t.Error(err)
			return steps
		}
		by, steps = -by, steps+1
	}
	return steps
}
