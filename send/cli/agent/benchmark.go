package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"pillion.dev/cli/agent"
	"pillion.dev/cli/command"
	"pillion.dev/probe/hook"
	"pillion.dev/send/frame"
	"pillion.dev/send/tester"
)

type benchmarkCmd struct {
	Throughput throughputCmd `cmd:"" help:"Find the highest rate without loss (RFC 2544, 26.1)."`
	Latency    latencyCmd    `cmd:"" help:"Measure latency and its variation at a rate, or at the throughput (RFC 2544, 26.2; RFC 8219, 7.2 and 7.3)."`
	BackToBack backToBackCmd `cmd:"" name:"back-to-back" help:"Find the longest burst without loss (RFC 2544, 26.4)."`
	FrameLoss  frameLossCmd  `cmd:"" name:"frame-loss" help:"Measure the loss at rates that fall from the highest (RFC 2544, 26.3)."`
}

// testerFlags are the flags of all benchmarks.
type testerFlags struct {
	Dev          string        `required:"" placeholder:"DEV" help:"Network interface to send on."`
	To           string        `required:"" placeholder:"ADDRESS[:PORT]" help:"Destination of the frames, behind the device under test. The default port is 9 (discard)."`
	Netns        string        `placeholder:"NAME" help:"Network namespace of --dev: a name, a path, the ID of a process in it, or a host of a lab; default: the current one."`
	ReceiveDev   string        `name:"receive-dev" required:"" placeholder:"DEV" help:"Network interface of this host on which the frames arrive."`
	ReceiveNetns string        `name:"receive-netns" placeholder:"NAME" help:"Network namespace of --receive-dev; default: that of --dev."`
	Lab          string        `placeholder:"NAME" help:"Lab of the hosts given by --netns and --receive-netns, if several are running."`
	From         string        `placeholder:"ADDRESS[:PORT]" help:"Source; default: the interface's address, port 50000."`
	Proto        string        `default:"udp" enum:"udp,raw" help:"Protocol: udp, or raw (IP protocol 253), whose test frames are 8 bytes shorter."`
	Sizes        []int         `placeholder:"BYTES,..." help:"Lengths of the frames without their frame check sequence; default: those of RFC 2544, 60 to 1514."`
	Duration     time.Duration `default:"2s" placeholder:"TIME" help:"Duration of a trial (${default}); RFC 2544 recommends 60s, for latency 120s."`
	Repeat       int           `default:"1" placeholder:"N" help:"How many times each result is measured (${default}); median and percentiles are reported."`
	Shortfall    share         `default:"1%" placeholder:"SHARE" help:"Share of frames that the sender may leave out of a valid trial (${default})."`
	Late         time.Duration `default:"100us" placeholder:"TIME" help:"Leave out frames that would leave later than this, so that no burst follows an interruption of the sender (${default})."`
	Wait         time.Duration `default:"500ms" placeholder:"TIME" help:"Count missing frames as lost when none has arrived for this long (${default})."`
	Mechanism    string        `placeholder:"NAME" help:"Force a mechanism of sending: ${mechanisms}; default: the best that works."`
	JSON         bool          `name:"json" help:"Print JSON: one object per trial and per result, and a summary."`
}

// share is a fraction, written as 0.1% or 0.001.
type share float64

// UnmarshalText reads the share.
func (s *share) UnmarshalText(text []byte) error {
	number, percent := strings.CutSuffix(string(text), "%")
	value, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return fmt.Errorf("%q is not a share such as 0.1%% or 0.001", text)
	}
	if percent {
		value /= 100
	}
	*s = share(value)
	return nil
}

type acceptFlags struct {
	Loss       share `default:"0" placeholder:"SHARE" help:"Share of frames that a trial may lose and pass, such as 0.1% (${default}: none, as in RFC 2544)."`
	Resolution share `default:"0.5%" placeholder:"SHARE" help:"Resolution of the result (${default})."`
}

type throughputCmd struct {
	testerFlags
	acceptFlags
	MaxRate string `required:"" placeholder:"BITS" help:"Highest rate to try: bit/s of the frames without their frame check sequence, such as 1G."`
}

