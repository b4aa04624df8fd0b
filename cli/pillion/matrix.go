package pillion

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/measure/flows"
)

type matrixCmd struct {
	Session     string `placeholder:"NAME" predictor:"session" help:"Traffic that this session measured; default: for each pair of agents, the session with most packets."`
	Source      string `placeholder:"AGENT" predictor:"agent" help:"Traffic from this agent."`
	Destination string `placeholder:"AGENT" predictor:"agent" help:"Traffic to this agent."`
	Proto       string `placeholder:"NAME" help:"Traffic of this IP protocol, by name or number as in the stream flows."`
	From        moment `placeholder:"TIME" help:"Rows from this time on; default: -1h."`
	To          moment `placeholder:"TIME" help:"Rows before this time; default: now."`
	By          string `default:"pair" enum:"pair,label,prefix,host,host-port,flow" placeholder:"NAME" help:"One line per pair of agents, of labels, of prefixes or of hosts, per host-port or per flow: pair, label, prefix, host, host-port, flow (${default})."`
	Label       string `placeholder:"KEY" help:"With --by label: key of the label of agents; default: that of sites."`
	PrefixIPv4  uint32 `name:"prefix-ipv4" default:"24" placeholder:"BITS" help:"With --by prefix: length of IPv4 prefixes (${default})."`
	PrefixIPv6  uint32 `name:"prefix-ipv6" default:"48" placeholder:"BITS" help:"With --by prefix: length of IPv6 prefixes (${default})."`
	Protocol    bool   `help:"One line per IP protocol."`
	Order       string `default:"bytes" enum:"bytes,packets" placeholder:"NAME" help:"Sort by bytes or packets, largest first (${default})."`
	Limit       uint32 `default:"1000" placeholder:"N" help:"Maximum number of lines, up to 50000 (${default})."`
}

// Help explains the columns.
func (matrixCmd) Help() string {
	return `Each line sums the packets and IP bytes that arrived, of the flows that sessions measure. PACKETS and BYTES are scaled by the sampling of the
sessions; ± is half of the 95 % interval that sampling causes, for bytes at most. SCALING says how: measured, all packets were counted;
scaled, one packet in N was; lower_bound, of some packets it is not known how many were left out, and these count as measured. COUNTED
is the number of packets that were counted.

Examples:

  pillion matrix
  pillion matrix --by label --label site --from -1d
  pillion matrix --by prefix --prefix-ipv4 16 --protocol -o csv`
}

// Run prints a traffic matrix.
func (c *matrixCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	answer, err := client.Flows.TrafficMatrix(ctx, &pillionv1.TrafficMatrixRequest{
		Selection: &pillionv1.Selection{Session: c.Session, Source: c.Source, Destination: c.Destination, Proto: c.Proto},
		From:      c.From.message(), To: c.To.message(), Granularity: c.By, Label: c.Label, PrefixIpv4: c.PrefixIPv4, PrefixIpv6: c.PrefixIPv6,
		ByProtocol: c.Protocol, Order: c.Order, Limit: c.Limit,
	})
	if err != nil {
		return failed("get traffic matrix", err)
	}
	t := newTable("source", "destination", "proto", ">estimated_packets=PACKETS", ">packets_error=±", ">estimated_bytes=BYTES", ">bytes_error=±", ">packets=COUNTED", "scaling")
	for _, v := range answer.Volumes {
		t.add(volumeRow(v, c.By)...)
	}
	if a.format == "table" {
		if answer.UnreadPackets > 0 {
			a.note("%d packets are in the total only: there are too many flows to read them at once; choose a coarser --by", answer.UnreadPackets)
		}
		if n := len(answer.Volumes); n < int(answer.Found) {
			a.note("%d of %d lines", n, answer.Found)
		}
		if len(answer.Volumes) > 1 {
			total := volumeRow(answer.Total, c.By)
			total[0] = text("total")
			t.add(total...)
		}
	}
	return a.show(answer, t, nil)
}

func volumeRow(v *pillionv1.TrafficVolume, by string) []cell {
	source, destination := text(v.Src), text(v.Dst)
	switch by {
	case "label":
		source, destination = siteCell(v.Src), siteCell(v.Dst)
	case "host-port", "flow":
		from, to, _ := strings.Cut(flowName(flows.Flow{Src: v.Src, Dst: v.Dst, Sport: v.Sport, Dport: v.Dport}), " > ")
		source, destination = text(from), text(strings.TrimSpace(to))
	}
	return []cell{
		source, destination, text(v.Proto), rounded(v.EstimatedPackets), errorCell(v.PacketsError, rounded), byteCell(v.EstimatedBytes), errorCell(v.BytesError, byteCell),
		number(v.Packets), text(cmp.Or(v.Scaling, "measured")),
	}
}

// rounded is an estimate, which may exceed integers.
func rounded(value float64) cell {
	shown := fmt.Sprintf("%.0f", value)
	return cell{shown: shown, plain: shown}
}

func byteCell(value float64) cell {
	if value >= math.MaxInt64 {
		return rounded(value)
	}
	return byteSize(int64(value))
}

// errorCell is empty without an error.
func errorCell(value float64, show func(float64) cell) cell {
	if value == 0 {
		return cell{shown: "-", plain: "0"}
	}
	shown := show(value)
	shown.shown = "±" + shown.shown
	return shown
}
