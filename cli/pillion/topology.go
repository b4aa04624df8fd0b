package pillion

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/internal/quantity"
)

type topologyCmd struct {
	Show  topologyShowCmd  `cmd:"" default:"withargs" help:"Show traced paths (the default)."`
	Trace topologyTraceCmd `cmd:"" help:"Trace a path now."`
}

type topologyShowCmd struct {
	repeated
	Session string   `placeholder:"NAME" predictor:"session" help:"Only paths of this session."`
	BySite  bool     `help:"Show all agents of a site as one node, and one path, the last traced, for each route between two sites."`
	Open    []string `placeholder:"SITE" help:"With --by-site: sites whose agents are shown nevertheless."`
	Tree    bool     `xor:"form" help:"Show the paths of each source as a tree."`
	Dot     bool     `xor:"form" help:"Print the graph in Graphviz format."`
}

// Help has the examples.
func (topologyShowCmd) Help() string {
	return "Hops that did not respond are shown as *. Times of paths via UDP and ICMP are of round trips, by traceroute; those via IOAM " +
		"are medians of one-way delays of packets of a session with hops ioam, of which routers wrote the times. Their uncertainty is that " +
		"of the time stamps; the clocks of both ends of a hop come on top.\n\n" +
		"Examples:\n\n  pillion topology --tree\n  pillion topology --by-site --dot\n  pillion topology --dot --session web-delay"
}

// Run shows paths.
func (c *topologyShowCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	answer, err := client.Topology.GetTopology(ctx, &pillionv1.GetTopologyRequest{Session: c.Session, BySite: c.BySite, OpenSites: c.Open})
	if err != nil {
		return failed("get topology", err)
	}
	switch {
	case c.Dot:
		return writeDot(a.out, answer)
	case a.format != "table":
		return a.show(answer, pathTable(answer.Paths), nil)
	case len(answer.Paths) == 0:
		a.note("no paths yet: agents trace them while a session is running; pillion topology trace A B traces one now")
		return nil
	case c.Tree:
		return writeTrees(a.out, answer)
	}
	return writePaths(a.out, a.color, answer.Paths, answer.Nodes)
}

type topologyTraceCmd struct {
	Source      string `arg:"" predictor:"agent" help:"Agent that runs the trace."`
	Destination string `arg:"" predictor:"agent" help:"Agent to trace to."`
	Address     string `placeholder:"IP" help:"Address of the destination; default: one of each address family."`
	Protocol    string `placeholder:"NAME" enum:",udp,icmp" default:"" help:"Probe protocol: udp (default) or icmp."`
}

// Help has the example.
func (topologyTraceCmd) Help() string {
	return "Example:\n\n  pillion topology trace north1 south1 --protocol icmp"
}

// Run traces a path.
func (c *topologyTraceCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	answer, err := client.Topology.Trace(ctx, &pillionv1.TraceRequest{
		Source: c.Source, Destination: c.Destination, Address: c.Address, Protocol: c.Protocol,
	})
	if err != nil {
		return failed("trace "+c.Source+" to "+c.Destination, err)
	}
	if a.format != "table" {
		return a.show(messageList(answer.Paths), pathTable(answer.Paths), nil)
	}
	return writePaths(a.out, a.color, answer.Paths, nil)
}

// pathTable has a row for each hop.
func pathTable(paths []*pillionv1.Path) *table {
	t := newTable("source", "destination", "address", "protocol", "reached", "time", ">ttl", "hop", ">rtt_ns", ">sent", ">answers=REPLIES",
		"kind", ">one_way_p50_ns", ">uncertainty_ns", ">packets")
	for _, p := range paths {
		for i, h := range p.Hops {
			t.add(text(p.Source), text(p.Destination), text(p.Address), text(p.Protocol), text(fmt.Sprint(p.Reached)), when(p.Time),
				number(h.Ttl), text(cmp.Or(h.Address, nodeOf(p, i))), number(h.RttNs), number(h.Sent), number(h.Answers),
				text(p.Kind), number(h.OneWay.GetP50Ns()), number(h.OneWay.GetUncertaintyNs()), number(h.OneWay.GetPackets()))
		}
	}
	return t
}

// inPackets is the kind of paths that routers wrote into packets.
const inPackets = "ioam"

// nodeOf names the node at the end of a hop of a path of that kind: an agent, or an identifier.
func nodeOf(p *pillionv1.Path, hop int) string {
	if p.Kind != inPackets || hop+1 >= len(p.Nodes) {
		return ""
	}
	_, name, _ := strings.Cut(p.Nodes[hop+1], ":")
	return name
}

// writePaths lists the hops of each path, with what the nodes say about their addresses.
func writePaths(w io.Writer, color bool, paths []*pillionv1.Path, nodes []*pillionv1.Node) error {
	names := map[string]string{}
	for _, n := range nodes {
		for _, address := range n.Addresses {
			if name := cmp.Or(n.Agent, n.Name); name != "" {
				names[address] = name
			}
		}
	}
	for i, p := range paths {
		if i > 0 {
			fmt.Fprintln(w)
		}
		end := "reached"
		if !p.Reached {
			end = "not reached"
		}
		head := fmt.Sprintf("%s > %s  %s via %s, %s in %s", p.Source, p.Destination, p.Address, strings.ToUpper(p.Protocol), end, quantity.Count(len(p.Hops), "hop"))
		if p.Changed != nil {
			head += ", first seen " + ago(p.Changed).shown
		}
		fmt.Fprintln(w, clean(head))
		hops := roundTrips(p, names)
		if p.Kind == inPackets {
			hops = oneWays(p)
		}
		if err := hops.write(w, color); err != nil {
			return err
		}
	}
	return nil
}

