package agent

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pillion.dev/agent"
	"pillion.dev/cli/command"
	"pillion.dev/probe/block"
	"pillion.dev/probe/destination"
	"pillion.dev/session"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

type destinationCmd struct {
	Dev      string           `required:"" placeholder:"DEV" help:"Network interface whose incoming packets are measured."`
	Hook     string           `default:"tc" enum:"tc,xdp" help:"tc, or xdp on interfaces whose driver has native XDP, which limits their MTU, mostly to about 3500 bytes (${default})."`
	From     []string         `placeholder:"PREFIX" help:"Accept marks only from these hosts; default: from all. Repeatable."`
	KeyFile  string           `placeholder:"FILE" help:"Accept only marks with a tag by the key in this file, the same as at the source. Default: marks without a tag."`
	Interval time.Duration    `default:"1s" help:"Interval of rows (${default})."`
	By       string           `default:"flow" placeholder:"NAME" help:"What a row covers: a flow, a host-port (pair of addresses, protocol and destination port) or a host (pair of addresses) (${default})."`
	Flow     fivetuple.Fields `default:"src,dst,proto,sport,dport" placeholder:"LIST" help:"Fields that packets of one flow have in common, the same as at the source (${default}). Marks numbered by other fields are removed and counted, but not measured."`
	Flows    int              `default:"16384" help:"Size of the flow table, in flows (${default})."`
	Idle     time.Duration    `default:"2m" help:"Remove a flow after this time without a packet (${default})."`
	Block    time.Duration    `default:"1s" help:"Length of the blocks of the encoding altmark, ${block_range}, the same as at the source (${default})."`
	Port     uint16           `default:"50253" help:"UDP destination port of the udp encoding (${default})."`
	RecordFlags
	RecordBytes int      `default:"4194304" placeholder:"BYTES" help:"Size of the ring buffer for records in bytes, a power of two (${default})."`
	For         []string `default:"all" placeholder:"WHICH" help:"Packets whose marks are read: all; local: those addressed to this host; PREFIX: these, and those that this host forwards to the prefix. Marks in other packets are left in them (${default}). Repeatable."`
	Amend       bool     `help:"Keep the marks and write the arrival time into them, unless another waypoint has: the last destination on the path then shows the delay of both segments."`
	Strip       string   `enum:"forwarded,always,never" default:"forwarded" placeholder:"WHEN" help:"When to remove marks that applications never see (UDP and TCP options, pdm): forwarded: from packets that this host forwards; always; or never (${default}). Marks in other encodings are removed."`
	IOAMTime    string   `name:"ioam-time" enum:"ntp,ptp,posix" default:"ntp" placeholder:"FORMAT" help:"Time stamp format of IOAM marks that Pillion did not write: ntp, ptp or posix, as in RFC 9197, section 5 (${default})."`
	Hops        string   `enum:"off,ioam" default:"off" placeholder:"HOW" help:"ioam: show the delay of each hop, of packets with a trace of IOAM (sources with --hops ioam or --encoding ioam-trace); off: do not (${default})."`
	JSON        bool     `name:"json" help:"Print JSON, one object per line."`
	Clsact      bool     `hidden:"" help:"Use clsact even if the kernel has tcx."`
}

var strips = map[string]destination.Strip{
	"forwarded": destination.StripForwarded, "always": destination.StripAlways, "never": destination.StripNever,
}

var ioamTimes = map[string]destination.IOAMTime{
	"ntp": destination.IOAMTimeNTP, "ptp": destination.IOAMTimePTP, "posix": destination.IOAMTimePOSIX,
}

// Run measures the marked packets that arrive on the interface until it is interrupted.
func (c *destinationCmd) Run(ctx context.Context) error {
	options := agent.DestinationOptions{RecordFile: c.File(), JSON: c.JSON}
	options.Device, options.Interval = c.Dev, c.Interval
	options.Settings = destination.Settings{
		XDP: c.Hook == "xdp", Port: c.Port, Flows: c.Flows, Idle: c.Idle,
		Flow: c.Flow, Block: c.Block, RecordBytes: c.RecordBytes, Amend: c.Amend, Clsact: c.Clsact, Traces: c.Hops == session.HopsIOAM,
		Strip: strips[c.Strip], IOAMTime: ioamTimes[c.IOAMTime],
	}
	var err error
	if options.Peers, err = c.peers(); err != nil {
		return err
	}
	if options.DeliveredOnly, options.Own, err = delivered(c.For); err != nil {
		return err
	}
	if options.Granularity, err = destination.ParseGranularity(c.By); err != nil {
		return fmt.Errorf("%w: %w", command.ErrValue, err)
	}
	if err := block.Check(c.Block); err != nil {
		return fmt.Errorf("%w: %w", command.ErrValue, err)
	}
	if c.Interval <= 0 {
		return fmt.Errorf("read interval: %w: %v is not positive", command.ErrValue, c.Interval)
	}
	if c.Flows < 1 || c.Flows > 1<<24 {
		return fmt.Errorf("read flow table size: %w: %d is not between 1 and 2^24", command.ErrValue, c.Flows)
	}
	return agent.RunDestination(ctx, options, c.Out())
}

// delivered parses the values of --for: all, or local and prefixes to which this host forwards packets. only is false
// for all; own are the prefixes.
func delivered(texts []string) (only bool, own []netip.Prefix, err error) {
	if slices.Equal(texts, []string{"all"}) {
		return false, nil, nil
	}
	if slices.Contains(texts, "all") {
		return false, nil, fmt.Errorf("read --for: %w: all excludes %s", command.ErrValue, strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "all" }), ", "))
	}
	own, err = prefixes(slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return s == "local" }))
	return true, own, err
}

func (c *destinationCmd) peers() (destination.Peers, error) {
	from, err := prefixes(c.From)
	if err != nil {
		return nil, err
	}
	var peer destination.Peer
	if c.KeyFile != "" {
		key, err := readKey(c.KeyFile)
		if err != nil {
			return nil, err
		}
		peer.Keys = []wire.Key{key}
	}
	peers := destination.Peers{{}: peer}
	for _, prefix := range from {
		peers[prefix] = peer
	}
	return peers, nil
}
