//go:build long

package send

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"pillion.dev/internal/netns"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/schedule"
)

// TestLaunchTime: a queueing discipline holds packets until their time, and what it drops is
// in the account. It runs in the emulated machine (lab/machine), whose kernel has fq and etf.
func TestLaunchTime(t *testing.T) {
	for name, row := range map[string]struct {
		qdisc string
		early time.Duration // with 1 ms for the conversion between clocks on an emulated processor
	}{
		"fq":  {"fq", 0},
		"etf": {"etf clockid CLOCK_TAI delta 100000000", 101 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.introduce() // etf drops packets without a launch time, such as solicitations
			h := r.header(farAddress, frame.UDP)
			r.in(r.near, func() error {
				return exec.Command("tc", append(strings.Fields("qdisc add dev near0 root"), strings.Fields(row.qdisc)...)...).Run()
			})
			const packets = 100
			o := r.observe(h, 1, packets)
			s, err := schedule.Train(packets, 120, 5*time.Millisecond, schedule.Trains{})
			sender := r.open(dispatch.Options{Mechanism: "txtime", Lead: 250 * time.Millisecond})
			a, records, err := r.send(t.Context(), sender, jobOf(t, h, s, err))
			if err != nil || a.Scheduled != packets || a.Failed > 0 || a.Sent < packets/2 || name == "fq" && a.Sent < packets {
				t.Fatalf("scheduled %d = sent %d + late-dropped %d + cancelled %d + failed %d, %v, %v", a.Scheduled, a.Sent, a.LateDropped, a.Cancelled, a.Failed, a.Failures, err)
			}
			t.Logf("sent %d, late-dropped %d, lateness p50 %.0f ns, p99 %.0f ns", a.Sent, a.LateDropped, a.Lateness.P50, a.Lateness.P99)
			for _, record := range records {
				seen := o.Sight(0, int(record.Number))
				if record.Fate == dispatch.Sent && (seen.Copies != 1 || seen.At < record.Intended-int64(row.early) || record.Source != dispatch.Software) {
					t.Errorf("%+v, seen %+v", record, seen)
				}
				if record.Fate != dispatch.Sent && seen.Copies != 0 {
					t.Errorf("%+v, seen %+v", record, seen)
				}
			}
			r.goesDown(t, h, sender)
		})
	}
}

// goesDown: of packets that wait when the interface goes down, the account says so.
func (r *rig) goesDown(t *testing.T, h *frame.Header, sender dispatch.Sender) {
	t.Helper()
	const packets = 20_000
	o := r.observe(h, 1, packets)
	s, err := schedule.Train(packets, 120, 2*time.Millisecond, schedule.Trains{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil && o.Sight(0, 20).Copies == 0 {
			time.Sleep(time.Millisecond)
		}
		_ = netns.Do(r.near, func() error { // otherwise no packet fails
			l, err := netlink.LinkByName(nearDevice)
			if err != nil {
				return err
			}
			return netlink.LinkSetDown(l)
		})
	}()
	a := NewAccount(DefaultLate)
	var records []dispatch.Record
	err = Run(ctx, sender, jobOf(t, h, s, err), func(record dispatch.Record) {
		a.Add(record)
		records = append(records, record)
		if a.Failed == 30 {
			cancel()
		}
	})
	if a.Scheduled != packets || a.Failed == 0 || a.Scheduled != a.Sent+a.LateDropped+a.Cancelled+a.Failed {
		t.Fatalf("scheduled %d = sent %d + late-dropped %d + cancelled %d + failed %d, %v, %v", a.Scheduled, a.Sent, a.LateDropped, a.Cancelled, a.Failed, a.Failures, err)
	}
	t.Logf("failures: %v", a.Failures)
	for _, record := range records {
		seen := o.Sight(0, int(record.Number))
		if (record.Fate == dispatch.Sent) != (seen.Copies == 1) {
			t.Errorf("%+v, seen %+v", record, seen)
		}
	}
}
