// Overhead measures what Pillion costs: the same traffic over a veth pair, without any
// program, with Pillion at both ends, and with other tools there. These arms run in random
// order, block by block, and the project's targets are compared with the ratios within the
// blocks. It uses only the agent's command line, and needs root.
//
// Its results (bench/results) are figures of one machine; ratios are more portable than
// absolute values, and neither applies to links that are slower than a core.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"pillion.dev/bench/machine"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := measure(ctx, os.Args[1:])
	cancel()
	var wrong usageError
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.As(err, &wrong):
		fmt.Fprintf(os.Stderr, "overhead: %v\n", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintf(os.Stderr, "overhead: %v\n", err)
		os.Exit(1)
	}
}

// usageError is an error that the user can correct; it has a hint.
type usageError string

func (e usageError) Error() string { return string(e) }

func measure(ctx context.Context, arguments []string) (err error) {
	s, folder, err := parseFlags(arguments)
	if err != nil {
		return err
	}
	blocks, costs, missing, err := selectArms(s)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return usageError("make network namespaces: not root; run it with sudo")
	}
	if _, err := exec.LookPath(s.Agent); err != nil {
		return usageError(fmt.Sprintf("find agent %s: %v; run 'make build'", s.Agent, err))
	}
	for _, why := range missing {
		fmt.Fprintf(os.Stderr, "overhead: skip arm %s\n", why)
	}
	x := experiment{settings: s, log: slog.New(slog.NewTextHandler(os.Stderr, nil)), now: time.Now}
	x.design(s.cells(), blocks, costs)
	r := report{Experiment: "overhead", Date: x.now(), Commit: machine.Commit(), Machine: machine.Describe(), Settings: s,
		Missing: missing}
	b, err := newBench(ctx, s, s.cells())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()

	x.runner = b
	if err := x.measure(ctx); err != nil {
		return err
	}
	for _, o := range x.outcomes {
		if len(o.blocks) > 0 {
			r.add(o)
		}
	}
	r.Maps = b.maps
	r.Seconds = round3(time.Since(r.Date).Seconds())
	r.Machine.LoadEnd = machine.Load()
	fmt.Print(r.markdown())
	return r.write(folder)
}

func parseFlags(arguments []string) (s settings, folder string, err error) {
	flags := flag.NewFlagSet("overhead", flag.ContinueOnError)
	flags.StringVar(&s.Agent, "agent", "bin/pillion-agent", "the agent to measure")
	flags.StringVar(&s.Source, "source", "", "further arguments of each pillion-agent source, as '--encoding native,udp'")
	flags.StringVar(&s.EPPing, "peer-epping", "", "path of the ePPing program; without it that arm is left out")
	flags.StringVar(&s.Arms, "arms", "", "arms to compare with '"+armNone+"', separated by commas, or all; known arms: "+armNames(arms()))
	flags.StringVar(&s.Only, "only", "", "only cells whose name has one of these in it, e.g. udp6-56,tcp4")
	flags.BoolVar(&s.Quick, "quick", false, "a few cells, short runs, 6 blocks, the minimum for a 95 % interval")
	flags.IntVar(&s.Blocks, "blocks", 9, "blocks a cell")
	flags.DurationVar(&s.Budget, "budget", 0, "stop before a block that would exceed this time, e.g. 5m")
	flags.Uint64Var(&s.Seed, "seed", 0, "seed of the order of cells and arms; 0 takes one from the clock")
	flags.Float64Var(&s.TCPSeconds, "tcp-seconds", 2, "length of a run of a TCP stream, whole seconds")
	flags.Float64Var(&s.UDPSeconds, "udp-seconds", 0.5, "length of any other run")
	flags.IntVar(&s.Core, "core", 0, "core of the sender")
	flags.BoolVar(&s.TwoCores, "two-cores", false, "TCP's receiver on a core of its own")
	flags.StringVar(&folder, "out", "bench/results", "folder of the results")
	flags.SetOutput(io.Discard)
	if err := flags.Parse(arguments); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			flags.SetOutput(os.Stdout)
			flags.Usage()
			return s, folder, err
		}
		return s, folder, usageError(fmt.Sprintf("read arguments: %v; see --help", err))
	}
	if s.Quick {
		given := map[string]bool{}
		flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
		for name, value := range map[string]string{"blocks": "6", "tcp-seconds": "1", "udp-seconds": "0.2"} {
			if !given[name] {
				_ = flags.Set(name, value) // cannot fail: the values are constants
			}
		}
	}
	if s.Seed == 0 {
		s.Seed = uint64(time.Now().UnixNano())
	}
	switch {
	case flags.NArg() > 0:
		err = usageError(fmt.Sprintf("read arguments: unexpected %q; see --help", flags.Arg(0)))
	case s.Blocks < 1 || s.TCPSeconds < 1 || s.UDPSeconds <= 0:
		err = usageError("read arguments: --blocks and --tcp-seconds must be at least 1, --udp-seconds more than 0")
	case s.Budget < 0:
		err = usageError(fmt.Sprintf("read arguments: --budget %v is negative", s.Budget))
	case len(s.cells()) == 0:
		err = usageError(fmt.Sprintf("read arguments: no cell has %q in its name; try udp6-56", s.Only))
	}
	return s, folder, err
}

// run returns the output of a short command.
func run(name string, arguments ...string) (string, error) {
	output, err := exec.Command(name, arguments...).Output()
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w", name, strings.Join(arguments, " "), err)
	}
	return string(output), nil
}
