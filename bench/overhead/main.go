// Overhead measures what Pillion costs: the same traffic over a veth pair, alternately
// without any program and with a source and a destination attached. It uses only the
// agent's command line, and needs root.
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
	if os.Geteuid() != 0 {
		return usageError("make network namespaces: not root; run it with sudo")
	}
	if _, err := exec.LookPath(s.Agent); err != nil && s.Treatment == "agents" {
		return usageError(fmt.Sprintf("find agent %s: %v; run 'make build'", s.Agent, err))
	}
	begin := time.Now()
	r := report{Experiment: "overhead", Date: begin, Commit: commit(), Machine: describeMachine(), Settings: s}
	t, err := buildTestbed()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()

	x := experiment{s, t, slog.New(slog.NewTextHandler(os.Stderr, nil))}
	outcomes, err := x.run(ctx)
	if err != nil {
		return err
	}
	for _, o := range outcomes {
		r.Cells = append(r.Cells, summarise(o))
	}
	if r.Costs, err = x.measureCosts(ctx); err != nil {
		return err
	}
	r.Seconds = round3(time.Since(begin).Seconds())
	r.Machine.LoadEnd = load()
	fmt.Print(r.markdown())
	return r.write(folder)
}

func parseFlags(arguments []string) (s settings, folder string, err error) {
	flags := flag.NewFlagSet("overhead", flag.ContinueOnError)
	flags.StringVar(&s.Agent, "agent", "bin/pillion-agent", "the agent to measure")
	flags.StringVar(&s.Treatment, "treatment", "agents", "what the treated arm is: agents, empty (programs that do nothing) or none")
	flags.StringVar(&s.Source, "source", "", "further arguments of pillion-agent source, as '--encoding native,udp'")
	flags.BoolVar(&s.Quick, "quick", false, "a few cells, short runs, 3 pairs")
	flags.IntVar(&s.Pairs, "pairs", 5, "pairs of runs a cell")
	flags.Float64Var(&s.TCPSeconds, "tcp-seconds", 3, "length of a TCP run, whole seconds")
	flags.Float64Var(&s.UDPSeconds, "udp-seconds", 1, "length of a UDP run")
	flags.IntVar(&s.Core, "core", 0, "core of the sender")
	flags.BoolVar(&s.TwoCores, "two-cores", false, "TCP's receiver on a core of its own")
	flags.StringVar(&s.Only, "only", "", "only cells whose name has this in it, e.g. udp6-56")
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
		for name, value := range map[string]string{"pairs": "3", "tcp-seconds": "1", "udp-seconds": "0.5"} {
			if !given[name] {
				_ = flags.Set(name, value) // cannot fail: the values are constants
			}
		}
	}
	switch {
	case flags.NArg() > 0:
		err = usageError(fmt.Sprintf("read arguments: unexpected %q; see --help", flags.Arg(0)))
	case s.Pairs < 1 || s.TCPSeconds < 1 || s.UDPSeconds <= 0:
		err = usageError("read arguments: --pairs and --tcp-seconds must be at least 1, --udp-seconds more than 0")
	case len(s.cells()) == 0:
		err = usageError(fmt.Sprintf("read arguments: no cell has %q in its name; try udp6-56", s.Only))
	case s.Treatment != "agents" && s.Treatment != "empty" && s.Treatment != "none":
		err = usageError(fmt.Sprintf("read arguments: unknown treatment %q; use agents, empty or none", s.Treatment))
	}
	return s, folder, err
}

// commit returns the git description of the measured checkout.
func commit() string {
	name, err := run("git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(name)
}

// run returns the output of a short command.
func run(name string, arguments ...string) (string, error) {
	output, err := exec.Command(name, arguments...).Output()
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w", name, strings.Join(arguments, " "), err)
	}
	return string(output), nil
}
