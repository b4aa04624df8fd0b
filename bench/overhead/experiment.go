package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// traffic is one kind of load. Payload 0 means TCP: a bulk stream, or requests and replies.
type traffic struct {
	v6      bool
	payload int
	tcp     tcpTraffic
}

type tcpTraffic string

const (
	// bulk crosses the pair in buffers that no device segments.
	bulk tcpTraffic = ""
	// segmented is a bulk stream that leaves in segments, as on a wire; the receiver merges them (GRO).
	segmented tcpTraffic = "-segmented"
	// requests are transactions of a short request and reply.
	requests tcpTraffic = "-requests"
)

func (k traffic) String() string {
	family := "4"
	if k.v6 {
		family = "6"
	}
	if k.payload == 0 {
		return "tcp" + family + string(k.tcp)
	}
	return "udp" + family + "-" + strconv.Itoa(k.payload)
}

// cell is one line of the table: a treatment under one kind of traffic.
type cell struct {
	modules string // "empty" stands for the empty programs
	every   int
	traffic traffic
}

const emptyModules = "empty"

func (c cell) String() string { return fmt.Sprintf("%s 1-in-%d %s", c.modules, c.every, c.traffic) }

// target is the minimum ratio that the project promises for the cell, 0 if it
// promises none.
func (c cell) target() float64 {
	switch {
	case c.modules == emptyModules:
		return 0
	case c.traffic.tcp == requests && c.every == 1:
		return 0.94
	case c.traffic.payload == 0 && c.every == 1:
		return 0.95
	case c.traffic.payload == 56 && c.every == 1:
		return 0.90
	case c.traffic.payload == 56 && c.every == 10:
		return 0.98
	}
	return 0
}

// settings are the user's options; they are part of the results.
type settings struct {
	Agent      string  `json:"agent"`
	Treatment  string  `json:"treatment"` // agents, empty or none
	Quick      bool    `json:"quick"`
	Pairs      int     `json:"pairs"`
	TCPSeconds float64 `json:"tcp_seconds"`
	UDPSeconds float64 `json:"udp_seconds"`
	Core       int     `json:"core"`      // of the sender
	TwoCores   bool    `json:"two_cores"` // TCP's receiver on the next one
	Only       string  `json:"only,omitempty"`
	Source     string  `json:"source,omitempty"` // further arguments of pillion-agent source
}

// cells returns the plan. A quick one has only the most expensive treatment and the
// most sensitive kinds of traffic.
func (s settings) cells() []cell {
	var kinds []traffic
	for _, tcp := range []tcpTraffic{bulk, segmented, requests} {
		kinds = append(kinds, traffic{v6: true, tcp: tcp}, traffic{tcp: tcp})
	}
	for _, payload := range []int{56, 512, 1400} {
		kinds = append(kinds, traffic{v6: true, payload: payload}, traffic{payload: payload})
	}
	modules, everies := []string{"delay", "loss", "delay,loss"}, []int{1, 10}
	if s.Quick {
		kinds = []traffic{{v6: true}, {v6: true, payload: 56}, {payload: 56}}
		modules, everies = []string{"delay,loss"}, []int{1}
	}
	var plan []cell
	for _, every := range everies {
		for _, m := range modules {
			for _, k := range kinds {
				plan = append(plan, cell{m, every, k})
			}
		}
	}
	for _, v6 := range []bool{true, false} {
		plan = append(plan, cell{emptyModules, 1, traffic{v6: v6, payload: 56}})
	}
	return slices.DeleteFunc(plan, func(c cell) bool { return !strings.Contains(c.String(), s.Only) })
}

// treatmentOf returns what the treated arm of the cell does.
func (s settings) treatmentOf(c cell) treatment {
	switch {
	case s.Treatment == "none":
		return native{}
	case s.Treatment == "empty" || c.modules == emptyModules:
		return empty{}
	}
	return agents{s.Agent, c.modules, c.every, strings.Fields(s.Source)}
}

// sample is one arm of one pair.
type sample struct {
	TCP      *tcpResult     `json:"tcp,omitempty"`
	UDP      *udpResult     `json:"udp,omitempty"`
	Requests *requestResult `json:"requests,omitempty"`
}

// byCPU is the rate by CPU time: packets, bits or transactions a CPU second.
func (s sample) byCPU() float64 {
	switch {
	case s.TCP != nil:
		return s.TCP.BitsPerCPUSecond
	case s.Requests != nil:
		return 1e9 / s.Requests.CPUNs
	}
	return 1e9 / s.UDP.CPUNs
}

// byClock is the rate by elapsed time: packets, bits or transactions a second.
func (s sample) byClock() float64 {
	switch {
	case s.TCP != nil:
		return s.TCP.BitsPerSecond
	case s.Requests != nil:
		return 1e9 / s.Requests.ClockNs
	}
	return 1e9 / s.UDP.ClockNs
}

