package session

import (
	"fmt"
	"strings"
	"time"

	"pillion.dev/internal/quantity"
	"pillion.dev/measure/module"
	"pillion.dev/wire"
)

// Costs describes the overhead of a valid specification while it runs: bytes per packet
// and rows in the archive. The CPU time per packet depends on the host; see bench.
func Costs(spec Spec, pairs []Pair) []string {
	spec = spec.Complete()
	modules, others := Marked(spec.Modules)
	_, options, err := module.Options(others)
	if err != nil {
		return nil
	}
	encodings, err := wire.ParseEncodings(spec.Encoding)
	if err != nil {
		return nil
	}
	metrics := strings.ReplaceAll(modules.String(), ",", " and ")
	var costs []string
	for _, family := range []struct {
		is4   bool
		name  string
		class wire.Class
	}{{true, "IPv4", wire.ClassIPv4}, {false, "IPv6", wire.ClassIPv6}} {
		for _, e := range encodings {
			if spec.marks(family.is4) && e.Applies(family.class) {
				costs = append(costs, fmt.Sprintf("%d bytes in each marked %s packet (%s, encoding %v)",
					spec.overhead(e, modules, options), family.name, metrics, e))
			}
		}
	}
	for _, name := range others {
		if d := module.Find(name); d != nil && !d.Built() {
			costs = append(costs, strings.ReplaceAll(d.Cost(), "{interval}", spec.Interval.String()))
		}
	}
	costs = append(costs, rowCosts(spec, pairs)...)
	if spec.Records {
		costs = append(costs, "one row in packets for each marked packet received: use sampling or short runs at high packet rates")
	}
	for _, p := range spec.placedPoints() {
		if p.Cost != "" {
			costs = append(costs, p.costs(spec))
		}
	}
	if spec.Hops == HopsIOAM {
		costs = append(costs, fmt.Sprintf("up to %d bytes in one IPv6 packet of each source every %v, in a Hop-by-Hop Options header: some routers forward such packets more slowly, "+
			"and some networks drop them, which path validation notices; a row in hop_delays for each hop and one more, every %v and pair of addresses", wire.IOAMTrace.TaggedOverhead(wire.Delay|wire.Loss), spec.HopsGap, spec.Interval))
	}
	if spec.Trace > 0 && spec.Hops != HopsOff {
		costs = append(costs, fmt.Sprintf("%s every %v for each address family", quantity.Count(len(pairs), "path trace"), spec.Trace))
	}
	return costs
}

// overhead is the number of bytes that a mark adds to a packet.
func (s Spec) overhead(e wire.Encoding, modules wire.Module, options int) int {
	tagged := s.Authentication != Unauthenticated
	if tagged {
		modules = wire.Delay | wire.Loss
	}
	return e.Size(modules, tagged, s.SparseMarks, options)
}

func rowCosts(spec Spec, pairs []Pair) []string {
	rate := float64(time.Second) / float64(spec.Interval)
	if spec.Granularity == ByHost {
		return []string{fmt.Sprintf("up to %.3g rows per second in flows: one every %v for each of %s and address family with traffic",
			rate*float64(len(pairs)), spec.Interval, quantity.Count(len(pairs), "pair"))}
	}
	what := "flow"
	if spec.Granularity == ByHostPort {
		what = "pair of host and port"
	}
	return []string{fmt.Sprintf("one row in flows every %v for each %s with traffic: with 100 of them in each of %s, %.3g rows per second",
		spec.Interval, what, quantity.Count(len(pairs), "pair"), 100*rate*float64(len(pairs)))}
}
