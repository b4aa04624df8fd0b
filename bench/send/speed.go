package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"pillion.dev/bench/estimate"
	"pillion.dev/send"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/observer"
	"pillion.dev/send/schedule"
)

// speed is a train at maximum speed over a line that is slower than the sender (seed 5,
// E12): the rate by the time stamps of tcpdump at the sender, against the rate at which
// packets leave the line. The queue of the line lies below the point of capture, as the
// queue of a network card does.
type speed struct {
	Name string `json:"name"`
	Arm  string `json:"arm"`
	// Captured is the rate by tcpdump at the sender, Returned the one by the times that the
	// sender returns, Line the one at the far end, as multiples of the line's rate.
	Captured estimate.Estimate `json:"captured_over_line_rate"`
	Returned estimate.Estimate `json:"returned_over_line_rate"`
	Line     estimate.Estimate `json:"far_end_over_line_rate"`
	// Lost packets of all blocks, on the line; those behind them leave it one time slot earlier.
	Lost int `json:"lost"`

	options                  dispatch.Options
	captured, returned, line []float64
}

const (
	lineRate     = 100e6 // bit/s
	speedPackets = 100
	speedSize    = 1514
)

func speeds() (all []*speed) {
	for _, a := range arms {
		if a.name != "on the fly" {
			all = append(all, &speed{Name: "maximum speed, " + a.name, Arm: a.name, options: a.options})
		}
	}
	return all
}

func (s *speed) name() string   { return s.Name }
func (s *speed) beside() string { return idle }

func (s *speed) run(ctx context.Context, x *experiment) error {
	b, err := newBed(lineRate)
	if err != nil {
		return err
	}
	return errors.Join(s.over(ctx, b), b.Close())
}

func (s *speed) over(ctx context.Context, b *bed) error {
	witness, err := b.observeAt(observer.Arrival, 1, speedPackets)
	if err != nil {
		return err
	}
	defer witness.Close()
	options := s.options
	options.Device, options.Namespace = nearDevice, b.namespace
	sender, err := dispatch.Open(options)
	if err != nil {
		return err
	}
	defer sender.Close()
	packets, err := schedule.Train(speedPackets, speedSize, 0, schedule.Trains{Count: 1})
	if err != nil {
		return err
	}
	captured, err := startCapture(ctx, b.near, nearDevice, fmt.Sprintf("udp dst port %d", port))
	if err != nil {
		return err
	}
	var handed []int64
	err = send.Run(ctx, sender, send.Job{Schedule: packets, Headers: map[string]*frame.Header{"": b.header}}, func(r dispatch.Record) {
		handed = append(handed, r.Handed)
	})
	stamps, stopped := captured.stop(speedSize)
	if err = errors.Join(err, stopped); err != nil {
		return err
	}
	var arrived []int64
	for number := range speedPackets {
		if at := witness.Sight(0, number).At; at > 0 {
			arrived = append(arrived, at)
		}
	}
	if len(stamps) != speedPackets || len(arrived) < speedPackets/2 {
		return fmt.Errorf("%d packets captured, %d arrived, of %d", len(stamps), len(arrived), speedPackets)
	}
	s.Lost += speedPackets - len(arrived)
	s.captured, s.returned, s.line = append(s.captured, ofLine(stamps)), append(s.returned, ofLine(handed)), append(s.line, ofLine(arrived))
	return nil
}

// ofLine is the rate of packets with these times, over the rate of the line.
func ofLine(times []int64) float64 {
	slices.Sort(times)
	duration := float64(times[len(times)-1]-times[0]) / 1e9
	return float64(len(times)-1) * speedSize * 8 / duration / lineRate
}

func (s *speed) close() {
	s.Captured, s.Returned, s.Line = estimate.Of(s.captured), estimate.Of(s.returned), estimate.Of(s.line)
}
