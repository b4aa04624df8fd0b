package send

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"pillion.dev/send/arrival"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/schedule"
)

// TestArrivals: a watch sees each packet of its flow after it was handed over, and none of
// other flows or earlier rounds.
func TestArrivals(t *testing.T) {
	r := newRig(t)
	const trains, packets = 3, 20
	sender := r.open(dispatch.Options{Mechanism: "bpf"})
	for _, row := range []struct {
		protocol string
		to       netip.Addr
	}{{frame.UDP, farAddress}, {frame.TCP, farAddress6}, {frame.ICMP, farAddress}, {frame.ICMP, farAddress6}, {frame.Raw, farAddress}} {
		t.Run(fmt.Sprintf("%s to %v", row.protocol, row.to), func(t *testing.T) {
			h := r.header(row.to, row.protocol)
			var w *arrival.Watch
			r.in(r.far, func() (err error) {
				w, err = arrival.Open(farDevice, arrival.Flow{Source: h.Source, Protocol: h.Protocol, Number: h.Number, SourcePort: h.SourcePort, DestinationPort: h.DestinationPort}, trains*packets)
				return err
			})
			defer w.Close()
			for _, first := range []int{0, 1, trains} { // trains before the first one are of an earlier round
				other := *h
				other.SourcePort++
				flows := []*frame.Header{h}
				if row.protocol == frame.UDP || row.protocol == frame.TCP {
					flows = []*frame.Header{&other, h}
				}
				r.must(w.Begin(uint32(first), trains, packets))
				for _, flow := range flows {
					for _, at := range w.Arrivals(trains * packets) {
						if at != 0 {
							t.Fatalf("from train %d on: a packet of another flow or round arrived at %d", first, at)
						}
					}
					s, err := schedule.Train(packets, 120, 50*time.Microsecond, schedule.Trains{Count: trains, Every: 3 * time.Millisecond})
					_, records, err := r.send(t.Context(), sender, jobOf(t, flow, s, err))
					r.must(err)
					got := w.Arrivals(trains * packets)
					for i, record := range records {
						at := i - first*packets
						if flow == h && at >= 0 && (got[at] < record.Handed || got[at] > dispatch.Now()) {
							t.Fatalf("from train %d on, record %d: %+v, arrived at %d", first, i, record, got[at])
						}
					}
					for _, at := range got[(trains-first)*packets:] {
						if at != 0 {
							t.Fatalf("from train %d on: a packet of an earlier round arrived at %d", first, at)
						}
					}
				}
			}
		})
	}
}

// TestWatchFails: errors state the cause.
func TestWatchFails(t *testing.T) {
	r := newRig(t)
	for name, row := range map[string]struct {
		device string
		flow   arrival.Flow
	}{
		"interface": {"none0", arrival.Flow{Source: farAddress}},
		"source":    {farDevice, arrival.Flow{}},
		"protocol":  {farDevice, arrival.Flow{Source: farAddress, Protocol: "sctp"}},
	} {
		r.in(r.far, func() error {
			if w, err := arrival.Open(row.device, row.flow, 1); err == nil {
				w.Close()
				t.Errorf("%s: opened", name)
			}
			return nil
		})
	}
}

// TestArrivalsOfShortPackets: behind the end of a packet there may be the tag of an earlier
// one, which used the same buffer. It says nothing about the packet.
func TestArrivalsOfShortPackets(t *testing.T) {
	r := newRig(t)
	const pairs = 20
	watched := r.header(farAddress6, frame.UDP)
	other := *watched
	other.SourcePort++
	var w *arrival.Watch
	r.in(r.far, func() (err error) {
		w, err = arrival.Open(farDevice, arrival.Flow{Source: watched.Source, Protocol: watched.Protocol, SourcePort: watched.SourcePort, DestinationPort: watched.DestinationPort}, 2*pairs)
		return err
	})
	defer w.Close()
	r.must(w.Begin(0, 1, 2*pairs))
	sender := r.open(dispatch.Options{Mechanism: "bpf"})
	entries := func(yield func(schedule.Entry, error) bool) {
		for i := range uint32(pairs) {
			due := time.Duration(i) * time.Millisecond
			if !yield(schedule.Entry{Due: due, Number: 2 * i, Size: 120, Flow: "other", Together: true}, nil) ||
				!yield(schedule.Entry{Due: due, Number: 2*i + 1, Size: 62}, nil) { // too short for a tag
				return
			}
		}
	}
	a, _, err := r.send(t.Context(), sender, Job{Schedule: entries, Headers: map[string]*frame.Header{"": watched, "other": &other}})
	r.must(err)
	if a.Sent != 2*pairs {
		t.Fatalf("%+v", a)
	}
	for i, at := range w.Arrivals(2 * pairs) {
		if at != 0 {
			t.Errorf("packet %d, which has no tag, arrived at %d", i, at)
		}
	}
}
