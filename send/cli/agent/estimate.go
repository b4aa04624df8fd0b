package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/term"

	"pillion.dev/cli/agent"
	"pillion.dev/cli/command"
	"pillion.dev/probe/hook"
	"pillion.dev/send/estimator"
	"pillion.dev/send/frame"
)

type estimateCmd struct {
	Capacity  capacityCmd  `cmd:"" help:"Estimate the rate of the narrowest link from the dispersion of packet pairs and trains."`
	Available availableCmd `cmd:"" help:"Estimate the bandwidth that cross traffic leaves, from streams or chirps that build up a queue."`
	Hops      hopsCmd      `cmd:"" help:"Estimate the capacity of the link in front of each router, from round-trip times of packets of several sizes."`
}

// sendFlags select the path.
type sendFlags struct {
	agent.ReportFlags
	Dev       string        `required:"" placeholder:"DEV" help:"Network interface to send on."`
	To        string        `required:"" placeholder:"ADDRESS[:PORT]" help:"Destination; IPv6 with a port in brackets: [2001:db8::1]:9. The default port is 9 (discard)."`
	From      string        `placeholder:"ADDRESS[:PORT]" help:"Source; default: the interface's address, port 50000."`
	Netns     string        `placeholder:"NAME" help:"Network namespace of the interface: a name, a path, the ID of a process in it, or a host of a lab; default: the current one."`
	Lab       string        `placeholder:"NAME" help:"Lab of the hosts given by --netns and --receive-netns, if several are running."`
	Mechanism string        `placeholder:"NAME" help:"Force a mechanism of send: ${mechanisms}; default: the best that works."`
	Wait      time.Duration `default:"500ms" placeholder:"TIME" help:"How long to wait for packets after the last one that arrived (${default})."`
	JSON      bool          `name:"json" help:"Print JSON: a summary, and for rates one object per train."`
}

// pathFlags select in addition where packets are received.
type pathFlags struct {
	sendFlags
	Proto string `enum:"udp,tcp,icmp," default:"" placeholder:"PROTOCOL" help:"Protocol: udp, tcp (SYN segments) or icmp (echo requests); default: udp, or icmp with --replies."`
	Layer string `default:"frame" enum:"ip,frame,wire" help:"What rates count: ip (IP packets), frame (Ethernet frames without frame check sequence) or wire (with the 24 bytes of preamble, check sequence and gap); default ${default}."`

	ReceiveDev   string `placeholder:"DEV" help:"Receive on an interface of this host."`
	ReceiveNetns string `placeholder:"NAME" help:"Network namespace of --receive-dev; default: the current one."`
	Receiver     string `placeholder:"ADDRESS[:PORT]" help:"Receive by pillion-agent receive on another host; the default port is 8478."`
	TokenFile    string `placeholder:"FILE" help:"File with the token that --receiver requires."`
	Replies      bool   `help:"Use the replies of a far end that does not cooperate: the round trip is measured."`
}

