// Package demo shows Pillion at work: a lab with an emulated link of known delay
// and loss, real TCP and UDP flows over IPv6 and IPv4, marks read at the far end,
// and at the end what was measured beside what the link really did.
package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"time"

	"pillion.dev/lab"
	"pillion.dev/lab/emulator"
)

//go:embed demo.yaml
var specText []byte

// calmTime is how long the link loses nothing at either end of the time: flows
// connect, and the last packet of every flow arrives and closes the account.
const calmTime = 1500 * time.Millisecond

// Options say how the demonstration runs.
type Options struct {
	// Agent is the pillion-agent binary that measures.
	Agent string
	// Time is how long traffic flows.
	Time time.Duration
}

// Run builds the lab, measures, prints, and removes everything again.
func Run(ctx context.Context, options Options, out io.Writer) (err error) {
	spec, err := lab.ParseSpec(specText)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "Lab: a --- emulated link --- r --- b")
	fmt.Fprintln(out, "     a to r: delay 5 ms ± 0.2 ms, loss 0.5 %, duplicates 0.05 %, reordering 0.1 %")
	up, err := lab.Up(ctx, spec, lab.Options{Agent: options.Agent})
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, lab.Down(context.WithoutCancel(ctx), spec.Name))
	}()
	d := &demo{lab: up, options: options, out: out, faults: spec.Links[0].Emulate.From["a"]}
	d.change(ctx, "", emulator.Calm())
	return d.run(ctx)
}

type demo struct {
	lab     *lab.Lab
	faults  emulator.Change // of what a sends
	options Options
	out     io.Writer
}

func (d *demo) run(ctx context.Context) error {
	destination, err := d.startAgent(ctx, "b", "destination", "--dev", "r", "--from", "10.77.1.1", "--from", "fd77:0:0:1::1")
	if err != nil {
		return err
	}
	defer destination.kill()
	source, err := d.startAgent(ctx, "a", "source", "--dev", "r", "--to", "10.77.2.2", "--to", "fd77:0:0:2::2")
	if err != nil {
		return err
	}
	defer source.kill()
	fmt.Fprintf(d.out, "     source on a, destination on b; iperf3: TCP and UDP over IPv6 and IPv4, %v\n\n", d.options.Time)
	go destination.show(d.out)
	if err := d.traffic(ctx); err != nil {
		return err
	}
	var marked sourceSummary
	if err := source.finish(&marked); err != nil {
		return err
	}
	if err := d.drained(ctx); err != nil {
		return err
	}
	var read destinationSummary
	if err := destination.finish(&read); err != nil {
		return err
	}
	truth, err := d.truth(ctx)
	if err != nil {
		return err
	}
	return compare(d.out, marked, read, truth)
}

// truth is what the link did to marked packets on their way from a.
func (d *demo) truth(ctx context.Context) (emulator.Tally, error) {
	truth, err := d.lab.Truth(ctx, "a-r")
	if err != nil {
		return emulator.Tally{}, err
	}
	for _, direction := range truth.Directions {
		if direction.From == "a" {
			if direction.Unread != 0 {
				fmt.Fprintf(d.out, "note: this machine was too busy: %d packets were lost before the emulator saw them\n", direction.Unread)
			}
			return direction.Marked, nil
		}
	}
	return emulator.Tally{}, errors.New("read truth: it says nothing of host a")
}

// drained waits until no marked packet is under way any more.
func (d *demo) drained(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		tally, err := d.truth(ctx)
		if err != nil || tally.InFlight == 0 {
			return err
		}
	}
}
