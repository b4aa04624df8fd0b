package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/vishvananda/netns"

	space "pillion.dev/internal/netns"
	"pillion.dev/lab"
	"pillion.dev/probe/router"
	"pillion.dev/send"
	"pillion.dev/send/arrival"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/observer"
	"pillion.dev/send/schedule"
	"pillion.dev/study/bench/result"
)

// hop is the single-hop delay of packets of one size through a router between two links
// of known capacities.
type hop struct {
	agent   string
	family  int
	bytes   int // of the payload
	in, out float64
	packets int
	gap     time.Duration
}

// hopCommand compares the single-hop delay d = t_out - t_in, which observers at both hosts see,
// with the profile's transit t4 - t1 and with the transmission delay l/C_in + l/C_out (the
// paper's equations 1 to 3). The links are emulated: they deliver a packet when its last bit
// would have arrived, so t1 is behind the first transmission and t4 before the second.
func hopCommand(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	var h hop
	f.StringVar(&h.agent, "agent", "bin/pillion-agent", "program that emulates links")
	f.IntVar(&h.family, "family", 4, "4 or 6")
	f.IntVar(&h.bytes, "payload", 550, "payload of a packet in bytes")
	f.Float64Var(&h.in, "in", 10, "capacity of the link to the router in Mbit/s")
	f.Float64Var(&h.out, "out", 10, "capacity of the link from the router in Mbit/s")
	f.IntVar(&h.packets, "packets", 200, "packets")
	f.DurationVar(&h.gap, "gap", 5*time.Millisecond, "time between packets; it has to exceed l/C")
	return func(ctx context.Context) (r result.Result, err error) {
		const least = 24 // bytes: the number of the packet is in it
		if h.in <= 0 || h.out <= 0 || h.packets < 1 || h.bytes < least || h.bytes > mostPayload {
			return nil, fmt.Errorf("-in, -out and -packets have to be positive, -payload %d to %d", least, mostPayload)
		}
		if h.agent, err = filepath.Abs(h.agent); err != nil {
			return nil, err
		}
		return h.run(ctx)
	}
}

func (h *hop) run(ctx context.Context) (r result.Result, err error) {
	text := fmt.Sprintf("name: hop%d\nhosts: {a: {}, r: {forward: true}, b: {}}\nlinks:\n"+
		"  - {ends: [a, r], emulate: {seed: 1, rate: %[2]s, queue: 1000, from: {r: {rate: 0}}}}\n"+
		"  - {ends: [r, b], emulate: {seed: 2, rate: %[3]s, queue: 1000, from: {b: {rate: 0}}}}\n",
		os.Getpid(), kbit(h.in), kbit(h.out))
	spec, err := lab.ParseSpec([]byte(text))
	if err != nil {
		return nil, err
	}
	l, err := lab.Up(ctx, spec, lab.Options{Agent: h.agent})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lab.Down(context.Background(), l.Spec.Name)) }()
	return h.measure(ctx, l)
}

func kbit(mbit float64) string { return fmt.Sprintf("%.0fkbit", mbit*1000) }

// header of the packets.
func (h *hop) header(l *lab.Lab) (*frame.Header, error) {
	destination := "10.77.2.2"
	if h.family == 6 {
		destination = "fd77:0:0:2::2"
	}
	header := &frame.Header{Destination: netip.MustParseAddr(destination), Protocol: frame.UDP, SourcePort: 50000, DestinationPort: port}
	return header, l.Do("a", func() error { return send.Address(header, "r") })
}

