package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/term"

	"pillion.dev/agent/estimator"
	"pillion.dev/cli/command"
	"pillion.dev/probe/hook"
	"pillion.dev/send/frame"
)

type estimateCmd struct {
	Capacity capacityCmd `cmd:"" help:"Estimate the rate of the narrowest link from the dispersion of packet pairs and trains."`
}

// pathFlags select the path, and where its packets are received.
type pathFlags struct {
	reportFlags
	Dev       string        `required:"" placeholder:"DEV" help:"Network interface to send on."`
	To        string        `required:"" placeholder:"ADDRESS[:PORT]" help:"Destination; IPv6 with a port in brackets: [2001:db8::1]:9. The default port is 9 (discard)."`
	From      string        `placeholder:"ADDRESS[:PORT]" help:"Source; default: the interface's address, port 50000."`
	Netns     string        `placeholder:"NAME" help:"Network namespace of the interface: a name, a path, the ID of a process in it, or a host of a lab; default: the current one."`
	Lab       string        `placeholder:"NAME" help:"Lab of the hosts given by --netns and --receive-netns, if several are running."`
	Proto     string        `enum:"udp,tcp,icmp," default:"" placeholder:"PROTOCOL" help:"Protocol: udp, tcp (SYN segments) or icmp (echo requests); default: udp, or icmp with --replies."`
	Layer     string        `default:"frame" enum:"ip,frame,wire" help:"What rates count: ip (IP packets), frame (Ethernet frames without frame check sequence) or wire (with the 24 bytes of preamble, check sequence and gap); default ${default}."`
	Mechanism string        `placeholder:"NAME" help:"Force a mechanism of send: ${mechanisms}; default: the best that works."`
	Wait      time.Duration `default:"500ms" placeholder:"TIME" help:"How long to wait for packets after the last one that arrived (${default})."`

	ReceiveDev   string `placeholder:"DEV" help:"Receive on an interface of this host."`
	ReceiveNetns string `placeholder:"NAME" help:"Network namespace of --receive-dev; default: the current one."`
	Receiver     string `placeholder:"ADDRESS[:PORT]" help:"Receive by pillion-agent receive on another host; the default port is 8478."`
	TokenFile    string `placeholder:"FILE" help:"File with the token that --receiver requires."`
	Replies      bool   `help:"Use the replies of a far end that does not cooperate: the round trip is measured."`
	JSON         bool   `name:"json" help:"Print JSON: one object per train, and a summary."`
}

type capacityCmd struct {
	pathFlags
	Pairs  int           `default:"200" placeholder:"N" help:"Packet pairs (${default})."`
	Trains int           `default:"20" placeholder:"N" help:"Trains, which tell the capacity from rates that cross traffic causes (${default})."`
	Count  int           `default:"50" placeholder:"N" help:"Packets per train (${default})."`
	Size   int           `default:"1514" placeholder:"BYTES" help:"Length of the frames without frame check sequence (${default})."`
	Every  time.Duration `default:"10ms" placeholder:"TIME" help:"Least mean time between pairs (${default})."`
	Seed   uint64        `default:"1" help:"Seed of the random times between pairs and trains."`
}

// Run estimates the capacity.
func (c *capacityCmd) Run(ctx context.Context) error {
	if c.Pairs < 0 || c.Trains < 0 || c.Pairs+c.Trains == 0 || c.Count < 2 || c.Count > 10_000 || c.Every <= 0 {
		return fmt.Errorf("read arguments: %w: --pairs and --trains must not be negative nor both 0, --count 2 to 10000, --every positive", command.ErrValue)
	}
	if err := checkSize(c.Size); err != nil {
		return err
	}
	plan := estimator.CapacityPlan{Pairs: c.Pairs, Trains: c.Trains, Count: c.Count, Size: c.Size, Every: c.Every, Seed: c.Seed}
	return c.run(ctx, func(options estimator.Options) error { return estimator.RunCapacity(ctx, options, plan, os.Stdout) })
}

// run opens what the flags name, runs the estimate, and delivers its rows.
func (f *pathFlags) run(ctx context.Context, estimate func(estimator.Options) error) (failed error) {
	options := estimator.Options{JSON: f.JSON, Path: estimator.Path{
		Device: f.Dev, Layer: estimator.Layer(f.Layer), Mechanism: f.Mechanism, Wait: f.Wait,
		Far: estimator.Far{Device: f.ReceiveDev, Replies: f.Replies},
	}}
	var err error
	if options.Path.Header, err = f.header(); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	if f.Receiver != "" {
		if options.Path.Far.Receiver, err = receiverAddress("receiver", f.Receiver); err != nil {
			return err
		}
		if options.Path.Far.Token, err = readToken(f.TokenFile); err != nil {
			return err
		}
	}
	if err := hook.NeedRoot(); err != nil {
		return err
	}
	for _, space := range []struct {
		name string
		file **os.File
	}{{f.Netns, &options.Path.Namespace}, {f.ReceiveNetns, &options.Path.Far.Namespace}} {
		if space.name == "" {
			continue
		}
		if *space.file, err = openNetns(space.name, f.Lab); err != nil {
			return err
		}
		defer (*space.file).Close()
	}
	if f.OML != "" {
		if options.Report, err = f.open(f.OML, "send", estimator.Points); err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, finish(options.Report)) }()
	}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		options.Progress = os.Stderr
	}
	err = estimate(options)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errInterrupted, context.Cause(ctx))
	}
	return err
}

// errInterrupted is an estimate that was ended before there was a result.
var errInterrupted = errors.New("interrupted before there was a result")

// check refuses options that contradict each other.
func (f *pathFlags) check() error {
	sources := 0
	for _, given := range []bool{f.ReceiveDev != "", f.Receiver != "", f.Replies} {
		if given {
			sources++
		}
	}
	switch {
	case sources != 1:
		return fmt.Errorf("read arguments: %w: give one of --receiver, --receive-dev and --replies", command.ErrValue)
	case f.ReceiveNetns != "" && f.ReceiveDev == "":
		return fmt.Errorf("read --receive-netns: %w: it needs --receive-dev", command.ErrValue)
	case f.TokenFile != "" && f.Receiver == "":
		return fmt.Errorf("read --token-file: %w: it needs --receiver", command.ErrValue)
	case f.Wait <= 0:
		return fmt.Errorf("read --wait: %w: must be positive", command.ErrValue)
	}
	return nil
}

// header is that of the packets, without the addresses of the link.
func (f *pathFlags) header() (*frame.Header, error) {
	protocol := f.Proto
	if protocol == "" {
		if protocol = frame.UDP; f.Replies {
			protocol = frame.ICMP
		}
	}
	h := &frame.Header{Identifier: uint16(os.Getpid())}
	err := errors.Join(set(h, "to", f.To), set(h, "proto", protocol))
	if f.From != "" {
		err = errors.Join(err, set(h, "from", f.From))
	}
	return h, err
}

func set(h *frame.Header, name, value string) error {
	if err := h.Set(name, value); err != nil {
		return fmt.Errorf("read --%s: %w", name, err)
	}
	return nil
}

// leastFrame has room for the tag behind the headers of IPv6 and TCP.
const leastFrame = 100

func checkSize(size int) error {
	if size < leastFrame || size > frame.MaxBytes {
		return fmt.Errorf("read --size %d: %w: must be %d to %d bytes", size, command.ErrValue, leastFrame, frame.MaxBytes)
	}
	return nil
}
