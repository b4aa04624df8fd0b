package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"pillion.dev/probe/router"
)

// bench is a testbed with the sender and receiver of the tests.
type bench struct {
	*testbed
	sender   *sender
	receiver *receiver
}

func openBench(steered bool) (*bench, error) {
	t, err := buildTestbed(steered)
	if err != nil {
		return nil, err
	}
	b := &bench{testbed: t}
	if b.sender, err = openSender(t); err == nil {
		b.receiver, err = openReceiver(t)
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bench) close() error {
	var err error
	if b.receiver != nil {
		err = b.receiver.close()
	}
	if b.sender != nil {
		b.sender.close()
	}
	return errors.Join(err, b.testbed.Close())
}

// shot is one series of packets.
type shot struct {
	Sent     int     `json:"sent"`
	Received int     `json:"received"`
	Rate     float64 `json:"packets_per_s"` // of the sender
}

func (b *bench) shoot(lengths []uint16, rate float64) (shot, error) {
	before, err := b.receiver.count()
	if err != nil {
		return shot{}, err
	}
	took, err := b.sender.send(lengths, rate)
	if err != nil {
		return shot{}, err
	}
	received, err := b.receiver.await(before, len(lengths))
	return shot{len(lengths), received, round(float64(len(lengths)) / took.Seconds())}, err
}

// Of the search for the lossless throughput.
const (
	firstRate   = 10_000
	topRate     = 4_000_000
	closeEnough = 1.03
	trialTime   = 300 * time.Millisecond
	trialMost   = 60_000
	trialTries  = 2
	kept        = 0.98 // of the requested rate; below, the sender is the limit
)

// lossless finds the highest rate without loss, first in short trials, then in one of n
// packets.
func (b *bench) lossless(ctx context.Context, s sizes, n int) (rate float64, err error) {
	good, bad := float64(firstRate), float64(topRate)
	for next := good; bad/good > closeEnough; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		passed, err := b.passes(s, min(trialMost, int(next*trialTime.Seconds())), next)
		if err != nil {
			return 0, err
		}
		if passed {
			good = next
		} else {
			bad = next
		}
		if next = good * 2; next >= bad {
			next = (good + bad) / 2
		}
		if bad <= firstRate {
			return 0, fmt.Errorf("search lossless throughput of %s: packets are lost at %d a second", s.name, firstRate)
		}
	}
	for ; ctx.Err() == nil && good > firstRate; good *= 0.95 {
		if passed, err := b.passes(s, n, good); passed || err != nil {
			return good, err
		}
	}
	return good, ctx.Err()
}

func (b *bench) passes(s sizes, n int, rate float64) (bool, error) {
	for range trialTries {
		got, err := b.shoot(s.series(n, 0), rate)
		if err != nil {
			return false, err
		}
		if got.Received == got.Sent && got.Rate >= kept*rate {
			return true, nil
		}
	}
	return false, nil
}

// Names of the stages in the results, in the profile's order.
var stageNames = []string{"input_queuing", "processing", "output_queuing", "transit"}

// test is one test of a cell: the profile of its packets.
type test struct {
	shot
	Stages      map[string]times `json:"stages"`
	Breaks      uint64           `json:"coffee_breaks"`
	NoArrival   uint64           `json:"no_arrival"` // of those sent: without input queuing and transit
	Lost        uint64           `json:"lost_by_the_profile"`
	Unexplained int64            `json:"unexplained"`

	inputs, outputs []uint64 // sizes of queues
	between         []uint64 // packets from one coffee break to the next
}

// cell is one operating condition with its tests.
type cell struct {
	Name       string     `json:"name"`
	Lossless   bool       `json:"at_lossless_throughput"`
	Rate       float64    `json:"packets_per_s"`
	Tests      []test     `json:"tests"`
	Histograms histograms `json:"histograms"`

	sizes sizes
	fine  []uint64 // processing, in bins of 50 ns
}

// measureCells runs constant sizes at their lossless throughput, then all sizes at one
// rate, slightly below the lowest of those: differences are then due to the sizes.
func measureCells(ctx context.Context, s settings) (cells []*cell, err error) {
	err = onBench(true, func(b *bench) error {
		shared := float64(topRate)
		for _, size := range []int{20, 550, 1400} {
			c := &cell{Lossless: true, sizes: constant(size)}
			if err := b.measure(ctx, s, c); err != nil {
				return err
			}
			cells, shared = append(cells, c), min(shared, 0.95*c.Rate)
		}
		var same []*cell
		for _, kind := range []sizes{constant(20), constant(550), constant(600), constant(1400), gaussian, pareto} {
			same = append(same, &cell{Rate: shared, sizes: kind})
		}
		cells = append(cells, same...)
		return b.measure(ctx, s, same...)
	})
	return cells, err
}