type latencyCmd struct {
	testerFlags
	acceptFlags
	Rate    string `placeholder:"BITS" help:"Rate of the frames in bit/s; default: the throughput, which is searched for first."`
	MaxRate string `placeholder:"BITS" help:"Highest rate to try in the search."`
}

type backToBackCmd struct {
	testerFlags
	acceptFlags
	MaxRate   string `placeholder:"BITS" help:"Rate within a burst; default: frames as close to each other as possible."`
	MaxFrames int    `default:"100000" placeholder:"N" help:"Longest burst to try (${default})."`
}

type frameLossCmd struct {
	testerFlags
	MaxRate string `required:"" placeholder:"BITS" help:"Highest rate: bit/s of the frames without their frame check sequence."`
	Step    share  `default:"10%" placeholder:"SHARE" help:"Share of --max-rate by which the rate falls (${default}), until two trials in a row have no loss."`
}

// Run finds the throughput.
func (c *throughputCmd) Run(ctx context.Context) error {
	return c.run(ctx, tester.Options{Loss: float64(c.Loss), Resolution: float64(c.Resolution)}, c.MaxRate, "", (*tester.Tester).Throughput)
}

// Run measures the latency.
func (c *latencyCmd) Run(ctx context.Context) error {
	if (c.Rate == "") == (c.MaxRate == "") {
		return fmt.Errorf("read arguments: %w: give --rate, or --max-rate to measure at the throughput", command.ErrValue)
	}
	return c.run(ctx, tester.Options{Loss: float64(c.Loss), Resolution: float64(c.Resolution)}, c.MaxRate, c.Rate, (*tester.Tester).Latency)
}

// Run finds the longest burst.
func (c *backToBackCmd) Run(ctx context.Context) error {
	options := tester.Options{Loss: float64(c.Loss), Resolution: float64(c.Resolution), MaxFrames: c.MaxFrames}
	return c.run(ctx, options, c.MaxRate, "", (*tester.Tester).BackToBack)
}

// Run measures the loss.
func (c *frameLossCmd) Run(ctx context.Context) error {
	return c.run(ctx, tester.Options{Step: float64(c.Step)}, c.MaxRate, "", (*tester.Tester).FrameLoss)
}

// run completes the options and runs a benchmark.
func (c *testerFlags) run(ctx context.Context, options tester.Options, maxRate, rate string, benchmark func(*tester.Tester, context.Context) error) (err error) {
	for _, r := range []struct {
		option, text string
		to           *float64
	}{{"--max-rate", maxRate, &options.MaxRate}, {"--rate", rate, &options.Rate}} {
		if r.text != "" {
			if *r.to, err = bits(r.option, r.text); err != nil {
				return err
			}
		}
	}
	options.Device, options.Receive, options.Sizes, options.Duration, options.Repeat = c.Dev, c.ReceiveDev, c.Sizes, c.Duration, c.Repeat
	options.Shortfall, options.Late, options.Wait, options.Mechanism, options.JSON = float64(c.Shortfall), c.Late, c.Wait, c.Mechanism, c.JSON
	h := &frame.Header{Number: experimentProtocol}
	for name, value := range map[string]string{"to": c.To, "proto": c.Proto, "from": c.From} {
		if value != "" {
			if err := h.Set(name, value); err != nil {
				return fmt.Errorf("read --%s: %w", name, err)
			}
		}
	}
	options.Header = h
	if err := hook.NeedRoot(); err != nil {
		return err
	}
	for _, n := range []struct {
		name string
		to   **os.File
	}{{c.Netns, &options.Namespace}, {c.ReceiveNetns, &options.ReceiveNamespace}} {
		if n.name != "" {
			if *n.to, err = agent.OpenNetns(n.name, c.Lab); err != nil {
				return err
			}
			defer (*n.to).Close()
		}
	}
	if c.ReceiveNetns == "" {
		options.ReceiveNamespace = options.Namespace
	}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		options.Progress = os.Stderr
	}
	t, err := tester.New(ctx, options, os.Stdout)
	if err == nil {
		err = errors.Join(benchmark(t, ctx), t.Close())
	}
	if errors.Is(err, context.Canceled) {
		return nil // interrupted: what was measured is printed
	}
	return err
}

// experimentProtocol is an IP protocol number for experiments (RFC 3692).
const experimentProtocol = 253
