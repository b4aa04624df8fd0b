package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"pillion.dev/cli/agent"
	"pillion.dev/cli/command"
	"pillion.dev/internal/outfile"
	"pillion.dev/internal/quantity"
	"pillion.dev/measure"
	"pillion.dev/probe/hook"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/model"
	"pillion.dev/send/schedule"
	"pillion.dev/send/sender"
	"pillion.dev/send/stream"
)

type sendCmd struct {
	Pattern string `arg:"" optional:"" help:"train (--count packets, --gap apart), pair, rate (a train at --rate), chirp (a train whose gaps shrink), periodic (RFC 3432) or poisson (RFC 2330); or give --schedule or --model."`

	Dev   string `group:"Path:" placeholder:"DEV" help:"Network interface to send on."`
	To    string `group:"Path:" placeholder:"ADDRESS[:PORT]" help:"Destination; IPv6 with a port in brackets: [2001:db8::1]:9. The default port is 9 (discard)."`
	From  string `group:"Path:" placeholder:"ADDRESS[:PORT]" help:"Source; default: the interface's address, port 50000."`
	Netns string `group:"Path:" placeholder:"NAME" help:"Network namespace of the interface: a name, a path, the ID of a process in it, or a host of a lab; default: the current one."`
	Lab   string `group:"Path:" placeholder:"NAME" help:"Lab of the host given by --netns, if several are running."`

	Count  int           `group:"Patterns:" placeholder:"N" help:"Packets per train, or in all of periodic, poisson and --model; default: 50, or until Ctrl-C."`
	Gap    time.Duration `group:"Patterns:" default:"1ms" placeholder:"TIME" help:"Time between packets, the mean of poisson, or the first of chirp (${default}). 0 in a train: as close as possible."`
	Rate   string        `group:"Patterns:" placeholder:"BITS" help:"Rate of the frames in bit/s, such as 50M."`
	Size   int           `group:"Patterns:" default:"100" placeholder:"BYTES" help:"Length of the frame without its frame check sequence, 60 to 1514 (${default})."`
	Trains int           `group:"Patterns:" default:"1" placeholder:"N" help:"Number of trains, pairs or chirps (${default})."`
	Every  time.Duration `group:"Patterns:" default:"100ms" placeholder:"TIME" help:"Time from the beginning of a train to that of the next (${default})."`
	Factor float64       `group:"Patterns:" default:"1.2" placeholder:"FACTOR" help:"Factor by which the gaps of a chirp shrink (${default})."`
	Seed   *uint64       `group:"Patterns:" placeholder:"N" help:"Seed of random times; default: 1, of --model the one in MODEL or a random one."`

	Model    string        `group:"Models and files:" placeholder:"MODEL" help:"Draw times and sizes of frames from distributions: 'interval=exponential(1ms) size=pareto(1.5,100B) [seed=N] [count=N] [duration=TIME]' (docs/howto/send.md), and test whether what was sent fits them."`
	Flows    int           `group:"Models and files:" default:"1" placeholder:"N" help:"Independent flows of --model, with consecutive source ports (${default})."`
	Schedule string        `group:"Models and files:" placeholder:"FILE" help:"Send the packets of a file: a schedule as text or binary (docs/reference/schedules.md), or a pcap or pcapng file, whose times are kept; - reads standard input."`
	Speed    float64       `group:"Models and files:" placeholder:"FACTOR" help:"Replay a capture faster or slower: 2 is twice as fast."`
	MaxGap   time.Duration `group:"Models and files:" placeholder:"TIME" help:"Replay a capture with gaps of this length at most."`
	Save     outfile.Path  `group:"Models and files:" placeholder:"FILE" help:"Write the schedule to a file instead of sending it: as text, in binary if the name ends in .plsb, or the complete frames if it ends in .pcap; - writes text to standard output."`

	Proto     string   `group:"Headers:" default:"udp" enum:"udp,tcp,icmp,raw,tcp-stream" help:"Protocol: udp, tcp (segments of no connection), icmp (echo requests), raw (--ip-protocol), or tcp-stream (writes to a TCP connection for each flow, at coarse times; sizes are those of the writes)."`
	TCPFlags  string   `group:"Headers:" name:"tcp-flags" default:"S" placeholder:"FLAGS" help:"TCP flags, letters of SAFRPU (${default})."`
	Number    string   `group:"Headers:" name:"ip-protocol" default:"253" placeholder:"NUMBER" help:"IP protocol number of --proto raw (${default})."`
	DSCP      string   `group:"Headers:" name:"dscp" default:"0" placeholder:"N" help:"Differentiated services code point, 0 to 63."`
	ECN       string   `group:"Headers:" name:"ecn" default:"0" placeholder:"N" help:"ECN field, 0 to 3."`
	TTL       string   `group:"Headers:" name:"ttl" default:"64" placeholder:"N" help:"TTL or hop limit (${default})."`
	FlowLabel string   `group:"Headers:" name:"flow-label" default:"0" placeholder:"N" help:"IPv6 flow label (${default})."`
	VLAN      []string `group:"Headers:" name:"vlan" placeholder:"ID" help:"IEEE 802.1Q tag; repeat for several, the outermost first."`

	Replies bool          `group:"Replies:" help:"Await a reply to each packet and report round-trip times: echo replies, SYN-ACK and RST of TCP, ICMP errors."`
	Wait    time.Duration `group:"Replies:" default:"1s" placeholder:"TIME" help:"How long to await a reply (${default})."`

	Late      time.Duration `group:"Accuracy:" default:"100us" placeholder:"TIME" help:"Packets that leave later than this behind their time count as late (${default})."`
	DropLate  time.Duration `group:"Accuracy:" placeholder:"TIME" help:"Drop packets that would leave later than this behind their time; default: send them."`
	Lead      time.Duration `group:"Accuracy:" placeholder:"TIME" help:"Pre-dispatch period: hand packets over this long before they are due; default: as early as possible."`
	Mode      string        `group:"Accuracy:" default:"predispatch" enum:"predispatch,sequential" help:"predispatch (packets wait for their time in the kernel) or sequential (prepare, wait, send)."`
	Mechanism string        `group:"Accuracy:" placeholder:"NAME" help:"Force a mechanism: ${mechanisms}; default: the best that works."`
	NoDriver  bool          `group:"Accuracy:" name:"no-driver-times" help:"Do not record when the driver gets each packet."`

	JSON              bool `group:"Output:" name:"json" help:"Print JSON: one object per packet, and a summary."`
	agent.RecordFlags `group:"Output:"`
	agent.ReportFlags `group:"Output:"`
}

