package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// bench is a testbed with the options of a run.
type bench struct {
	settings
	testbed *testbed
}

func newBench(s settings) (*bench, error) {
	t, err := buildTestbed(s.mtu)
	if err != nil {
		return nil, err
	}
	b := &bench{settings: s, testbed: t}
	if s.traffic.tcp == segmented {
		if err := t.segment(); err != nil {
			return nil, errors.Join(err, t.Close())
		}
	}
	return b, nil
}

// Close removes the testbed.
func (b *bench) Close() error { return b.testbed.Close() }

// treated calls what is to be measured while a treatment is in effect.
func (b *bench) treated(ctx context.Context, t treatment, measure func(running) error) (account, error) {
	if err := checkBare(b.testbed); err != nil {
		return account{}, err
	}
	effect, err := t.start(ctx, b.testbed)
	if err != nil {
		return account{}, err
	}
	err = measure(effect)
	a, stopErr := effect.stop()
	if err != nil {
		return a, errors.Join(err, stopErr)
	}
	return a, stopErr
}

// cpuResult is a run of the measure cpu.
type cpuResult struct {
	Arm     string `json:"arm"`
	Traffic string `json:"traffic"`
	// Unit of Rate: packets, bits or transactions for each second of CPU time of
	// the threads that carry them, at both ends.
	Unit string  `json:"unit"`
	Rate float64 `json:"rate"`
	// RateByClock is the same for each second: it includes whatever else the machine did.
	RateByClock float64 `json:"rate_by_clock"`
	// MbitPerS is the payload's rate by the clock.
	MbitPerS float64 `json:"mbit_per_s"`
	// Packets were sent, and Delivered arrived as they were sent; of TCP, bytes.
	Packets   int `json:"packets"`
	Delivered int `json:"delivered"`
	account
	// MarkedShare is of the packets that the sampling selects; warm-up makes it exceed 1 a
	// little. It is 1 where nothing is to be marked, or the number of packets is not known.
	MarkedShare float64 `json:"marked_share"`
	// Beside is the CPU time of the treatment's processes over the elapsed time, in cores.
	// No rate includes it.
	Beside float64 `json:"beside"`
}

// measureCPU measures the rate of a thread that carries packets from one end to the other.
func measureCPU(ctx context.Context, b *bench) (any, error) {
	r := cpuResult{Arm: b.arm.String(), Traffic: b.traffic.String(), Unit: b.traffic.unit(), MarkedShare: 1}
	var err error
	r.account, err = b.treated(ctx, b.arm.treatment(b.settings), func(effect running) error {
		begin, cpu := time.Now(), effect.cpuTime()
		s, err := b.send(ctx)
		r.Beside = float64(effect.cpuTime()-cpu) / float64(time.Since(begin))
		r.Rate, r.RateByClock = s.perCPUSecond, s.perSecond
		r.MbitPerS = s.perSecond * b.traffic.bits() / 1e6
		r.Packets, r.Delivered = s.sent, s.delivered
		return err
	})
	if b.arm.name == armAgents && b.traffic.isUDP() && r.Packets > 0 {
		r.MarkedShare = r.Marked * float64(b.arm.every) / float64(r.Packets)
	}
	return r, err
}

// sample is what a run of traffic yields.
type sample struct {
	sent, delivered int
	perCPUSecond    float64
	perSecond       float64
}

// send runs the traffic once.
func (b *bench) send(ctx context.Context) (sample, error) {
	switch {
	case b.traffic.isUDP():
		r, err := sendUDP(ctx, b.testbed, b.traffic.v6, b.traffic.payload, b.core, b.length)
		return sample{r.Packets, r.Delivered, 1e9 / r.CPUNs, 1e9 / r.ClockNs}, err
	case b.traffic.isStream():
		return sendStream(ctx, b.testbed, b.traffic.v6, b.core, b.length)
	}
	return sendRequests(ctx, b.testbed, b.traffic, b.core, b.length)
}

// mustArrive fails if packets were lost: the pair itself loses none, and one that is lost
// costs less.
func mustArrive(k traffic, r udpResult) error {
	if r.Delivered != r.Packets {
		return fmt.Errorf("send %s: %d of %d packets arrived as they were sent", k, r.Delivered, r.Packets)
	}
	return nil
}
