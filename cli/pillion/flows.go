package pillion

import (
	"context"
	"math"
	"slices"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
)

type flowsCmd struct {
	repeated
	Session     string  `placeholder:"NAME" predictor:"session" help:"Flows of this session; default: for each pair of agents, the session with most packets."`
	Source      string  `placeholder:"AGENT" predictor:"agent" help:"Flows from this agent."`
	Destination string  `placeholder:"AGENT" predictor:"agent" help:"Flows to this agent."`
	From        moment  `placeholder:"TIME" help:"Rows from this time on; default: -1h."`
	To          moment  `placeholder:"TIME" help:"Rows before this time; default: now."`
	By          string  `default:"flow" enum:"flow,host-port,host,pair,site" placeholder:"NAME" help:"One line per flow, host-port, host, pair of agents or pair of sites (${default})."`
	FromSite    *string `placeholder:"SITE" help:"With --by site and --to-site: one line per pair of agents from this site; empty: from agents without one."`
	ToSite      *string `placeholder:"SITE" help:"The other of the two sites."`
	Order       string  `default:"packets" enum:"packets,bytes,lost,p50,p90,p99,max,last" placeholder:"NAME" help:"Sort by this column, largest first: packets, bytes, lost, p50, p90, p99, max, last (${default})."`
	Search      string  `placeholder:"TEXT" help:"Flows whose addresses, ports and protocol, or names of pods, contain this text, ignoring case."`
	Limit       uint32  `default:"100" placeholder:"N" help:"Maximum number of flows, up to 1000 (${default})."`
}

// Help explains the columns.
func (flowsCmd) Help() string {
	return `Each line aggregates the rows of a flow. LOSS is a share of the expected packets. SAMPLES is the number of packets
with a time stamp, on which P50, P90 and P99, percentiles of one-way delay, rest; ± is the combined error bound of
both clocks. IPDV is the 90th percentile of the delay variation between consecutive samples. SRC POD and DST POD are the
Kubernetes pods, NAMESPACE/NAME, that have the addresses or had them last, if agents report pods (docs/howto/kubernetes.md).

Examples:

  pillion flows --session web-delay
  pillion flows --by host --order p99 --from -1d -o json
  pillion flows --source node1 --search shop/cart

Figures by site are those of the last minute. A site is the value of a label of agents, by default of site (site_label
in the configuration of the server); WORST PAIR is that of agents with the highest loss, or else the highest delays. With two
sites there is one line per pair of agents, where P50 and P99 are of the latest second and WORST P99 is the highest of a second:

  pillion flows --by site
  pillion flows --by site --from-site north --to-site south`
}

// Run lists flows.
func (c *flowsCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	if c.By == "site" || c.FromSite != nil || c.ToSite != nil {
		return c.bySite(ctx, a, client)
	}
	answer, err := client.Flows.ListFlows(ctx, &pillionv1.ListFlowsRequest{
		Selection: &pillionv1.Selection{Session: c.Session, Source: c.Source, Destination: c.Destination},
		From:      c.From.message(), To: c.To.message(), Granularity: c.By, Order: c.Order, Search: c.Search, Limit: c.Limit,
	})
	if err != nil {
		return failed("list flows", err)
	}
	if n := len(answer.Flows); a.format == "table" && n < int(answer.Found) {
		a.note("%d of %d flows", n, answer.Found)
	}
	// The table has columns of pods only if there are any.
	pods := a.format != "table" || slices.ContainsFunc(answer.Flows, func(f *pillionv1.Flow) bool { return f.SrcPod != nil || f.DstPod != nil })
	columns := []string{"flow", ">packets", ">bytes", ">loss", ">samples", ">p50_ns=P50", ">p90_ns=P90", ">p99_ns=P99", "clock_error_ns=±", ">ipdv_p90_ns=IPDV"}
	if pods {
		columns = append(columns, "src_pod", "dst_pod")
	}
	t := newTable(columns...)
	for _, f := range answer.Flows {
		w := f.GetTotal()
		row := []cell{text(flowOf(f)), number(w.GetPackets()), byteSize(int64(w.GetBytes())), percent(w.GetLost(), w.GetExpected()),
			number(w.GetDelay().GetCount()), delayCell(w.GetDelay().GetP50Ns()),
			delayCell(w.GetDelay().GetP90Ns()), delayCell(w.GetDelay().GetP99Ns()), clockCell(w.GetDelay().GetCount(), w.GetClockErrorNs()), delayCell(w.GetIpdv().GetP90Ns())}
		if pods {
			row = append(row, podCell(f.SrcPod), podCell(f.DstPod))
		}
		t.add(row...)
	}
	return a.show(messageList(answer.Flows), t, nil)
}

// podCell names a pod, if one is known.
func podCell(p *pillionv1.Pod) cell {
	if p == nil {
		return text("")
	}
	return text(p.GetNamespace() + "/" + p.GetName())
}

// clockCell is the error bound of the clocks, if there are delays.
func clockCell(delays uint64, ns float64) cell {
	switch {
	case delays == 0:
		return cell{shown: "-", plain: ""}
	case math.IsNaN(ns):
		return cell{shown: "±?", plain: ""}
	}
	c := nanos(int64(ns))
	c.shown = "±" + c.shown
	return c
}

// delayCell is a time in ns; NaN means unknown.
func delayCell(ns float64) cell {
	if math.IsNaN(ns) {
		return cell{shown: "-", plain: ""}
	}
	return nanos(int64(ns))
}
