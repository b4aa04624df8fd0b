// Package demo demonstrates Pillion: in a lab with a server, two agents and an emulated
// link with known impairments it creates a session as a user does, shows it live while
// TCP and UDP flows run over IPv6 and IPv4, and compares the archived results with what
// the link did.
package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"pillion.dev/lab"
	"pillion.dev/lab/emulator"
)

//go:embed demo.yaml
var specText []byte

// calmTime is how long the link is lossless at the beginning and the end: flows connect,
// and the last packet of every flow arrives.
const calmTime = 1500 * time.Millisecond

// grace is the time limit for agents, server and link to process the last packets.
const grace = 30 * time.Second

const sessionName = "demo"

// errInterrupted ends an interrupted demonstration.
var errInterrupted = errors.New("interrupted; everything was removed")

// Options of the demonstration.
type Options struct {
	// Agent is the pillion-agent binary; pillion and pillion-server are beside it.
	Agent string
	// Time is the duration of the traffic.
	Time time.Duration
	// Keep leaves the lab up at the end.
	Keep bool
	// Fleet measures by three servers on a NATS cluster and a ClickHouse cluster instead of one
	// server; a server and a replica are killed half way.
	Fleet bool
	// Name is the lab's, for tests; default demo.
	Name string
}

type demo struct {
	lab     *lab.Lab
	faults  emulator.Change // of what a sends
	options Options
	out     io.Writer
}

// Run builds the lab, measures, prints the comparison, and removes the lab unless it is
// to be kept.
func Run(ctx context.Context, options Options, out io.Writer) (err error) {
	spec, err := options.spec()
	if err != nil {
		return err
	}
	if options.Name != "" {
		spec.Name = options.Name
	}
	listener, err := listen(spec.Service.Forward)
	if err != nil {
		return err
	}
	spec.Service.Forward = listener.Addr().(*net.TCPAddr).Port
	defer func() {
		if ctx.Err() != nil {
			err = fmt.Errorf("demonstrate: %w", errInterrupted)
		}
	}()
	where := "Pillion's server on noc"
	if options.Fleet {
		where = "a fleet: servers and NATS hubs on n1, n2, n3, ClickHouse on c1 to c4"
	}
	fmt.Fprintf(out, "Lab: a --- emulated link --- r --- b, and %s\n"+
		"     a to r: delay 5 ms ± 0.2 ms, loss 0.5 %%, duplicates 0.05 %%, reordering 0.1 %%\n", where)
	up, err := lab.Up(ctx, spec, lab.Options{Agent: options.Agent, Forward: listener})
	listener.Close() // of which the forwarder has a copy
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

// spec is the specification of the lab.
func (o Options) spec() (*lab.Spec, error) {
	if o.Fleet {
		return lab.FleetExample()
	}
	return lab.ParseSpec(specText)
}

// listen listens on the first free loopback port from a number.
func listen(from int) (*net.TCPListener, error) {
	var failed error
	for port := from; port < from+100; port++ {
		listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err == nil {
			return listener, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, fmt.Errorf("find free port from %d: %w", from, failed)
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
	faults := d.killHalfWay(ctx)
	measured, truth, err := d.carried(ctx)
	watch.end() // by now it has shown the last seconds, too
	err = errors.Join(err, faults())
	if err != nil {
		return err
	}
	if err := d.sections(ctx); err != nil {
		return err
	}
	return compare(d.out, measured, truth)
}

// carried runs the traffic and returns what was measured.
func (d *demo) carried(ctx context.Context) (measurement, emulator.Tally, error) {
	if err := d.traffic(ctx); err != nil {
		return measurement{}, emulator.Tally{}, err
	}
	return d.measured(ctx)
}

// sections prints the flows and paths that the server has archived.
func (d *demo) sections(ctx context.Context) error {
	for _, section := range []struct {
		title string
		args  []string
	}{
		{"Results per flow", []string{"flows", "--session", sessionName, "--by", "host-port", "--limit", "4"}},
		{"Traced paths", []string{"topology"}},
	} {
		text, err := d.pillion(ctx, section.args...)
		if err != nil {
			return err
		}
		fmt.Fprintf(d.out, "\n%s (pillion %s)\n\n%s", section.title, section.args[0], text)
	}
	return nil
}

// truth is the ground truth of the link for marked packets from a.
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
	return emulator.Tally{}, 0, errors.New("read truth: no direction from host a")
}

// until polls a condition, with a timeout.
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