// pair is two consecutive runs, so that other load on the machine affects both.
type pair struct {
	NativeFirst bool    `json:"native_first"`
	Native      sample  `json:"native"`
	Treated     sample  `json:"treated"`
	Account     account `json:"account"`
	// The ratios are the treated rate over the native one; below 1 is a cost.
	RatioCPU   float64 `json:"ratio_cpu"`
	RatioClock float64 `json:"ratio_clock"`
	// MarkedShare is the packets marked over those that the sampling asks for,
	// on UDP, where the number sent is known; warm-up makes it exceed 1 a little.
	MarkedShare float64 `json:"marked_share,omitempty"`
}

func (p *pair) conclude(c cell) {
	p.RatioCPU = p.Treated.byCPU() / p.Native.byCPU()
	p.RatioClock = p.Treated.byClock() / p.Native.byClock()
	if p.Treated.UDP != nil {
		p.MarkedShare = p.Account.marked() * float64(c.every) / float64(p.Treated.UDP.Packets)
	}
}

// experiment is one whole run.
type experiment struct {
	settings settings
	testbed  *testbed
	log      *slog.Logger
}

// run measures all cells, round by round: a disturbance of a minute affects one pair of
// many cells, not all pairs of one.
func (x *experiment) run(ctx context.Context) ([]outcome, error) {
	plan := x.settings.cells()
	outcomes := make([]outcome, len(plan))
	for i, c := range plan {
		outcomes[i].cell = c
	}
	server, err := startIperfServer(ctx, x.testbed)
	if err != nil {
		return nil, err
	}
	for round := range x.settings.Pairs {
		for i, c := range plan {
			p, err := x.measurePair(ctx, c, (round+i)%2 == 0)
			if err != nil {
				_, stopErr := server.stop()
				return nil, errors.Join(fmt.Errorf("measure %s, pair %d: %w", c, round+1, err), stopErr)
			}
			outcomes[i].pairs = append(outcomes[i].pairs, p)
			x.log.Info("pair", "round", round+1, "of", x.settings.Pairs, "cell", c.String(),
				"ratio_cpu", round3(p.RatioCPU), "ratio_clock", round3(p.RatioClock))
		}
	}
	_, err = server.stop()
	return outcomes, err
}

func (x *experiment) measurePair(ctx context.Context, c cell, nativeFirst bool) (pair, error) {
	p := pair{NativeFirst: nativeFirst}
	arms := []func() error{
		func() (err error) { p.Native, _, err = x.measureArm(ctx, native{}, c.traffic); return err },
		func() (err error) {
			p.Treated, p.Account, err = x.measureArm(ctx, x.settings.treatmentOf(c), c.traffic)
			return err
		},
	}
	if !nativeFirst {
		slices.Reverse(arms)
	}
	for _, arm := range arms {
		if err := arm(); err != nil {
			return p, err
		}
	}
	p.conclude(c)
	return p, nil
}

func (x *experiment) measureArm(ctx context.Context, what treatment, k traffic) (s sample, a account, err error) {
	if err := checkBare(x.testbed); err != nil {
		return s, a, err
	}
	if err := x.testbed.segment(k.tcp == segmented); err != nil {
		return s, a, err
	}
	effect, err := what.start(ctx, x.testbed)
	if err != nil {
		return s, a, err
	}
	s, err = x.send(ctx, k)
	a, stopErr := effect.stop()
	return s, a, errors.Join(err, stopErr)
}

// send runs the traffic once and rejects a run with lost packets: the pair itself loses
// none, and a lost packet costs less.
func (x *experiment) send(ctx context.Context, k traffic) (sample, error) {
	if k.tcp == requests {
		r, err := sendRequests(ctx, x.testbed, k.v6, x.settings.Core, seconds(x.settings.UDPSeconds))
		return sample{Requests: &r}, err
	}
	if k.payload == 0 {
		r, err := sendTCP(ctx, x.testbed, k.v6, x.affinity(), seconds(x.settings.TCPSeconds))
		return sample{TCP: &r}, err
	}
	r, err := sendUDP(ctx, x.testbed, k.v6, k.payload, x.settings.Core, seconds(x.settings.UDPSeconds))
	if err == nil && float64(r.Delivered) < 0.999*float64(r.Packets) {
		err = fmt.Errorf("send %s: %d of %d packets arrived as they were sent", k, r.Delivered, r.Packets)
	}
	return sample{UDP: &r}, err
}

// affinity pins iperf3's two ends to one core: then the whole cost of a byte limits the
// rate, independent of the scheduler. With two cores, runs vary ten times as much.
func (x *experiment) affinity() string {
	receiver := x.settings.Core
	if x.settings.TwoCores {
		receiver = (receiver + 1) % runtime.NumCPU()
	}
	return fmt.Sprintf("%d,%d", x.settings.Core, receiver)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
