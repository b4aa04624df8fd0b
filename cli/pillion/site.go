package pillion

import (
	"cmp"
	"context"
	"errors"
	"math"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
)

// withoutSite is shown for the agents without a site.
const withoutSite = "(none)"

// bySite lists pairs of sites, or the pairs of agents of two sites.
func (c *flowsCmd) bySite(ctx context.Context, a *app, client *api.Client) error {
	switch {
	case c.By != "site" || (c.FromSite == nil) != (c.ToSite == nil):
		return errors.New("list flows by site: --from-site and --to-site go together, with --by site")
	case c.Source != "" || c.Destination != "" || c.Search != "" || c.From.message() != nil || c.To.message() != nil:
		return errors.New("list flows by site: figures by site cover all agents in the last minute: leave out --source, --destination, --search, --from and --to")
	}
	request := &pillionv1.SiteMatrixRequest{Session: c.Session}
	if c.FromSite != nil {
		request.Hosts = &pillionv1.SitePair{Source: *c.FromSite, Destination: *c.ToSite}
	}
	answer, err := client.Flows.SiteMatrix(ctx, request)
	if err != nil {
		return failed("list flows by site", err)
	}
	if len(answer.Sites) == 0 && a.format == "table" {
		a.note("no agent has a site: give it one by pillion agents label AGENT %s=NAME", cmp.Or(answer.Label, "site"))
	}
	if request.Hosts != nil {
		return a.show(messageList(answer.Hosts), hostTable(answer.Hosts), nil)
	}
	return a.show(messageList(answer.Pairs), siteTable(answer.Pairs), nil)
}

func siteTable(pairs []*pillionv1.SiteFigures) *table {
	t := newTable("source", "destination", ">pairs", ">packets", ">bytes", ">loss", ">samples", ">p50_ns=P50", ">p90_ns=P90", ">p99_ns=P99", "clock_error_ns=±", "worst_source=WORST PAIR", "worst_destination=", ">worst_loss=LOSS")
	for _, p := range pairs {
		w := p.GetTotal()
		d := w.GetDelay()
		t.add(siteCell(p.Source), siteCell(p.Destination), number(p.Pairs), number(w.GetPackets()), byteSize(int64(w.GetBytes())),
			lossCell(w.GetLost(), w.GetExpected()), number(d.GetCount()), delayCell(d.GetP50Ns()), delayCell(d.GetP90Ns()), delayCell(d.GetP99Ns()),
			clockCell(d.GetCount(), w.GetClockErrorNs()), text(p.GetWorst().GetSource()), text(p.GetWorst().GetDestination()), lossCell(p.GetWorst().GetLost(), p.GetWorst().GetExpected()))
	}
	return t
}

func hostTable(hosts []*pillionv1.HostFigures) *table {
	t := newTable("source", "destination", ">packets", ">loss", ">p50_ns=P50", ">p99_ns=P99", ">worst_p99_ns=WORST P99")
	for _, h := range hosts {
		t.add(text(h.Source), text(h.Destination), number(h.Packets), lossCell(h.Lost, h.Expected), delayCell(h.P50Ns), delayCell(h.P99Ns), delayCell(h.WorstP99Ns))
	}
	return t
}

func siteCell(name string) cell { return cell{cmp.Or(name, withoutSite), name, true} }

// lossCell is a share of the expected packets.
func lossCell(lost, expected uint64) cell {
	if expected == 0 {
		return decimal(math.NaN(), 2)
	}
	loss := decimal(100*float64(lost)/float64(expected), 2)
	loss.shown += " %"
	return loss
}
