package send

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"pillion.dev/internal/netns"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/schedule"
)

func jobOf(t testing.TB, h *frame.Header, s schedule.Schedule, err error) Job {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return Job{Schedule: s, Headers: map[string]*frame.Header{"": h}}
}

// TestEveryPacketArrivesOnce: an observer at the far end sees each packet once, not before
// its time, and not before it was handed over by the sender's own account.
func TestEveryPacketArrivesOnce(t *testing.T) {
	r := newRig(t)
	const trains, packets = 3, 500
	for _, m := range mechanisms() {
		protocols := []string{frame.UDP, frame.TCP, frame.ICMP, frame.Raw}
		if m.Datagrams || m.Name == "xdp" { // which does not look at the packet
			protocols = protocols[:1]
		}
		for _, protocol := range protocols {
			for _, to := range []struct {
				name   string
				header *frame.Header
			}{{"ipv4", r.header(farAddress, protocol)}, {"ipv6", r.header(farAddress6, protocol)}} {
				t.Run(fmt.Sprintf("%s/%s/%s", m.Name, protocol, to.name), func(t *testing.T) {
					r := *r
					r.TB = t
					o := r.observe(to.header, trains, packets)
					s, err := schedule.Train(packets, 120, 20*time.Microsecond, schedule.Trains{Count: trains, Every: 20 * time.Millisecond})
					sender := r.open(dispatch.Options{Mechanism: m.Name})
					a, records, err := r.send(t.Context(), sender, jobOf(t, to.header, s, err))
					if err != nil || a.Sent != trains*packets {
						t.Fatalf("%+v, %v", a, err)
					}
					sources := map[dispatch.Source]int{}
					for i, record := range records {
						sight := o.Sight(int(record.Train), int(record.Number))
						if int(record.Train)*packets+int(record.Number) != i || sight.Copies != 1 || sight.At < record.Intended || sight.At < record.Handed {
							t.Fatalf("record %d: %+v, seen %+v", i, record, sight)
						}
						converted := int64(0)
						if record.Source == dispatch.Software {
							converted = int64(sender.Uncertainty()[dispatch.Software])
						}
						if record.Driver != 0 && (record.Driver < record.Handed || record.Driver > sight.At+converted) {
							t.Fatalf("record %d: %+v, seen %+v", i, record, sight)
						}
						sources[record.Source]++
					}
					want := dispatch.Software
					switch m.Name {
					case "bpf":
						want = dispatch.Observer
					case "xdp":
						want = dispatch.Unknown
					}
					if sources[want] != len(records) || (want != dispatch.Unknown) != (sender.Uncertainty()[want] > 0) {
						t.Errorf("sources of the driver's times: %v, uncertainty %v", sources, sender.Uncertainty())
					}
				})
			}
		}
	}
}

// TestLongSchedule has more packets than the ring has slots and more templates than it
// has frames.
func TestLongSchedule(t *testing.T) {
	r := newRig(t)
	h := r.header(farAddress, frame.UDP)
	const packets = 300_000
	o := r.observe(h, 1, packets)
	sizes := func(yield func(schedule.Entry, error) bool) {
		for i := range packets {
			if !yield(schedule.Entry{Due: time.Duration(i), Number: uint32(i), Size: 80 + i/64%1400, Together: i%5 > 0}, nil) {
				return
			}
		}
	}
	a, _, err := r.send(t.Context(), r.open(dispatch.Options{Mechanism: "bpf"}), jobOf(t, h, sizes, nil))
	if err != nil || a.Sent != packets {
		t.Fatalf("%+v, %v", a, err)
	}
	for i := range packets {
		if s := o.Sight(0, i); s.Copies != 1 {
			t.Fatalf("packet %d: %+v", i, s)
		}
	}
}

// TestCancelled: what was not sent when the context ends is in the account as cancelled.
func TestCancelled(t *testing.T) {
	r := newRig(t)
	h := r.header(farAddress, frame.UDP)
	for name, o := range map[string]dispatch.Options{
		"initial": {Mechanism: "bpf"}, "on the fly": {Mechanism: "bpf", Lead: time.Millisecond},
		"xdp": {Mechanism: "xdp"}, "spin": {Mechanism: "packet-spin"}, "sleep": {Mechanism: "packet-sleep"}, "udp": {Mechanism: "udp-sleep"},
	} {
		t.Run(name, func(t *testing.T) {
			r := *r
			r.TB = t
			seen := r.observe(h, 1, 10_000)
			ctx, cancel := context.WithCancel(t.Context())
			s, err := schedule.Train(10_000, 100, time.Millisecond, schedule.Trains{})
			job := jobOf(t, h, s, err)
			var watch sync.WaitGroup
			defer watch.Wait()
			defer cancel()
			watch.Go(func() {
				for ctx.Err() == nil && seen.Sight(0, 20).Copies == 0 {
					time.Sleep(time.Millisecond)
				}
				cancel()
			})
			a, records, err := r.send(ctx, r.open(o), job)
			if !errors.Is(err, context.Canceled) || a.Sent < 21 || a.Sent > 9000 || a.Cancelled == 0 {
				t.Fatalf("%+v, %v", a, err)
			}
			for _, record := range records {
				if copies := seen.Sight(0, int(record.Number)).Copies; (record.Fate == dispatch.Sent) != (copies == 1) {
					t.Fatalf("%+v, seen %d times", record, copies)
				}
			}
		})
	}
}

