package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"pillion.dev/bench/estimate"
	"pillion.dev/internal/netns"
	"pillion.dev/send"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/schedule"
)

// peer is a program that sends datagrams at a constant rate, for a second. What arrives is
// captured at the far end in the same way for each of them, since only this sender's
// packets carry a tag.
type peer struct {
	Name string `json:"name"`
	Tool string `json:"tool"`
	Load string `json:"load"`
	// AskGap is the time between packets; Size in bytes of their frames.
	AskGap time.Duration `json:"gap_asked_ns"`
	Size   int           `json:"size"`

	// Errors of the distances between packets in microseconds, by block.
	P50       estimate.Estimate `json:"p50_us"`
	P99       estimate.Estimate `json:"p99_us"`
	Within10  estimate.Estimate `json:"within_10us"`
	RateError estimate.Estimate `json:"rate_error"`

	tool   tool
	errors [][]float64
	rates  []float64
}

const (
	peerPort = 5300
	// headers before the payload of a datagram in an Ethernet frame.
	headers = 14 + 20 + 8
)

// tool is how a peer is run; this sender's ways have a mechanism in place of commands.
type tool struct {
	name           string
	binary         string
	server, client func(p *peer) []string
	mechanism      string
}

var tools = []tool{
	{name: "pillion", mechanism: "bpf"},
	{name: "plain socket", mechanism: "packet-sleep"},
	{name: "iperf3", binary: "iperf3",
		server: func(*peer) []string { return words("iperf3", "-s", "-1", "-p", peerPort) },
		client: func(p *peer) []string {
			return words("iperf3", "-c", farAddress, "-p", peerPort, "-u", "-t", 1, "-l", p.Size-headers, "-b", int(p.packetsPerSecond()*float64(p.Size-headers)*8))
		}},
	{name: "iperf2", binary: "iperf",
		server: func(*peer) []string { return words("iperf", "-s", "-u", "-p", peerPort) },
		client: func(p *peer) []string {
			return words("iperf", "-c", farAddress, "-p", peerPort, "-u", "-t", 1, "-l", p.Size-headers, "-b", fmt.Sprintf("%.0fpps", p.packetsPerSecond()))
		}},
	{name: "D-ITG", binary: "ITGSend",
		server: func(*peer) []string { return words("ITGRecv") },
		client: func(p *peer) []string {
			return words("ITGSend", "-a", farAddress, "-rp", peerPort, "-T", "UDP", "-t", 1000, "-c", p.Size-headers, "-C", fmt.Sprintf("%.0f", p.packetsPerSecond()))
		}},
}

func words(all ...any) (list []string) {
	for _, w := range all {
		list = append(list, fmt.Sprint(w))
	}
	return list
}

func (p *peer) packetsPerSecond() float64 { return 1 / p.AskGap.Seconds() }

// peers are the cells of all installed tools.
func peers() (all []*peer) {
	for _, load := range []string{idle, processor} {
		for _, gap := range []time.Duration{250 * time.Microsecond, time.Millisecond} { // 48 and 12 Mbit/s
			for _, t := range tools {
				if _, err := exec.LookPath(t.binary); t.binary != "" && err != nil {
					continue
				}
				all = append(all, &peer{Name: fmt.Sprintf("%s, %v, %s", load, gap, t.name), Tool: t.name, Load: load, AskGap: gap, Size: 1514, tool: t})
			}
		}
	}
	return all
}

func (p *peer) name() string   { return p.Name }
func (p *peer) beside() string { return p.Load }

func (p *peer) run(ctx context.Context, x *experiment) error {
	t := p.tool
	c := newChildren(ctx)
	defer c.stop()
	if t.server != nil {
		if err := c.start(x.bed.far, t.server(p)...); err != nil {
			return err
		}
		time.Sleep(serverStart)
	}
	captured, err := startCapture(ctx, x.bed.far, farDevice, "udp dst port "+strconv.Itoa(peerPort))
	if err != nil {
		return err
	}
	if t.client == nil {
		err = p.send(ctx, x.bed, t.mechanism)
	} else {
		command := t.client(p)
		client := exec.CommandContext(ctx, command[0], command[1:]...)
		_, err = netns.Run(x.bed.near, client)
	}
	stamps, stopped := captured.stop(p.Size)
	if err = errors.Join(err, stopped); err != nil {
		return err
	}
	return p.add(stamps)
}

func (p *peer) send(ctx context.Context, b *bed, mechanism string) error {
	s, err := dispatch.Open(dispatch.Options{Device: nearDevice, Namespace: b.namespace, Mechanism: mechanism, NoDriver: true})
	if err != nil {
		return err
	}
	defer s.Close()
	packets, err := schedule.Train(int(p.packetsPerSecond()), p.Size, p.AskGap, schedule.Trains{Count: 1})
	if err != nil {
		return err
	}
	header := *b.header
	header.Destination, header.DestinationPort = netip.MustParseAddr(farAddress), peerPort
	return send.Run(ctx, s, send.Job{Schedule: packets, Headers: map[string]*frame.Header{"": &header}}, func(dispatch.Record) {})
}

func (p *peer) add(stamps []int64) error {
	if float64(len(stamps)) < p.packetsPerSecond()/2 {
		return fmt.Errorf("%d packets of about %.0f were captured", len(stamps), p.packetsPerSecond())
	}
	var off []float64
	for i := 1; i < len(stamps); i++ {
		off = append(off, math.Abs(float64(stamps[i]-stamps[i-1]-p.AskGap.Nanoseconds()))/1e3)
	}
	slices.Sort(off)
	p.errors = append(p.errors, off)
	mean := float64(stamps[len(stamps)-1]-stamps[0]) / float64(len(stamps)-1)
	p.rates = append(p.rates, float64(p.AskGap)/mean-1)
	return nil
}

func (p *peer) close() {
	p.P50, p.P99 = byBlock(p.errors, quantile(0.5)), byBlock(p.errors, quantile(0.99))
	p.Within10, p.RateError = byBlock(p.errors, share(10)), estimate.Of(p.rates)
}
