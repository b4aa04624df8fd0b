package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// bench runs arms on the testbed.
type bench struct {
	settings settings
	testbed  *testbed
	iperf    *process // iperf3's server, if any cell needs it
	maps     []mapMemory
}

// newBench builds the testbed and starts what the cells need.
func newBench(ctx context.Context, s settings, cells []cell) (*bench, error) {
	t, err := buildTestbed()
	if err != nil {
		return nil, err
	}
	b := &bench{settings: s, testbed: t}
	for _, c := range cells {
		if b.iperf != nil || !c.traffic.isStream() {
			continue
		}
		if b.iperf, err = startIperfServer(ctx, t); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return b, nil
}

// Close stops what newBench started.
func (b *bench) Close() error {
	var err error
	if b.iperf != nil {
		_, err = b.iperf.stop()
	}
	return errors.Join(err, b.testbed.Close())
}

// run starts the treatment of an arm, sends the traffic of a cell, and stops the treatment.
func (b *bench) run(ctx context.Context, a arm, c cell) (trial, error) {
	if err := checkBare(b.testbed); err != nil {
		return trial{}, err
	}
	if err := b.testbed.segment(c.traffic.tcp == segmented); err != nil {
		return trial{}, err
	}
	if c.programs {
		return b.runCounted(ctx, a, c)
	}
	return b.runTreated(ctx, a, c, func(*trial) error { return nil })
}

// runTreated calls look after the traffic, while the treatment is still in effect.
func (b *bench) runTreated(ctx context.Context, a arm, c cell, look func(r *trial) error) (trial, error) {
	r := trial{Arm: a.name}
	effect, err := a.start(b.settings).start(ctx, b.testbed)
	if err != nil {
		return r, err
	}
	begin, cpu := time.Now(), effect.cpuTime()
	r.sample, err = b.send(ctx, c.traffic)
	r.Beside = float64(effect.cpuTime()-cpu) / float64(time.Since(begin))
	if err == nil {
		err = look(&r)
	}
	var stopErr error
	if r.account, stopErr = effect.stop(); stopErr != nil {
		return r, errors.Join(stopErr, err)
	}
	return r, err
}

// send runs the traffic once. A run with lost packets is invalid: the pair itself loses
// none, and a lost packet costs less.
func (b *bench) send(ctx context.Context, k traffic) (sample, error) {
	if k.tcp == requests {
		r, err := sendRequests(ctx, b.testbed, k.v6, b.settings.Core, seconds(b.settings.UDPSeconds))
		return sample{Requests: &r}, err
	}
	if k.isStream() {
		r, err := sendTCP(ctx, b.testbed, k.v6, b.affinity(), seconds(b.settings.TCPSeconds))
		return sample{TCP: &r}, err
	}
	r, err := sendUDP(ctx, b.testbed, k.v6, k.payload, b.settings.Core, seconds(b.settings.UDPSeconds))
	if err == nil && r.Delivered != r.Packets {
		err = lossError{k, r.Packets, r.Delivered}
	}
	return sample{UDP: &r}, err
}

// lossError says that a run is invalid.
type lossError struct {
	traffic         traffic
	sent, delivered int
}

func (e lossError) Error() string {
	return fmt.Sprintf("send %s: %d of %d packets arrived as they were sent", e.traffic, e.delivered, e.sent)
}

// affinity pins iperf3's two ends to one core: then the whole cost of a byte limits the
// rate, independent of the scheduler. With two cores, runs vary ten times as much.
func (b *bench) affinity() string {
	receiver := b.settings.Core
	if b.settings.TwoCores {
		receiver = (receiver + 1) % runtime.NumCPU()
	}
	return fmt.Sprintf("%d,%d", b.settings.Core, receiver)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