// Run sends the packets, or saves their schedule.
func (c *sendCmd) Run(ctx context.Context, line *kong.Context) (failed error) {
	options := sender.Options{
		Device: c.Dev, Late: c.Late, JSON: c.JSON, Mechanism: c.Mechanism, Sequential: c.Mode == "sequential",
		Lead: c.Lead, DropLate: c.DropLate, NoDriver: c.NoDriver, Flows: map[string]*frame.Header{},
		RecordFile: c.File(), Replies: c.Replies, Wait: c.Wait, Stream: c.Proto == tcpStream, FixedPorts: c.From != "",
	}
	file, source, err := c.packets(&options)
	if err != nil {
		return err
	}
	if file != nil {
		defer file.Close()
	}
	if c.To != "" {
		if options.Flows[""], err = c.header(); err != nil {
			return err
		}
	}
	if err := errors.Join(c.check(options), c.checkApplies(line, source, options.Flows[""])); err != nil {
		return err
	}
	for _, r := range options.Remarks {
		fmt.Fprintln(os.Stderr, "note:", r)
	}
	if c.isEndless(options) {
		options.Lead = cmp.Or(options.Lead, endlessLead)
	}
	if c.Save != "" && !strings.HasSuffix(string(c.Save), ".pcap") {
		if err := sender.Plan(&options); err != nil {
			return err
		}
		options.Schedule = schedule.Until(ctx, options.Schedule)
		write := schedule.WriteText
		if strings.HasSuffix(string(c.Save), ".plsb") {
			write = schedule.WriteBinary
		}
		return c.Save.Replace(ctx, 0o666, func(file *os.File) error { return write(file, options.Flows, options.Schedule) })
	}
	if c.Dev == "" {
		return fmt.Errorf("read --dev: %w: an interface is required", command.ErrValue)
	}
	if err := hook.NeedRoot(); err != nil {
		return err
	}
	if c.Netns != "" {
		if options.Namespace, err = agent.OpenNetns(c.Netns, c.Lab); err != nil {
			return err
		}
		defer options.Namespace.Close()
	}
	if c.Save != "" {
		return c.Save.Replace(ctx, 0o666, func(file *os.File) error { return sender.Save(ctx, options, file) })
	}
	if c.OML != "" {
		if options.Report, err = c.Open(c.OML, "send", []*measure.Schema{&measure.SendPackets}); err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, agent.Finish(options.Report)) }()
	}
	err = sender.Run(ctx, options, c.Out())
	if errors.Is(err, context.Canceled) {
		return nil // interrupted, which is how a stream ends
	}
	return err
}

