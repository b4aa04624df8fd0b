package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"

	"pillion.dev/send"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
)

// experiment runs every cell once in each block.
type experiment struct {
	settings
	bed   *bed
	cells []*cell
}

func (x *experiment) run(ctx context.Context) error {
	for block := range x.Blocks {
		fmt.Fprintf(os.Stderr, "block %d of %d\n", block+1, x.Blocks)
		random := rand.New(rand.NewPCG(x.Seed, uint64(block)))
		for _, l := range random.Perm(len(loads)) {
			if err := x.beside(ctx, loads[l], random); err != nil {
				return fmt.Errorf("block %d, load %s: %w", block+1, loads[l], err)
			}
		}
	}
	return nil
}

// beside runs the cells of one load in random order.
func (x *experiment) beside(ctx context.Context, load string, random *rand.Rand) error {
	stop, err := x.bed.impose(ctx, load)
	if err != nil {
		return err
	}
	defer stop()
	for _, i := range random.Perm(len(x.cells)) {
		c := x.cells[i]
		if c.Load != load {
			continue
		}
		if err := x.one(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return nil
}

func (x *experiment) one(ctx context.Context, c *cell) error {
	trains, packets := c.shape(x.settings)
	o, err := x.bed.observe(trains, packets)
	if err != nil {
		return err
	}
	defer o.Close()
	options := c.options
	options.Device, options.Namespace = nearDevice, x.bed.namespace
	s, err := dispatch.Open(options)
	if err != nil {
		return err
	}
	defer s.Close()
	packetsOf, err := c.schedule(x.settings)
	if err != nil {
		return err
	}
	records := make([]dispatch.Record, 0, trains*packets)
	job := send.Job{Schedule: packetsOf, Headers: map[string]*frame.Header{"": x.bed.header}}
	if err := send.Run(ctx, s, job, func(r dispatch.Record) { records = append(records, r) }); err != nil {
		return err
	}
	c.add(records, func(train, number int) (int64, uint64) {
		sight := o.Sight(train, number)
		return sight.At, sight.Copies
	})
	return nil
}