// observe opens an observer of what leaves host a, and a watch of what arrives at host b.
func (h *hop) observe(l *lab.Lab, header *frame.Header) (near *observer.Observer, far *arrival.Watch, err error) {
	overhead, err := header.Overhead()
	if err != nil {
		return nil, nil, err
	}
	const link = 14
	err = l.Do("a", func() error {
		device, err := net.InterfaceByName("r")
		if err != nil {
			return err
		}
		near, err = observer.Open(observer.Departure, device.Index, overhead-link, 1, h.packets)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	err = l.Do("b", func() (err error) {
		far, err = arrival.Open("r", arrival.Flow{Source: header.Source, SourcePort: header.SourcePort, DestinationPort: port}, h.packets)
		return err
	})
	if err == nil {
		err = far.Begin(0, 1, h.packets)
	}
	if err != nil {
		return nil, nil, errors.Join(err, near.Close())
	}
	return near, far, nil
}

func (h *hop) measure(ctx context.Context, l *lab.Lab) (r result.Result, err error) {
	header, err := h.header(l)
	if err != nil {
		return nil, err
	}
	near, far, err := h.observe(l, header)
	if err != nil {
		return nil, err
	}
	defer near.Close()
	defer far.Close()
	handle, err := netns.GetFromPath(space.Path(l.Namespace("r")))
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	profile, err := router.Open(router.Options{Netns: int(handle), Records: true, SentOnly: true, RecordBytes: recordBytes(h.packets)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, profile.Close()) }()
	if err := h.send(ctx, l, header); err != nil {
		return nil, err
	}
	transits, err := h.transits(ctx, profile)
	if err != nil {
		return nil, err
	}
	return h.compare(near, far, transits)
}

// send sends the packets one by one.
func (h *hop) send(ctx context.Context, l *lab.Lab, header *frame.Header) error {
	namespace, err := os.Open(space.Path(l.Namespace("a")))
	if err != nil {
		return err
	}
	defer namespace.Close()
	sender, err := dispatch.Open(dispatch.Options{Mechanism: "bpf", NoDriver: true, Device: "r", Namespace: namespace})
	if err != nil {
		return err
	}
	defer sender.Close()
	packets, err := schedule.Train(h.packets, h.bytes+headers(h.family), h.gap, schedule.Trains{Count: 1})
	if err != nil {
		return err
	}
	return send.Run(ctx, sender, send.Job{Schedule: packets, Headers: map[string]*frame.Header{"": header}}, func(dispatch.Record) {})
}

// transits are t4 - t1 by the number of the packet, of those that arrived at the far host.
func (h *hop) transits(ctx context.Context, profile *router.Router) (map[int]int64, error) {
	if err := settle(ctx, profile); err != nil {
		return nil, err
	}
	time.Sleep(h.gap + 100*time.Millisecond) // more than a packet is on the second link
	found := map[int]int64{}
	reading, cancel := context.WithCancel(ctx)
	cancel() // what is there is read
	err := profile.Records(reading, func(r router.Record) error {
		if r.Sent && r.T1 > 0 {
			found[int(r.Number)] = int64(r.T4 - r.T1)
		}
		return nil
	})
	return found, err
}

// compare puts single-hop delay and transit of each packet beside each other.
func (h *hop) compare(near *observer.Observer, far *arrival.Watch, transits map[int]int64) (result.Result, error) {
	var delays, inside, rest []int64
	for number, arrived := range far.Arrivals(h.packets) {
		left := near.Sight(0, number)
		transit, ok := transits[number]
		if left.Copies != 1 || arrived == 0 || !ok {
			continue
		}
		d := arrived - left.At
		delays, inside, rest = append(delays, d), append(inside, transit), append(rest, d-transit)
	}
	if len(delays) == 0 {
		return nil, fmt.Errorf("no packet was seen at both hosts and in the router, which saw %d of %d", len(transits), h.packets)
	}
	bits := float64(h.bytes+headers(h.family)) * 8
	predicted := bits/h.in + bits/h.out // us
	r := result.Result{"sent": h.packets, "measured": len(delays), "not_measured": h.packets - len(delays), "predicted_us": predicted}
	result.NewSample(delays).Put(r, "hop")
	result.NewSample(inside).Put(r, "transit")
	transmission := result.NewSample(rest)
	transmission.Put(r, "transmission")
	r["transmission_over_predicted"] = result.US(transmission.Quantile(0.5)) / predicted
	return r, nil
}
