package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"

	"pillion.dev/internal/netns"
	"pillion.dev/send/observer"
	"pillion.dev/send/schedule"
	"pillion.dev/study/bench/result"
)

const speedSize = 1514

// speedCommand sends a train at maximum speed over a line that is slower than the sender (seed 5,
// E12): the rate by the time stamps of tcpdump at the sender, by the times that the sender returns, and at which
// packets leave the line, each over the rate of the line. The queue of the line lies below the point of capture, as the
// queue of a network card does.
func speedCommand(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	w := way{}
	w.flags(f)
	packets := f.Int("packets", 100, "packets of 1514 bytes")
	mbit := f.Float64("line", 100, "rate of the line in Mbit/s")
	return func(ctx context.Context) (result.Result, error) {
		if err := netns.DeleteStale(namePrefix); err != nil {
			return nil, err
		}
		b, err := newBed(*mbit * 1e6)
		if err != nil {
			return nil, err
		}
		r, err := w.over(ctx, b, *packets, *mbit)
		return r, errors.Join(err, b.Close())
	}
}

func (w *way) over(ctx context.Context, b *bed, count int, mbit float64) (result.Result, error) {
	witness, err := b.observeAt(observer.Arrival, 1, count)
	if err != nil {
		return nil, err
	}
	defer witness.Close()
	packets, err := schedule.Train(count, speedSize, 0, schedule.Trains{Count: 1})
	if err != nil {
		return nil, err
	}
	captured, err := startCapture(ctx, b.near, nearDevice, fmt.Sprintf("udp dst port %d", port))
	if err != nil {
		return nil, err
	}
	records, err := w.send(ctx, b, packets)
	stamps, stopped := captured.stop(speedSize)
	if err = errors.Join(err, stopped); err != nil {
		return nil, err
	}
	var handed, arrived []int64
	for _, r := range records {
		handed = append(handed, r.Handed)
		if at := witness.Sight(0, int(r.Number)).At; at > 0 {
			arrived = append(arrived, at)
		}
	}
	if len(stamps) != count || len(arrived) < count/2 {
		return nil, fmt.Errorf("%d packets captured, %d arrived, of %d", len(stamps), len(arrived), count)
	}
	return result.Result{
		"captured_over_line": mbitOf(stamps) / mbit, "returned_over_line": mbitOf(handed) / mbit, "arrived_over_line": mbitOf(arrived) / mbit,
		"packets": count, "lost": count - len(arrived), // those behind them leave the line one time slot earlier
	}, nil
}

// mbitOf is the rate of packets with these times in Mbit/s.
func mbitOf(times []int64) float64 {
	slices.Sort(times)
	return float64(len(times)-1) * speedSize * 8e3 / float64(times[len(times)-1]-times[0])
}
