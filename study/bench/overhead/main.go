// Overhead is the load of the experiments on what Pillion costs: one call is one run. It
// makes two namespaces with a veth pair between them, applies a treatment there (nothing,
// programs that do nothing, Pillion at both ends, or another tool), sends traffic, removes
// everything and prints one JSON object. What is compared, how often and in which order is
// in the experiment files, study/bench/*.yaml and study/bench/paper. It needs root.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := measure(ctx, os.Args[1:], os.Stdout)
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

// settings are the options of a run.
type settings struct {
	agent   string
	epping  string
	arm     arm
	above   arm
	traffic traffic
	length  time.Duration
	rate    float64 // Mbit/s of a link
	core    int
	mtu     int
	method  string
}

// measures are what a run can measure.
var measures = map[string]func(context.Context, *bench) (any, error){
	"cpu":       measureCPU,
	"rate":      measureRate,
	"programs":  measurePrograms,
	"functions": measureFunctions,
	"profile":   measureProfile,
	"bytes":     measureBytes,
}

func measure(ctx context.Context, arguments []string, output io.Writer) (err error) {
	s, what, err := parseFlags(arguments)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return usageError("make network namespaces: not root; run it with sudo")
	}
	if err := s.arm.check(s); err != nil {
		return err
	}
	b, err := newBench(s)
	if err != nil {
		return err
	}
	result, err := measures[what](ctx, b)
	if err := errors.Join(err, b.Close()); err != nil {
		return err
	}
	return json.NewEncoder(output).Encode(result)
}

// quickLength is enough to see that everything works.
const quickLength = 60 * time.Millisecond

func parseFlags(arguments []string) (s settings, what string, err error) {
	flags := flag.NewFlagSet("overhead", flag.ContinueOnError)
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range measures {
			if !yield(name) {
				return
			}
		}
	})
	flags.StringVar(&what, "measure", "cpu", "what to measure: "+strings.Join(names, ", "))
	flags.StringVar(&s.agent, "agent", "bin/pillion-agent", "the agent to measure")
	flags.StringVar(&s.epping, "epping", "epping", "the ePPing program")
	armName := flags.String("arm", armNone, "treatment: "+strings.Join(armNames(), ", "))
	source := flags.String("source", "", "with agents: further arguments of pillion-agent source, such as '--encoding native'")
	every := flags.Int("every", 1, "with agents: mark one packet in this many")
	keyed := flags.Bool("authenticated", false, "with agents: authenticate marks")
	above := flags.Bool("above-open", false, "programs: with --authenticated, time above the same marks without tags")
	name := flags.String("traffic", "udp6-56", "udpV-BYTES, tcpV, tcpV-segmented or tcpV-requests[-BYTES], where V is 4 or 6 and BYTES the payload")
	flags.DurationVar(&s.length, "length", 250*time.Millisecond, "of the measured traffic")
	flags.Float64Var(&s.rate, "rate", 0, "of UDP in Mbit/s on an Ethernet link, with all headers and gaps; 0: as fast as one thread can")
	flags.IntVar(&s.core, "core", 0, "processor of the sender")
	flags.IntVar(&s.mtu, "mtu", 1500, "of the pair")
	flags.StringVar(&s.method, "method", "in-line", "bytes: in-line, active or passive")
	flags.SetOutput(io.Discard)
	if err := flags.Parse(arguments); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			flags.SetOutput(os.Stdout)
			flags.Usage()
			return s, what, err
		}
		return s, what, usageError(fmt.Sprintf("read arguments: %v; see --help", err))
	}
	if os.Getenv("QUICK") != "" { // of pillion experiment run --quick
		s.length = min(s.length, quickLength)
	}
	s.traffic, err = parseTraffic(*name)
	if err != nil {
		return s, what, usageError(fmt.Sprintf("read arguments: %v", err))
	}
	s.arm = arm{name: *armName, every: *every, keyed: *keyed, source: strings.Fields(*source)}
	s.above = arm{name: armEmpty}
	if *above {
		s.above = s.arm
		s.above.keyed = false
	}
	return s, what, s.checkFlags(what, flags.Args(), *above)
}

func (s settings) checkFlags(what string, rest []string, aboveOpen bool) error {
	var wrong string
	switch {
	case len(rest) > 0:
		wrong = fmt.Sprintf("unexpected %q; see --help", rest[0])
	case measures[what] == nil:
		wrong = fmt.Sprintf("--measure %q is unknown; see --help", what)
	case !slices.Contains(armNames(), s.arm.name):
		wrong = fmt.Sprintf("--arm %q is unknown; there are %s", s.arm.name, strings.Join(armNames(), ", "))
	case s.arm.name != armAgents && (s.arm.keyed || s.arm.every != 1 || len(s.arm.source) > 0):
		wrong = fmt.Sprintf("--source, --every and --authenticated need --arm %s", armAgents)
	case aboveOpen && !s.arm.keyed:
		wrong = "--above-open needs --authenticated"
	case s.arm.every < 1:
		wrong = fmt.Sprintf("--every %d is below 1", s.arm.every)
	case s.length <= 0:
		wrong = fmt.Sprintf("--length %v is not more than 0", s.length)
	case s.rate < 0:
		wrong = fmt.Sprintf("--rate %g Mbit/s is negative", s.rate)
	case s.rate > 0 && !s.traffic.isUDP():
		wrong = "--rate needs UDP"
	case what == "rate" && s.rate == 0:
		wrong = "--measure rate needs --rate"
	case what != "cpu" && !s.traffic.isUDP():
		wrong = fmt.Sprintf("--measure %s needs UDP", what)
	case what == "functions" && (s.arm.name != armAgents || !s.traffic.v6):
		wrong = fmt.Sprintf("--measure functions needs --arm %s and IPv6", armAgents)
	case what == "bytes" && !slices.Contains(methods, s.method):
		wrong = fmt.Sprintf("--method %q is unknown; there are %s", s.method, strings.Join(methods, ", "))
	default:
		return nil
	}
	return usageError("read arguments: " + wrong)
}

// run returns the output of a short command.
func run(name string, arguments ...string) (string, error) {
	output, err := exec.Command(name, arguments...).Output()
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w", name, strings.Join(arguments, " "), err)
	}
	return string(output), nil
}
