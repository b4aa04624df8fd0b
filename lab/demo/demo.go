// Package demo shows Pillion at work: in a lab with a server, two agents and an
// emulated link of known faults it creates a session as a user does, shows it live
// while real TCP and UDP flows over IPv6 and IPv4, and sets what the archive says at
// the end beside what the link really did.
package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"pillion.dev/lab"
	"pillion.dev/lab/emulator"
)

//go:embed demo.yaml
var specText []byte

// calmTime is how long the link loses nothing at either end of the time: flows
// connect, and the last packet of every flow arrives and closes the account.
const calmTime = 1500 * time.Millisecond

// grace is how long agents, server and link may take to come to rest.
const grace = 30 * time.Second

const sessionName = "demo"

// errInterrupted ends a demonstration that was told to end.
var errInterrupted = errors.New("interrupted; everything is removed again")

// Options say how the demonstration runs.
type Options struct {
	// Agent is the pillion-agent binary; pillion and pillion-server are beside it.
	Agent string
	// Time is how long traffic flows.
	Time time.Duration
	// Keep leaves the lab up at the end.
	Keep bool
	// Name is the lab's, for tests; default demo.
	Name string
}

type demo struct {
	lab     *lab.Lab
	faults  emulator.Change // of what a sends
	options Options
	out     io.Writer
}

// Run builds the lab, measures and prints, and removes everything again unless it
// is to be kept.
func Run(ctx context.Context, options Options, out io.Writer) (err error) {
	spec, err := lab.ParseSpec(specText)
	if err != nil {
		return err
	}
	if options.Name != "" {
		spec.Name = options.Name
	}
	if spec.Service.Forward, err = freePort(spec.Service.Forward); err != nil {
		return err
	}
	defer func() {
		if ctx.Err() != nil {
			err = fmt.Errorf("demonstrate: %w", errInterrupted)
		}
	}()
	fmt.Fprint(out, "Lab: a --- emulated link --- r --- b, and Pillion's server on noc\n"+
		"     a to r: delay 5 ms ± 0.2 ms, loss 0.5 %, duplicates 0.05 %, reordering 0.1 %\n")
	up, err := lab.Up(ctx, spec, lab.Options{Agent: options.Agent})
	if err != nil {
		return err
	}
	d := &demo{lab: up, options: options, out: out, faults: spec.Links[0].Emulate.From["a"]}
	err = d.run(ctx)
	if err == nil && options.Keep {
		d.sayKept()
		return nil
	}
	return errors.Join(err, lab.Down(context.WithoutCancel(ctx), spec.Name))
}

// freePort is the first free port of the loopback from one on.
func freePort(from int) (int, error) {
	var failed error
	for port := from; port < from+100; port++ {
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, listener.Close()
		}
		failed = errors.Join(failed, err)
	}
	return 0, fmt.Errorf("find free port from %d: %w", from, failed)
}

func (d *demo) run(ctx context.Context) error {
	d.change(ctx, "", emulator.Calm())
	if _, err := d.pillion(ctx, "session", "create", "--name", sessionName, "--from", "a", "--to", "b"); err != nil {
		return err
	}
	if err := d.running(ctx); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "     session %s from a to b; iperf3: TCP and UDP over IPv6 and IPv4, %v\n\n", sessionName, d.options.Time)
	d.sayWhere("While it runs")
	watch, err := d.watch()
	if err != nil {
		return err
	}
	err = d.traffic(ctx)
	watch.end()
	if err != nil {
		return err
	}
	measured, truth, err := d.measured(ctx)
	if err != nil {
		return err
	}
	if err := d.sections(ctx); err != nil {
		return err
	}
	return compare(d.out, measured, truth)
}

// sections print what the server can say beyond the account: flows and paths.
func (d *demo) sections(ctx context.Context) error {
	for _, section := range []struct {
		title string
		args  []string
	}{
		{"What was measured of each flow", []string{"flows", "--session", sessionName, "--by", "host-port", "--limit", "4"}},
		{"Paths that the agents traced", []string{"topology"}},
	} {
		text, err := d.pillion(ctx, section.args...)
		if err != nil {
			return err
		}
		fmt.Fprintf(d.out, "\n%s (pillion %s)\n\n%s", section.title, section.args[0], text)
	}
	return nil
}

// truth is what the link did to marked packets on their way from a.
func (d *demo) truth(ctx context.Context) (emulator.Tally, uint64, error) {
	truth, err := d.lab.Truth(ctx, "a-r")
	if err != nil {
		return emulator.Tally{}, 0, err
	}
	for _, direction := range truth.Directions {
		if direction.From == "a" {
			return direction.Marked, direction.Unread, nil
		}
	}
	return emulator.Tally{}, 0, errors.New("read truth: it says nothing of host a")
}

// until asks again and again, and gives up in the end.
func until(ctx context.Context, what string, condition func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	for {
		if done, err := condition(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		case <-retry.C:
		}
	}
}
