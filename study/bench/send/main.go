// Command send is the workload of the experiments on exact sending (study/bench/send*.yaml,
// study/bench/paper/s5): each run sends one schedule in one way beside one load over a veth pair, and prints as one JSON
// object how exactly its packets left, as an observer that shares nothing with the sender sees them reach the
// driver. Its subcommands:
//
//	train   trains of packets at a distance
//	pair    pairs of packets as close as possible
//	flush   one long train as close as possible
//	rate    packets at a constant rate
//	clock   readings of the clock, and sleeps
//	model   traffic of a model
//	speed   a train at maximum speed over a line that is slower than the sender
//	peer    another program that sends at a rate, or this one in the same way
//
// It needs root. There are no wires: the driver takes the last time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"pillion.dev/internal/netns"
	"pillion.dev/send/dispatch"
	"pillion.dev/study/bench/result"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "load" { // a child of this program
		fmt.Fprintln(os.Stderr, "send:", imposeLoad(os.Args[2:]))
		os.Exit(1)
	}
	result.Main("send", commands)
}

var commands = map[string]result.Command{
	"train": result.Root(shapeCommand(train)), "pair": result.Root(shapeCommand(pair)),
	"flush": result.Root(shapeCommand(flush)), "rate": result.Root(shapeCommand(rate)),
	"clock": result.Root(clockCommand), "model": result.Root(modelCommand), "speed": result.Root(speedCommand), "peer": result.Root(peerCommand),
}

// arms are the ways to send: pre-dispatch of the whole train before its first packet is due, pre-dispatch of each
// packet some time before it is, and prepare, sleep, write to a packet socket, at ordinary priority.
var arms = []string{"initial", "on-the-fly", "socket"}

// way is an arm with its period.
type way struct {
	arm  string
	lead time.Duration
}

func (w *way) flags(f *flag.FlagSet) {
	f.StringVar(&w.arm, "arm", "initial", strings.Join(arms, ", "))
	f.DurationVar(&w.lead, "lead", 500*time.Microsecond, "pre-dispatch period of on-the-fly")
}

func (w *way) options(b *bed) (dispatch.Options, error) {
	o := dispatch.Options{Mechanism: "bpf", NoDriver: true, Device: nearDevice, Namespace: b.namespace}
	switch w.arm {
	case "initial":
	case "on-the-fly":
		o.Lead = max(w.lead, 1) // 0 would be initial
	case "socket":
		o.Mechanism = "packet-sleep"
	default:
		return o, fmt.Errorf("invalid -arm %q: want %s", w.arm, strings.Join(arms, ", "))
	}
	return o, nil
}

// beside runs a measurement on a bed beside a load.
func beside(ctx context.Context, load string, measure func(b *bed) (result.Result, error)) (r result.Result, err error) {
	if !slices.Contains(loads, load) {
		return nil, fmt.Errorf("invalid -load %q: want %s", load, strings.Join(loads, ", "))
	}
	if err := netns.DeleteStale(namePrefix); err != nil {
		return nil, err
	}
	b, err := newBed(0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	stop, err := b.impose(ctx, load)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	return measure(b)
}

func loadFlag(f *flag.FlagSet) *string {
	return f.String("load", idle, strings.Join(loads, ", "))
}
