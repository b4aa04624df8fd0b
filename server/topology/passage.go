package topology

import (
	"slices"
	"strings"
	"time"
)

// ends are what a traceroute and a path of kind IOAM between the same addresses share.
type ends struct{ source, destination, address string }

// passage is how a path passes a router with an agent: interfaces by which it may come in, and by
// which it may leave. None: nothing is known.
type passage struct{ inputs, outputs []string }

// fits reports whether packets that passed a pair of interfaces may have taken the path.
func (p passage) fits(pair devicePair) bool {
	return (len(p.inputs) == 0 || slices.Contains(p.inputs, pair.input)) && (len(p.outputs) == 0 || slices.Contains(p.outputs, pair.output))
}

// addStages joins the stage times of routers with an agent to the hops that end there. A router
// at the end of a path is left out: packets do not pass it.
func (b *builder) addStages() {
	if len(b.stages) == 0 {
		return
	}
	traced := map[ends][]int{}
	for i, p := range b.paths {
		if p.Kind == Traceroute {
			of := ends{p.Source, p.Destination, p.Address}
			traced[of] = append(traced[of], i)
		}
	}
	for i := range b.paths {
		shown := &b.paths[i]
		from, to := shown.Time.Add(-time.Duration(shown.IntervalNs)), shown.Time
		if shown.Kind == Traceroute {
			from, to = b.now.Add(-stagesKept), b.now.Add(stagesKept) // routers' clocks may be ahead
		}
		for hop := range max(0, len(shown.Hops)-1) {
			agent := b.nodes[b.places[i][hop+1]].Agent
			if agent == "" || len(b.stages[agent]) == 0 {
				continue
			}
			way := b.passage(i, hop)
			if shown.Kind == IOAM {
				way = b.beside(way, i, hop, traced[ends{shown.Source, shown.Destination, shown.Address}])
			}
			b.stages[agent].join(&shown.Hops[hop], way, from, to)
		}
	}
}

// join shows the stages of the pair of interfaces by which the path passes the router. It must be
// the only one that fits, of all that packets have passed: how many packets passed each says
// nothing, as other traffic and the opposite direction pass the same router.
func (r routerStages) join(hop *Hop, way passage, from, to time.Time) {
	var fitting []devicePair
	current := false
	for pair, kept := range r {
		if way.fits(pair) {
			_, overlaps := at(kept, from, to)
			fitting, current = append(fitting, pair), current || overlaps
		}
	}
	if len(fitting) != 1 || len(way.inputs)+len(way.outputs) == 0 {
		hop.StagesUnknown = current
		return
	}
	if times, overlaps := at(r[fitting[0]], from, to); overlaps {
		hop.Stages, hop.StagesTime = times.stages, times.end
		hop.Input, hop.Output = fitting[0].input, fitting[0].output
	}
}

// passage is what the addresses of a path say. The router's input is the interface with the address
// that replied, and is on a network of the node before; its output is on the network of the
// address of the node behind.
func (b *builder) passage(path, hop int) passage {
	shown, places := &b.paths[path], b.places[path]
	before, router, behind := b.nodes[places[hop]], b.nodes[places[hop+1]], b.nodes[places[hop+2]]
	next := shown.Hops[hop+1].Address
	if hop+2 == len(shown.Hops) && shown.Reached {
		next = shown.Address
	}
	return passage{
		inputs:  narrow(b.holders(router.Agent, shown.Hops[hop].Address), b.facing(router.Agent, before.Addresses)),
		outputs: narrow(b.facing(router.Agent, []string{next}), b.facing(router.Agent, behind.Addresses)),
	}
}

// beside adds what traceroutes between the same addresses say of the same router: nodes that write
// into packets do not say their addresses.
func (b *builder) beside(way passage, path, hop int, traceroutes []int) passage {
	var inputs, outputs []string
	for _, other := range traceroutes {
		i := slices.Index(b.places[other], b.places[path][hop+1])
		if i > 0 && i < len(b.places[other])-1 {
			of := b.passage(other, i-1)
			inputs, outputs = append(inputs, of.inputs...), append(outputs, of.outputs...)
		}
	}
	return passage{narrow(way.inputs, inputs), narrow(way.outputs, outputs)}
}

// narrow returns the interfaces that two sources agree upon, or all of both if they contradict.
func narrow(a, b []string) []string {
	common := slices.DeleteFunc(slices.Clone(a), func(name string) bool { return !slices.Contains(b, name) })
	if len(common) > 0 {
		return common
	}
	return slices.Concat(a, b)
}

// facing are the interfaces of an agent on a network of any of these addresses.
func (b *builder) facing(agent string, addresses []string) (names []string) {
	for _, i := range b.hosts.byAgent[agent].Interfaces {
		if !i.Loopback && slices.ContainsFunc(addresses, func(address string) bool { return network(i, address) }) {
			names = append(names, i.Name)
		}
	}
	return names
}

// holders are the interfaces of an agent that have an address: one at most, unless it is local to a link.
func (b *builder) holders(agent, address string) (names []string) {
	for _, i := range b.hosts.byAgent[agent].Interfaces {
		if !i.Loopback && slices.ContainsFunc(i.Addresses, func(text string) bool { return strings.HasPrefix(text, address+"/") && address != "" }) {
			names = append(names, i.Name)
		}
	}
	return names
}