// measure runs the tests of cells alternately, so that other load on the machine affects all.
func (b *bench) measure(ctx context.Context, s settings, cells ...*cell) error {
	if err := b.tests(ctx, s, cells); err != nil {
		return fmt.Errorf("test %s: %w", cells[0].sizes.name, err)
	}
	for _, c := range cells {
		if err := b.magnify(ctx, s, c); err != nil {
			return fmt.Errorf("magnify %s: %w", c.sizes.name, err)
		}
		c.Name, c.Histograms = c.sizes.name, c.histograms()
		fmt.Fprintln(os.Stderr, c)
	}
	return nil
}

func (b *bench) tests(ctx context.Context, s settings, cells []*cell) (err error) {
	profile, err := b.profile(router.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, profile.Close()) }()
	for _, c := range cells {
		if c.Lossless {
			if c.Rate, err = b.lossless(ctx, c.sizes, s.Packets); err != nil {
				return err
			}
		}
	}
	for i := range s.Repeats {
		for _, c := range cells {
			if err := ctx.Err(); err != nil {
				return err
			}
			t, err := b.test(profile, c.sizes.series(s.Packets, uint64(i)), c.Rate)
			if err != nil {
				return err
			}
			c.Tests = append(c.Tests, t)
		}
	}
	return nil
}

func (b *bench) test(profile *router.Router, lengths []uint16, rate float64) (test, error) {
	before, err := profile.Snapshot()
	if err != nil {
		return test{}, err
	}
	t := test{Stages: map[string]times{}}
	if t.shot, err = b.shoot(lengths, rate); err != nil {
		return test{}, err
	}
	after, err := profile.Snapshot()
	if err != nil {
		return test{}, err
	}
	for _, p := range after.Sub(before).Pairs {
		if p.In.Name == "in0" && p.Out.Name == "in1" {
			for stage, name := range stageNames {
				t.Stages[name] = newTimes(p.Stages[stage])
			}
		}
	}
	if len(t.Stages) == 0 {
		return test{}, errors.New("the profile saw no packet")
	}
	t.NoArrival = after.Account.NoArrival - before.Account.NoArrival
	t.Lost = after.Account.Lost - before.Account.Lost
	t.Unexplained = after.Account.Unexplained
	t.queues(before, after)
	return t, nil
}

// queues copies the profile's queue sizes and coffee breaks.
func (t *test) queues(before, after router.Snapshot) {
	find := func(s router.Snapshot, device string, input bool) []uint64 {
		for _, q := range s.Queues {
			if q.Interface.Name == device && q.Input == input {
				return q.Sizes
			}
		}
		return nil
	}
	t.inputs = less(find(after, "in0", true), find(before, "in0", true))
	t.outputs = less(find(after, "in1", false), find(before, "in1", false))
	t.between = less(after.Breaks.Between, before.Breaks.Between)
	t.Breaks = after.Breaks.Count - before.Breaks.Count
}

// Of the fine histogram.
const (
	fineNs    = 50
	fineBins  = 2000 // the last has all larger values
	fineBytes = 64 << 20
)

// magnify runs one more test with records.
func (b *bench) magnify(ctx context.Context, s settings, c *cell) (err error) {
	profile, err := b.profile(router.Options{Records: true, RecordBytes: fineBytes})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, profile.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.fine = make([]uint64, fineBins)
	done := make(chan error, 1)
	go func() {
		done <- profile.Records(ctx, func(r router.Record) error {
			c.fine[min((r.T3-r.T2)/fineNs, fineBins-1)]++
			return nil
		})
	}()
	_, shootErr := b.shoot(c.sizes.series(s.Packets, 0), c.Rate)
	cancel()
	return errors.Join(shootErr, <-done)
}

// pooled sums the tests of a cell.
func (c *cell) pooled(bins func(t *test) []uint64) []uint64 {
	var all []uint64
	for i := range c.Tests {
		all = sum(all, bins(&c.Tests[i]))
	}
	return all
}

func stage(name string) func(t *test) []uint64 {
	return func(t *test) []uint64 { return t.Stages[name].bins }
}

func find(cells []*cell, name string, lossless bool) *cell {
	i := slices.IndexFunc(cells, func(c *cell) bool { return c.Name == name && c.Lossless == lossless })
	if i < 0 {
		return nil
	}
	return cells[i]
}
