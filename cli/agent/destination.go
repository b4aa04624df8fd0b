package agent

import (
	"context"
	"fmt"
	"os"
	"time"

	"pillion.dev/agent"
	"pillion.dev/cli/command"
	"pillion.dev/probe/destination"
	"pillion.dev/probe/flow"
	"pillion.dev/wire"
)

type destinationCmd struct {
	Dev         string        `required:"" placeholder:"DEV" help:"Network interface whose incoming packets are measured."`
	Hook        string        `default:"tc" enum:"tc,xdp" help:"tc, or xdp on interfaces whose driver has native XDP (${default})."`
	From        []string      `placeholder:"PREFIX" help:"Accept marks only from these hosts; default: from all. Repeatable."`
	KeyFile     string        `placeholder:"FILE" help:"Accept only marks that were authenticated with the key in this file, that of the source. Default: no authentication."`
	Interval    time.Duration `default:"1s" help:"Interval of rows (${default})."`
	By          string        `default:"flow" placeholder:"NAME" help:"Aggregation of rows: flow, host or host-port (${default})."`
	Flow        string        `default:"src,dst,proto,sport,dport" placeholder:"LIST" help:"Fields that identify a flow, as at the source (${default})."`
	Flows       int           `default:"16384" help:"Maximum number of flows (${default})."`
	Idle        time.Duration `default:"2m" help:"Remove a flow after this time without a packet (${default})."`
	Port        uint16        `default:"50253" help:"UDP destination port of the udp encoding (${default})."`
	Records     string        `placeholder:"FILE" help:"Write one CSV line per packet to this file."`
	RecordBytes int           `default:"4194304" placeholder:"BYTES" help:"Size of the ring buffer for records in bytes, a power of two (${default})."`
	Amend       bool          `help:"Keep the marks and write the arrival time into them."`
	Strip       string        `enum:"forwarded,always,never" default:"forwarded" placeholder:"WHEN" help:"When to remove a mark in an option of the transport, which applications do not see: forwarded (packets that this host forwards), always or never (${default})."`
	JSON        bool          `name:"json" help:"Print JSON, one object per line."`
	Clsact      bool          `hidden:"" help:"Use clsact even if the kernel has tcx."`
}

var strips = map[string]destination.Strip{
	"forwarded": destination.StripForwarded, "always": destination.StripAlways, "never": destination.StripNever,
}

// Run reads marks.
func (c *destinationCmd) Run(ctx context.Context) error {
	options := agent.DestinationOptions{RecordFile: c.Records, JSON: c.JSON}
	options.Device, options.Interval = c.Dev, c.Interval
	options.Settings = destination.Settings{
		XDP: c.Hook == "xdp", Port: c.Port, Flows: c.Flows, Idle: c.Idle,
		RecordBytes: c.RecordBytes, Amend: c.Amend, Clsact: c.Clsact,
		Strip: strips[c.Strip],
	}
	var err error
	if options.Peers, err = c.peers(); err != nil {
		return err
	}
	if options.Granularity, err = destination.ParseGranularity(c.By); err != nil {
		return fmt.Errorf("%w: %w", command.ErrValue, err)
	}
	if options.Flow, err = flow.ParseFields(c.Flow); err != nil {
		return fmt.Errorf("%w: %w", command.ErrValue, err)
	}
	if c.Interval <= 0 {
		return fmt.Errorf("read interval: %w: %v is not positive", command.ErrValue, c.Interval)
	}
	if c.Flows < 1 || c.Flows > 1<<24 {
		return fmt.Errorf("read flow table size: %w: %d is not between 1 and 2^24", command.ErrValue, c.Flows)
	}
	return agent.RunDestination(ctx, options, os.Stdout)
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