type capacityCmd struct {
	pathFlags
	Pairs  int           `default:"200" placeholder:"N" help:"Packet pairs (${default})."`
	Trains int           `default:"20" placeholder:"N" help:"Number of trains, used to distinguish the capacity from modes caused by cross traffic (${default})."`
	Count  int           `default:"50" placeholder:"N" help:"Packets per train (${default})."`
	Size   int           `default:"1514" placeholder:"BYTES" help:"Length of the frames without frame check sequence (${default})."`
	Every  time.Duration `default:"10ms" placeholder:"TIME" help:"Minimum mean interval between pairs (${default})."`
	Seed   uint64        `default:"1" help:"Seed of the random times between pairs and trains (${default})."`
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

type availableCmd struct {
	pathFlags
	Method     string        `default:"slops" enum:"slops,chirp" help:"slops (streams at rates that narrow down the range; slower) or chirp (trains whose rate grows); default ${default}."`
	MaxRate    string        `placeholder:"BITS" help:"Highest rate to send in bit/s, such as 100M; default: slightly above the rate at which trains arrive."`
	Streams    int           `default:"10" placeholder:"N" help:"Streams of each rate (${default})."`
	Packets    int           `placeholder:"N" help:"Packets of a stream or chirp; default: 100, of a chirp 40."`
	Chirps     int           `default:"60" placeholder:"N" help:"Chirps (${default})."`
	Resolution float64       `default:"0.05" placeholder:"SHARE" help:"Width of the range at which the search ends, as a share of the highest rate (${default})."`
	Every      time.Duration `default:"20ms" placeholder:"TIME" help:"Minimum mean interval between streams or chirps (${default})."`
	Seed       uint64        `default:"1" help:"Seed of the random times between streams (${default})."`
}

// Run estimates the available bandwidth.
func (c *availableCmd) Run(ctx context.Context) (err error) {
	plan := estimator.AvailablePlan{
		Method: c.Method, Streams: c.Streams, Packets: c.Packets, Chirps: c.Chirps, Resolution: c.Resolution, Every: c.Every, Seed: c.Seed,
	}
	if plan.Packets == 0 {
		plan.Packets = map[string]int{estimator.SLoPS: 100, estimator.Chirp: 40}[c.Method]
	}
	if c.MaxRate != "" {
		if plan.Most, err = bits("--max-rate", c.MaxRate); err != nil {
			return err
		}
	}
	switch {
	case c.Streams < 1 || c.Streams > 1000 || c.Chirps < 1 || c.Chirps > 100_000 || c.Every <= 0:
		return fmt.Errorf("read arguments: %w: --streams must be 1 to 1000, --chirps 1 to 100000, --every positive", command.ErrValue)
	case plan.Packets < 10 || plan.Packets > 10_000/c.Streams*10:
		return fmt.Errorf("read --packets: %w: must be 10 to %d with %d streams", command.ErrValue, 10_000/c.Streams*10, c.Streams)
	case !(c.Resolution >= 0.01 && c.Resolution <= 0.5):
		return fmt.Errorf("read --resolution: %w: must be 0.01 to 0.5", command.ErrValue)
	}
	return c.run(ctx, func(options estimator.Options) error { return estimator.RunAvailable(ctx, options, plan, os.Stdout) })
}

type hopsCmd struct {
	sendFlags
	First   uint8         `default:"1" placeholder:"N" help:"First hop (${default})."`
	Last    uint8         `default:"30" placeholder:"N" help:"Last hop, unless the destination replies before (${default})."`
	Sizes   int           `default:"10" placeholder:"N" help:"Different sizes of packets (${default})."`
	Repeats int           `default:"20" placeholder:"N" help:"Packets of each size (${default})."`
	Every   time.Duration `default:"20ms" placeholder:"TIME" help:"Mean time between packets; routers limit the rate of their replies (${default})."`
	Seed    uint64        `default:"1" help:"Seed of the order of sizes and of the times between packets (${default})."`
}

// Run estimates the links of the path.
func (c *hopsCmd) Run(ctx context.Context) error {
	options, err := c.options(frame.UDP)
	if err != nil {
		return err
	}
	if c.First < 1 || c.Last < c.First || c.Sizes < 3 || c.Sizes > 100 || c.Repeats < 1 || c.Repeats > 500 || c.Every <= 0 {
		return fmt.Errorf("read arguments: %w: --first must be 1 to --last, --sizes 3 to 100, --repeats 1 to 500, --every positive", command.ErrValue)
	}
	plan := estimator.HopsPlan{First: c.First, Last: c.Last, Sizes: c.Sizes, Repeats: c.Repeats, Every: c.Every, Seed: c.Seed}
	return c.run(ctx, options, func(options estimator.Options) error { return estimator.RunHops(ctx, options, plan, os.Stdout) })
}

// run opens what the flags name, runs the estimate, and delivers its rows.
func (f *pathFlags) run(ctx context.Context, estimate func(estimator.Options) error) error {
	protocol := f.Proto
	if protocol == "" {
		if protocol = frame.UDP; f.Replies {
			protocol = frame.ICMP
		}
	}
	options, err := f.options(protocol)
	if err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	far := &options.Path.Far
	options.Path.Layer, far.Device, far.Replies = estimator.Layer(f.Layer), f.ReceiveDev, f.Replies
	if f.Receiver != "" {
		if far.Receiver, err = receiverAddress("receiver", f.Receiver); err != nil {
			return err
		}
		if far.Token, err = readToken(f.TokenFile); err != nil {
			return err
		}
	}
	if err := hook.NeedRoot(); err != nil {
		return err
	}
	if f.ReceiveNetns != "" {
		if far.Namespace, err = agent.OpenNetns(f.ReceiveNetns, f.Lab); err != nil {
			return err
		}
		defer far.Namespace.Close()
	}
	return f.sendFlags.run(ctx, options, estimate)
}

// options are the options of the path, without the receiver's.
func (f *sendFlags) options(protocol string) (options estimator.Options, err error) {
	if f.Wait <= 0 {
		return options, fmt.Errorf("read --wait: %w: must be positive", command.ErrValue)
	}
	options = estimator.Options{JSON: f.JSON, Path: estimator.Path{Device: f.Dev, Layer: estimator.Frames, Mechanism: f.Mechanism, Wait: f.Wait}}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		options.Progress = os.Stderr
	}
	options.Path.Header, err = f.header(protocol)
	return options, err
}

// run opens the namespace and the collector.
func (f *sendFlags) run(ctx context.Context, options estimator.Options, estimate func(estimator.Options) error) (failed error) {
	if err := hook.NeedRoot(); err != nil {
		return err
	}
	var err error
	if f.Netns != "" {
		if options.Path.Namespace, err = agent.OpenNetns(f.Netns, f.Lab); err != nil {
			return err
		}
		defer options.Path.Namespace.Close()
	}
	if f.OML != "" {
		if options.Report, err = f.Open(f.OML, "send", estimator.Points); err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, agent.Finish(options.Report)) }()
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
	}
	return nil
}

// header returns the headers of the packets, without the addresses of the link.
func (f *sendFlags) header(protocol string) (*frame.Header, error) {
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
