package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"pillion.dev/agent/sender"
	"pillion.dev/cli/command"
	"pillion.dev/internal/quantity"
	"pillion.dev/probe/hook"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/schedule"
)

type sendCmd struct {
	Pattern string `arg:"" enum:"train,pair,rate,chirp,periodic,poisson" help:"Pattern: train (--count packets, --gap apart), pair, rate (a train at --rate), chirp (a train whose gaps shrink), periodic (RFC 3432) or poisson (RFC 2330)."`

	Dev    string        `required:"" placeholder:"DEV" help:"Network interface to send on."`
	To     string        `required:"" placeholder:"ADDRESS[:PORT]" help:"Destination; IPv6 with a port in brackets: [2001:db8::1]:9. The default port is 9 (discard)."`
	From   string        `placeholder:"ADDRESS[:PORT]" help:"Source; default: the interface's address, port 50000."`
	Netns  string        `placeholder:"NAME" help:"Network namespace of the interface: a name, a path, the ID of a process in it, or a host of a lab; default: the current one."`
	Lab    string        `placeholder:"NAME" help:"Lab of the host given by --netns, if several are running."`
	Count  int           `default:"0" placeholder:"N" help:"Packets per train, or in all of periodic and poisson; default: 50, of periodic and poisson until Ctrl-C."`
	Gap    time.Duration `default:"1ms" placeholder:"TIME" help:"Time between packets, the mean of poisson, or the first of chirp (${default}). 0 in a train: as close as possible."`
	Rate   string        `placeholder:"BITS" help:"Rate of the frames in bit/s, such as 50M."`
	Factor float64       `default:"1.2" help:"Factor by which the gaps of a chirp shrink (${default})."`
	Size   int           `default:"100" placeholder:"BYTES" help:"Length of the frame without its frame check sequence, 60 to 1514 (${default})."`
	Trains int           `default:"1" placeholder:"N" help:"Number of trains, pairs or chirps (${default})."`
	Every  time.Duration `default:"100ms" placeholder:"TIME" help:"Time from the beginning of a train to that of the next (${default})."`
	Seed   uint64        `default:"1" help:"Seed of random times (${default})."`

	Proto string `default:"udp" enum:"udp,tcp,icmp,raw" help:"Protocol: udp, tcp (SYN segments of no connection), icmp (echo requests) or raw (--ip-protocol)."`
	IP    uint8  `name:"ip-protocol" default:"253" placeholder:"NUMBER" help:"IP protocol number of --proto raw (${default})."`
	DSCP  uint8  `name:"dscp" placeholder:"N" help:"Differentiated services code point, 0 to 63."`
	ECN   uint8  `name:"ecn" placeholder:"N" help:"ECN field, 0 to 3."`
	TTL   uint8  `name:"ttl" default:"64" placeholder:"N" help:"TTL or hop limit (${default})."`
	Flow  uint32 `name:"flow-label" placeholder:"N" help:"IPv6 flow label."`
	VLAN  []int  `name:"vlan" placeholder:"ID" help:"IEEE 802.1Q tag; repeat for several, the outermost first."`

	Mode      string        `default:"predispatch" enum:"predispatch,sequential" help:"predispatch (packets wait for their time in the kernel) or sequential (prepare, wait, send)."`
	Mechanism string        `placeholder:"NAME" help:"Force a mechanism: ${mechanisms}; default: the best that works."`
	Lead      time.Duration `placeholder:"TIME" help:"Pre-dispatch period: hand packets over this long before they are due; default: as early as possible."`
	Late      time.Duration `default:"100us" placeholder:"TIME" help:"Packets that leave later than this behind their time count as late (${default})."`
	DropLate  time.Duration `placeholder:"TIME" help:"Drop packets that would leave later than this behind their time; default: send them."`
	NoDriver  bool          `name:"no-driver-times" help:"Do not record when the driver gets each packet."`
	JSON      bool          `name:"json" help:"Print JSON: one object per packet, and a summary."`
}