// tcpStream is the protocol of writes to TCP connections.
const tcpStream = "tcp-stream"

// endlessLead is the pre-dispatch period of a pattern without an end.
const endlessLead = 100 * time.Millisecond

// isEndless reports whether only an interrupt ends the packets.
func (c *sendCmd) isEndless(options sender.Options) bool {
	if options.Model != nil {
		return options.Model.Count == 0 && options.Model.Duration == 0
	}
	return c.Count == 0 && c.isStream()
}

// isStream reports whether the pattern has no trains.
func (c *sendCmd) isStream() bool { return c.Pattern == "periodic" || c.Pattern == "poisson" }

// check refuses options that contradict each other, or that are out of range.
func (c *sendCmd) check(options sender.Options) error {
	refuse := func(format string, arguments ...any) error {
		return fmt.Errorf("read arguments: %w: %s", command.ErrValue, fmt.Sprintf(format, arguments...))
	}
	switch {
	case c.Save != "" && c.isEndless(options):
		return refuse("--save needs --count, or a model with count= or duration=")
	case strings.HasSuffix(string(c.Save), ".pcapng"):
		return refuse("--save writes pcap, not pcapng, or text")
	case c.Lead < 0 || c.Late < 0 || c.DropLate < 0 || c.Wait < 0 || c.Speed < 0 || c.MaxGap < 0 || c.Count < 0:
		return refuse("--lead, --late, --drop-late, --wait, --speed, --max-gap and --count must not be negative")
	case c.Trains < 1:
		return refuse("--trains must be 1 or more")
	case c.Mode == "sequential" && isPredispatch(c.Mechanism):
		return refuse("--mode sequential does not go with --mechanism %s", c.Mechanism)
	}
	return nil
}

// packets sets the schedule, and the flows that a file defines, and returns where the packets
// come from. The file is to be closed when everything is sent.
func (c *sendCmd) packets(options *sender.Options) (file io.Closer, source string, err error) {
	given := 0
	for _, text := range []string{c.Pattern, c.Schedule, c.Model} {
		if text != "" {
			given++
		}
	}
	switch {
	case given != 1:
		return nil, "", fmt.Errorf("read arguments: %w: give one of a pattern, --schedule FILE and --model MODEL", command.ErrValue)
	case c.Flows < 1 || c.Flows > 4096:
		return nil, "", fmt.Errorf("read --flows: %w: must be 1 to 4096", command.ErrValue)
	case c.Model != "":
		source, options.FlowCount = fromModel, c.Flows
		if options.Model, err = model.ParseModel(c.Model); err != nil {
			return nil, "", fmt.Errorf("read --model: %w: %w", command.ErrValue, err)
		}
		if c.Seed != nil {
			options.Model.Seed = *c.Seed
		}
		if c.Count > 0 {
			options.Model.Count = int64(c.Count)
		}
	case c.Pattern != "":
		source = c.Pattern
		options.Schedule, options.Remarks, err = c.pattern()
	default:
		options.Schedule, options.Flows, file, err = sender.Read(c.Schedule, schedule.Replay{Speed: c.Speed, MaxGap: c.MaxGap}, c.Replies)
		source = fromFlows
		if options.Flows == nil {
			source, options.Flows = fromCapture, map[string]*frame.Header{}
		}
	}
	if c.To == "" && c.Schedule == "" && err == nil {
		err = fmt.Errorf("read --to: %w: a destination is required", command.ErrValue)
	}
	return file, source, err
}

