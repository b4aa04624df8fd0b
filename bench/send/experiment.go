package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
)

// unit is what each block has once.
type unit interface {
	name() string
	beside() string // the load
	run(context.Context, *experiment) error
	close() // computes the estimates when all blocks are done
}

// experiment runs every unit once in each block.
type experiment struct {
	settings
	bed   *bed
	units []unit
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
	for _, u := range x.units {
		u.close()
	}
	return nil
}

// beside runs the units of one load in random order.
func (x *experiment) beside(ctx context.Context, load string, random *rand.Rand) (err error) {
	var units []unit
	for _, i := range random.Perm(len(x.units)) {
		if x.units[i].beside() == load {
			units = append(units, x.units[i])
		}
	}
	if len(units) == 0 {
		return nil
	}
	stop, err := x.bed.impose(ctx, load)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for _, u := range units {
		if err := u.run(ctx, x); err != nil {
			return fmt.Errorf("%s: %w", u.name(), err)
		}
	}
	return nil
}