// Run sends the pattern.
func (c *sendCmd) Run(ctx context.Context) error {
	if err := hook.NeedRoot(); err != nil {
		return err
	}
	header, err := c.header()
	if err != nil {
		return err
	}
	packets, err := c.pattern()
	if err != nil {
		return err
	}
	options := sender.Options{
		Device: c.Dev, Header: header, Schedule: packets, Late: c.Late, JSON: c.JSON,
		Mechanism: c.Mechanism, Sequential: c.Mode == "sequential", Lead: c.Lead, DropLate: c.DropLate, NoDriver: c.NoDriver,
	}
	if c.Netns != "" {
		if options.Namespace, err = openNetns(c.Netns, c.Lab); err != nil {
			return err
		}
		defer options.Namespace.Close()
	}
	err = sender.Run(ctx, options, os.Stdout)
	if errors.Is(err, context.Canceled) {
		return nil // interrupted, which is how a stream ends
	}
	return err
}

// mechanisms lists the names for the help text.
func mechanisms() string {
	var names []string
	for _, m := range dispatch.Mechanisms {
		names = append(names, m.Name)
	}
	return strings.Join(names, ", ")
}

// header is that of the packets, without the addresses of the link.
func (c *sendCmd) header() (*frame.Header, error) {
	h := &frame.Header{
		Protocol: c.Proto, Number: c.IP, HopLimit: c.TTL, TrafficClass: c.DSCP<<2 | c.ECN&3, FlowLabel: c.Flow,
		SourcePort: 50000, DestinationPort: 9,
	}
	if c.DSCP > 63 || c.ECN > 3 || c.Flow > 0xfffff {
		return nil, fmt.Errorf("read header: %w: --dscp is at most 63, --ecn 3, --flow-label 1048575", command.ErrValue)
	}
	for _, id := range c.VLAN {
		if id < 0 || id > 4094 {
			return nil, fmt.Errorf("read --vlan %d: %w: 0 to 4094", id, command.ErrValue)
		}
		h.VLANs = append(h.VLANs, uint16(id))
	}
	var err error
	if h.Destination, h.DestinationPort, err = endpoint(c.To, 9); err != nil {
		return nil, fmt.Errorf("read --to: %w", err)
	}
	if c.From != "" {
		if h.Source, h.SourcePort, err = endpoint(c.From, 50000); err != nil {
			return nil, fmt.Errorf("read --from: %w", err)
		}
	}
	return h, nil
}

// endpoint reads ADDRESS or ADDRESS:PORT.
func endpoint(text string, port uint16) (netip.Addr, uint16, error) {
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return a, port, nil
	}
	a, err := netip.ParseAddrPort(text)
	if err != nil {
		return netip.Addr{}, 0, fmt.Errorf("%w: %q is not an address such as 192.0.2.1, 192.0.2.1:9 or [2001:db8::1]:9", command.ErrValue, text)
	}
	return a.Addr(), a.Port(), nil
}

func (c *sendCmd) pattern() (schedule.Schedule, error) {
	count := c.Count
	stream := c.Pattern == "periodic" || c.Pattern == "poisson"
	if count == 0 && !stream {
		count = 50
	}
	trains := schedule.Trains{Count: c.Trains, Every: c.Every}
	switch c.Pattern {
	case "pair":
		return schedule.Pair(c.Size, trains)
	case "rate":
		rate, err := bits(c.Rate)
		if err != nil {
			return nil, err
		}
		return schedule.Rate(count, c.Size, rate, trains)
	case "chirp":
		return schedule.Chirp(count, c.Size, c.Gap, c.Factor, trains)
	case "periodic":
		return schedule.Periodic(count, c.Size, c.Gap, c.Seed)
	case "poisson":
		return schedule.Poisson(count, c.Size, c.Gap, c.Seed)
	}
	return schedule.Train(count, c.Size, c.Gap, trains)
}

// bits reads a rate in bit/s.
func bits(text string) (float64, error) {
	n, err := quantity.ParseSize(text)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("read --rate %s: %w: a number of bits per second, such as 50M", strconv.Quote(text), command.ErrValue)
	}
	return float64(n), nil
}