// isPredispatch reports whether a mechanism makes packets wait in the kernel.
func isPredispatch(mechanism string) bool {
	return slices.ContainsFunc(dispatch.Mechanisms, func(m dispatch.Mechanism) bool { return m.Name == mechanism && m.Predispatch })
}

// mechanisms lists the names for the help text.
func mechanisms() string {
	var names []string
	for _, m := range dispatch.Mechanisms {
		names = append(names, m.Name)
	}
	return strings.Join(names, ", ")
}

// header returns the headers of the default flow, without the addresses of the link.
func (c *sendCmd) header() (*frame.Header, error) {
	h := &frame.Header{}
	set := func(name, value string) error {
		if err := h.Set(name, value); err != nil {
			return fmt.Errorf("read --%s: %w", name, err)
		}
		return nil
	}
	protocol := c.Proto
	if protocol == tcpStream {
		protocol = frame.TCP
	}
	err := errors.Join(set("to", c.To), set("proto", protocol), set("ip-protocol", c.Number), set("tcp-flags", c.TCPFlags),
		set("dscp", c.DSCP), set("ecn", c.ECN), set("ttl", c.TTL), set("flow-label", c.FlowLabel))
	if c.From != "" {
		err = errors.Join(err, set("from", c.From))
	}
	h.Identifier = uint16(os.Getpid())
	for _, id := range c.VLAN {
		err = errors.Join(err, set("vlan", id))
	}
	return h, err
}

// pattern returns the schedule of a pattern, and remarks on it.
func (c *sendCmd) pattern() (schedule.Schedule, []string, error) {
	trains := schedule.Trains{Count: c.Trains, Every: c.Every}
	least, most := frame.MinBytes, frame.MaxBytes
	if c.Proto == tcpStream {
		least, most = 1, stream.MaxBytes
	}
	if c.Size < least || c.Size > most {
		return nil, nil, fmt.Errorf("read --size %d: %w: must be %d to %d bytes", c.Size, command.ErrValue, least, most)
	}
	packets, err := c.build(trains)
	if err != nil || c.Trains == 1 || c.isStream() {
		return packets, nil, err
	}
	train, err := c.build(schedule.Trains{})
	if err != nil {
		return nil, nil, err
	}
	var length time.Duration
	for e := range train {
		length = e.Due
	}
	if length <= c.Every {
		return packets, nil, nil
	}
	return packets, []string{fmt.Sprintf("a train takes %v, longer than --every %v: each begins with the last packet of the one before", length, c.Every)}, nil
}

func (c *sendCmd) build(trains schedule.Trains) (schedule.Schedule, error) {
	count := c.Count
	if count == 0 && !c.isStream() {
		count = 50
	}
	seed := uint64(1)
	if c.Seed != nil {
		seed = *c.Seed
	}
	switch c.Pattern {
	case "train":
		return schedule.Train(count, c.Size, c.Gap, trains)
	case "pair":
		return schedule.Pair(c.Size, trains)
	case "rate":
		rate, err := bits("--rate", c.Rate)
		if err != nil {
			return nil, err
		}
		return schedule.Rate(count, c.Size, rate, trains)
	case "chirp":
		return schedule.Chirp(count, c.Size, c.Gap, c.Factor, trains)
	case "periodic":
		return schedule.Periodic(count, c.Size, c.Gap, seed)
	case "poisson":
		return schedule.Poisson(count, c.Size, c.Gap, seed)
	}
	return nil, fmt.Errorf("read pattern %q: %w: must be %s", c.Pattern, command.ErrValue, strings.Join(patterns, ", "))
}

// bits reads a rate in bit/s, the value of an option.
func bits(option, text string) (float64, error) {
	n, err := quantity.ParseSize(text)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("read %s %s: %w: a number of bits per second, such as 50M", option, strconv.Quote(text), command.ErrValue)
	}
	return float64(n), nil
}