// roundTrips are the hops of a traceroute, with names by address; without any, there is no such column.
func roundTrips(p *pillionv1.Path, names map[string]string) *table {
	t := newTable(">hop", "address", "name", ">rtt", ">answers=REPLIES")
	for _, h := range p.Hops {
		rtt, address := text(""), h.Address
		if address == "" {
			address = "*"
		} else {
			rtt = nanos(h.RttNs)
		}
		t.add(number(h.Ttl), text(address), text(names[h.Address]), rtt, text(fmt.Sprintf("%d/%d", h.Answers, h.Sent)))
	}
	if len(names) == 0 {
		t.drop("name")
	}
	return t
}

// oneWays are the hops of a path that routers wrote into packets, and the whole path.
func oneWays(p *pillionv1.Path) *table {
	t := newTable(">hop", "node", ">one_way=ONE-WAY", ">uncertainty", "clocks", ">packets", ">inside=IN ROUTER")
	row := func(hop cell, node string, d *pillionv1.OneWay, inside cell) {
		if d.GetPackets() == 0 {
			t.add(hop, text(node), text(""), text(""), text(""), number(d.GetPackets()), inside)
			return
		}
		clocks := "unknown"
		switch {
		case d.ClockKnown && d.ClockErrorNs == 0:
			clocks = "same"
		case d.ClockKnown:
			clocks = "±" + quantity.FormatNanos(d.ClockErrorNs)
		}
		t.add(hop, text(node), nanos(d.P50Ns), cell{shown: "±" + quantity.FormatNanos(d.UncertaintyNs), plain: fmt.Sprint(d.UncertaintyNs)}, text(clocks), number(d.Packets), inside)
	}
	for i, h := range p.Hops {
		inside := text("")
		for _, s := range h.Stages {
			if s.Stage == "transit" {
				inside = nanos(s.P50Ns)
			}
		}
		row(number(h.Ttl), nodeOf(p, i), h.OneWay, inside)
	}
	row(text("all"), "", p.OneWay, text(""))
	return t
}

// branch is a node of a tree of paths from one source.
type branch struct {
	id       string
	children []*branch
}

func (b *branch) child(id string) *branch {
	for _, c := range b.children {
		if c.id == id {
			return c
		}
	}
	c := &branch{id: id}
	b.children = append(b.children, c)
	return c
}

// writeTrees puts the paths of each source together where they begin alike.
func writeTrees(w io.Writer, g *pillionv1.GetTopologyResponse) error {
	names := nodeNames(g.Nodes)
	root := &branch{}
	for _, p := range g.Paths {
		if len(p.Nodes) == 0 {
			continue
		}
		at := root
		for _, id := range p.Nodes {
			at = at.child(id)
		}
		if !p.Reached {
			at.child("(" + p.Destination + " not reached)")
		}
	}
	var b strings.Builder
	for _, source := range root.children {
		b.WriteString(label(names, source.id) + "\n")
		source.write(&b, names, "")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (b *branch) write(out *strings.Builder, names map[string]string, indent string) {
	for i, c := range b.children {
		mark, deeper := "├─ ", "│  "
		if i == len(b.children)-1 {
			mark, deeper = "└─ ", "   "
		}
		out.WriteString(indent + mark + label(names, c.id) + "\n")
		c.write(out, names, indent+deeper)
	}
}

func label(names map[string]string, id string) string { return clean(cmp.Or(names[id], id)) }

func nodeNames(nodes []*pillionv1.Node) map[string]string {
	names := map[string]string{}
	for _, n := range nodes {
		switch n.Kind {
		case "unknown":
			names[n.Id] = "*"
		case "site":
			names[n.Id] = fmt.Sprintf("%s (%s)", n.Site, quantity.Count(int(n.Agents), "agent"))
		default:
			names[n.Id] = cmp.Or(n.Agent, strings.TrimSpace(n.Name+" "+strings.Join(n.Addresses, " ")), n.Ioam, n.Id)
		}
	}
	return names
}

// writeDot writes the graph in Graphviz's language.
func writeDot(w io.Writer, g *pillionv1.GetTopologyResponse) error {
	shapes := map[string]string{"agent": "box", "router": "ellipse", "unknown": "point", "site": "box3d"}
	names := nodeNames(g.Nodes)
	var b strings.Builder
	b.WriteString("digraph pillion {\n  rankdir=LR;\n")
	for _, n := range g.Nodes {
		fmt.Fprintf(&b, "  %s [label=%s, shape=%s];\n", quoteDot(n.Id), quoteDot(label(names, n.Id)), cmp.Or(shapes[n.Kind], "ellipse"))
	}
	for _, e := range g.Edges {
		label := quantity.FormatNanos(e.RttNs)
		if e.OneWay != nil {
			label = quantity.FormatNanos(e.OneWay.P50Ns) + " one-way"
		}
		fmt.Fprintf(&b, "  %s -> %s [label=%s];\n", quoteDot(e.From), quoteDot(e.To), quoteDot(label))
	}
	b.WriteString("}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// quoteDot makes a string of Graphviz, in which a backslash would start an escape.
func quoteDot(s string) string {
	if _, err := strconv.Atoi(s); err == nil {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(clean(s)) + `"`
}
