package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"time"

	"pillion.dev/internal/netns"
	"pillion.dev/lab"
	"pillion.dev/send"
	"pillion.dev/send/frame"
)

const (
	fast        = 0 // Mbit/s: a dumbbell whose middle link is not emulated
	nearDevice  = "r"
	farDevice   = "s"
	farAddress  = "10.77.4.2"
	sinkAddress = "10.77.5.2"
	settle      = 250 * time.Millisecond
)

// The competing flow has a share of the middle link's rate, on fast links crossRate.
const (
	share     = 0.3
	crossRate = 300e6
)

// bed is a dumbbell: a sends to b, c competes by sending to d, both over the routers r and s.
type bed struct {
	lab       *lab.Lab
	near, far *os.File // namespaces of a and b
	// Indexes of the devices at both ends.
	nearDevice, farDevice int
	header                *frame.Header
	mbit                  int
}

func newBed(ctx context.Context, agent string, mbit int) (*bed, error) {
	emulation := ""
	if mbit != fast {
		emulation = fmt.Sprintf("    emulate: {seed: 1, rate: %dmbit, queue: 10000, from: {s: {rate: 0}}}\n", mbit)
	}
	text := fmt.Sprintf("name: capacity%d\nhosts: {a: {}, c: {}, r: {forward: true}, s: {forward: true}, b: {}, d: {}}\nlinks:\n"+
		"  - ends: [a, r]\n  - ends: [c, r]\n  - ends: [r, s]\n%s  - ends: [s, b]\n  - ends: [s, d]\n", os.Getpid(), emulation)
	spec, err := lab.ParseSpec([]byte(text))
	if err != nil {
		return nil, err
	}
	l, err := lab.Up(ctx, spec, lab.Options{Agent: agent})
	if err != nil {
		return nil, err
	}
	b := &bed{lab: l, mbit: mbit}
	if err := b.open(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *bed) open() (err error) {
	if b.near, err = os.Open(netns.Path(b.lab.Namespace("a"))); err != nil {
		return err
	}
	if b.far, err = os.Open(netns.Path(b.lab.Namespace("b"))); err != nil {
		return err
	}
	for _, end := range []struct {
		host, device string
		index        *int
	}{{"a", nearDevice, &b.nearDevice}, {"b", farDevice, &b.farDevice}} {
		err := b.lab.Do(end.host, func() error {
			device, err := net.InterfaceByName(end.device)
			if err == nil {
				*end.index = device.Index
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	b.header = &frame.Header{Destination: netip.MustParseAddr(farAddress), SourcePort: 50000, DestinationPort: 9}
	return b.lab.Do("a", func() error { return send.Address(b.header, nearDevice) })
}

// Close takes the lab down.
func (b *bed) Close() error {
	for _, file := range []*os.File{b.near, b.far} {
		if file != nil {
			file.Close()
		}
	}
	return lab.Down(context.Background(), b.lab.Spec.Name)
}

// compete starts the competing flow and returns what ends it.
func (b *bed) compete(ctx context.Context) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var ended []chan error
	stop = func() {
		cancel()
		for _, e := range ended {
			<-e // it was killed
		}
	}
	rate := crossRate
	if b.mbit != fast {
		rate = share * float64(b.mbit) * 1e6
	}
	for _, flow := range []struct {
		host  string
		words []string
	}{
		{"d", []string{"-s"}},
		{"c", []string{"-u", "-c", sinkAddress, "-t", "600", "-l", "1200", "-b", strconv.Itoa(int(rate))}},
	} {
		c := exec.CommandContext(ctx, "iperf3", flow.words...)
		if err := b.lab.Start(flow.host, c); err != nil {
			stop()
			return nil, fmt.Errorf("start iperf3: %w", err)
		}
		end := make(chan error, 1)
		go func() { end <- c.Wait() }()
		select {
		case err := <-end:
			stop()
			return nil, fmt.Errorf("iperf3 on %s ended: %w", flow.host, err)
		case <-time.After(settle): // it has no other sign that it listens or is at its rate
			ended = append(ended, end)
		}
	}
	return stop, nil
}
