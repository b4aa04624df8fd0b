package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"pillion.dev/internal/netns"
	"pillion.dev/send/schedule"
	"pillion.dev/study/bench/result"
)

// peer describes the load that each compared program sends: UDP datagrams at a constant rate, for 1 s.
// Arrivals are captured at the far end in the same way for all programs, since only this sender's packets
// carry a tag.
type peer struct {
	gap  time.Duration // between the starts of packets
	size int           // of an Ethernet frame without FCS, bytes
}

const (
	peerPort = 5300
	// headers is the length of the Ethernet, IPv4 and UDP headers before the payload, bytes.
	headers = 14 + 20 + 8
)

// tool is a compared program and its command lines. This sender's tools have an arm of the benchmark (a way of
// sending) instead of command lines.
type tool struct {
	name           string
	binary         string
	server, client func(p *peer) []string
	arm            string
}

var tools = []tool{
	{name: "pillion", arm: "initial"},
	{name: "socket", arm: "socket"},
	{name: "iperf3", binary: "iperf3",
		server: func(*peer) []string { return words("iperf3", "-s", "-1", "-p", peerPort) },
		client: func(p *peer) []string {
			return words("iperf3", "-c", farAddress, "-p", peerPort, "-u", "-t", 1, "-l", p.size-headers, "-b", int(p.packetsPerSecond()*float64(p.size-headers)*8))
		}},
	{name: "iperf2", binary: "iperf",
		server: func(*peer) []string { return words("iperf", "-s", "-u", "-p", peerPort) },
		client: func(p *peer) []string {
			return words("iperf", "-c", farAddress, "-p", peerPort, "-u", "-t", 1, "-l", p.size-headers, "-b", fmt.Sprintf("%.0fpps", p.packetsPerSecond()))
		}},
	{name: "d-itg", binary: "ITGSend",
		server: func(*peer) []string { return words("ITGRecv") },
		client: func(p *peer) []string {
			return words("ITGSend", "-a", farAddress, "-rp", peerPort, "-T", "UDP", "-t", 1000, "-c", p.size-headers, "-C", fmt.Sprintf("%.0f", p.packetsPerSecond()))
		}},
}

func words(all ...any) (list []string) {
	for _, w := range all {
		list = append(list, fmt.Sprint(w))
	}
	return list
}

func (p *peer) packetsPerSecond() float64 { return 1 / p.gap.Seconds() }

// peerCommand measures one program: gap_error is the absolute difference between the captured and the requested
// gap of successive packets, ns.
func peerCommand(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	var p peer
	var names []string
	for _, t := range tools {
		names = append(names, t.name)
	}
	load := loadFlag(f)
	name := f.String("tool", "pillion", strings.Join(names, ", "))
	f.DurationVar(&p.gap, "gap", 250*time.Microsecond, "distance of packets")
	f.IntVar(&p.size, "size", 1514, "bytes of a frame")
	return func(ctx context.Context) (result.Result, error) {
		i := slices.Index(names, *name)
		if i < 0 {
			return nil, fmt.Errorf("invalid -tool %q: want %s", *name, strings.Join(names, ", "))
		}
		if binary := tools[i].binary; binary != "" {
			if _, err := exec.LookPath(binary); err != nil {
				return nil, fmt.Errorf("find %s: %w; make install-bench installs it", *name, err)
			}
		}
		return beside(ctx, *load, func(b *bed) (result.Result, error) { return p.run(ctx, b, &tools[i]) })
	}
}

func (p *peer) run(ctx context.Context, b *bed, t *tool) (result.Result, error) {
	c := newChildren(ctx)
	defer c.stop()
	if t.server != nil {
		if err := c.start(b.far, t.server(p)...); err != nil {
			return nil, err
		}
		time.Sleep(serverStart)
	}
	captured, err := startCapture(ctx, b.far, farDevice, "udp dst port "+strconv.Itoa(peerPort))
	if err != nil {
		return nil, err
	}
	if t.client == nil {
		err = p.send(ctx, b, t.arm)
	} else {
		command := t.client(p)
		_, err = netns.Run(b.near, exec.CommandContext(ctx, command[0], command[1:]...))
	}
	stamps, stopped := captured.stop(p.size)
	if err = errors.Join(err, stopped); err != nil {
		return nil, err
	}
	return p.compare(stamps)
}

func (p *peer) send(ctx context.Context, b *bed, arm string) error {
	packets, err := schedule.Train(int(p.packetsPerSecond()), p.size, p.gap, schedule.Trains{Count: 1})
	if err != nil {
		return err
	}
	header := *b.header
	header.Destination, header.DestinationPort = netip.MustParseAddr(farAddress), peerPort
	other := *b
	other.header = &header
	_, err = (&way{arm: arm}).send(ctx, &other, packets)
	return err
}

func (p *peer) compare(stamps []int64) (result.Result, error) {
	if float64(len(stamps)) < p.packetsPerSecond()/2 {
		return nil, fmt.Errorf("%d packets of about %.0f were captured", len(stamps), p.packetsPerSecond())
	}
	var off []int64
	for i := 1; i < len(stamps); i++ {
		off = append(off, abs(stamps[i]-stamps[i-1]-p.gap.Nanoseconds()))
	}
	mean := float64(stamps[len(stamps)-1]-stamps[0]) / float64(len(stamps)-1)
	r := result.Result{"packets": len(stamps), "rate_over_asked": float64(p.gap) / mean}
	errors := result.NewSample(off)
	errors.Put(r, "gap_error")
	putShares(r, errors)
	return r, nil
}