// TestInterfaceGoes: packets for an interface that went down or away fail with a cause.
func TestInterfaceGoes(t *testing.T) {
	for name, change := range map[string]func(netlink.Link) error{"down": netlink.LinkSetDown, "deleted": netlink.LinkDel} {
		for _, m := range mechanisms() {
			t.Run(m.Name+"/"+name, func(t *testing.T) {
				r := newRig(t)
				h := r.header(farAddress, frame.UDP)
				const packets = 50_000 // 10 s, of which it takes what the machine needs
				seen := r.observe(h, 1, packets)
				s, err := schedule.Train(packets, 100, 200*time.Microsecond, schedule.Trains{})
				job := jobOf(t, h, s, err)
				ctx, cancel := context.WithCancel(t.Context())
				var watch sync.WaitGroup
				defer watch.Wait()
				defer cancel()
				watch.Go(func() {
					for ctx.Err() == nil && seen.Sight(0, 20).Copies == 0 {
						time.Sleep(time.Millisecond)
					}
					err := netns.Do(r.near, func() error {
						l, err := netlink.LinkByName(nearDevice)
						if err != nil {
							return err
						}
						return change(l)
					})
					if err != nil {
						t.Error(err)
					}
				})
				a := NewAccount(DefaultLate)
				var records []dispatch.Record
				err = Run(ctx, r.open(dispatch.Options{Mechanism: m.Name}), job, func(record dispatch.Record) {
					a.Add(record)
					records = append(records, record)
					if a.Failed == 20 {
						cancel()
					}
				})
				if a.Scheduled != packets || a.Scheduled != a.Sent+a.LateDropped+a.Cancelled+a.Failed || a.Failed == 0 || len(a.Failures) == 0 {
					t.Fatalf("scheduled %d = sent %d + cancelled %d + failed %d, %v, %v", a.Scheduled, a.Sent, a.Cancelled, a.Failed, a.Failures, err)
				}
				for _, record := range records {
					if copies := seen.Sight(0, int(record.Number)).Copies; record.Fate == dispatch.Failed && copies > 0 {
						t.Fatalf("%+v arrived", record)
					}
				}
			})
		}
	}
}

// TestDropLate: packets behind the bound are not sent.
func TestDropLate(t *testing.T) {
	r := newRig(t)
	h := r.header(farAddress, frame.UDP)
	for _, m := range mechanisms() {
		s, err := schedule.Train(20, 100, time.Microsecond, schedule.Trains{})
		job := jobOf(t, h, s, err)
		job.Delay = time.Nanosecond // they are late before they are handed over
		a, _, err := r.send(t.Context(), r.open(dispatch.Options{Mechanism: m.Name, DropLate: time.Nanosecond}), job)
		if err != nil || a.LateDropped != 20 {
			t.Errorf("%s: %+v, %v", m.Name, a, err)
		}
	}
}

// TestOpenFails: errors name the mechanism and the cause.
func TestOpenFails(t *testing.T) {
	r := newRig(t)
	for name, o := range map[string]dispatch.Options{"mechanism": {Device: nearDevice, Mechanism: "pigeon"}, "device": {Device: "none0"}} {
		o.Namespace = r.namespace
		if s, err := dispatch.Open(o); err == nil {
			t.Errorf("%s: opened %v", name, s)
		} else {
			t.Log(err)
		}
	}
}

// TestSendersShareDevice: the driver times of two senders on one device are those of their own
// packets, although the packets have the same slots.
func TestSendersShareDevice(t *testing.T) {
	r := newRig(t)
	s, err := schedule.Train(400, 100, 500*time.Microsecond, schedule.Trains{})
	opened := []dispatch.Sender{r.open(dispatch.Options{Mechanism: "bpf"}), r.open(dispatch.Options{Mechanism: "bpf"})}
	job := jobOf(t, r.header(farAddress, frame.UDP), s, err)
	var senders sync.WaitGroup
	for _, sender := range opened {
		senders.Go(func() {
			a := NewAccount(DefaultLate)
			err := Run(t.Context(), sender, job, func(record dispatch.Record) {
				a.Add(record)
				if record.Driver < record.Handed || record.Handed < record.Intended {
					t.Errorf("%+v", record)
				}
			})
			if err != nil || a.Sent != 400 {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
	senders.Wait()
}
