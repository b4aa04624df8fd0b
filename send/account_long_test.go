//go:build long

package send

import (
	"testing"

	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/schedule"
)

// TestLongAccount: of ten million packets, sent as close to each other as possible, the far
// end sees exactly those that the account says were sent, each once.
func TestLongAccount(t *testing.T) {
	r := newRig(t)
	h := r.header(farAddress, frame.UDP)
	const trains, packets = 100, 100_000
	o := r.observe(h, trains, packets)
	s, err := schedule.Train(packets, 100, 0, schedule.Trains{Count: trains})
	job := jobOf(t, h, s, err)
	a := NewAccount(DefaultLate)
	err = Run(t.Context(), r.open(dispatch.Options{Mechanism: "bpf"}), job, func(record dispatch.Record) {
		a.Add(record)
		seen := o.Sight(int(record.Train), int(record.Number))
		if record.Fate == dispatch.Sent && seen.Copies != 1 || record.Fate != dispatch.Sent && seen.Copies != 0 {
			t.Errorf("%+v, seen %+v", record, seen)
		}
	})
	if err != nil || a.Scheduled != trains*packets || a.Scheduled != a.Sent+a.LateDropped+a.Cancelled+a.Failed {
		t.Fatalf("%+v, %v", a, err)
	}
	a.Close()
	t.Logf("sent %d, failed %d, distance p50 %.0f ns", a.Sent, a.Failed, a.Interdeparture.P50)
}
