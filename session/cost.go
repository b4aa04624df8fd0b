package session

import (
	"fmt"
	"strings"
	"time"

	"pillion.dev/wire"
)

// Costs says in words what a valid specification costs while it runs: bytes in
// packets and rows in the archive. What a packet costs in processor time depends
// on the host; see bench.
func Costs(spec Spec, pairs []Pair) []string {
	spec = spec.Complete()
	modules, err := wire.ParseModule(strings.Join(spec.Modules, ","))
	if err != nil {
		return nil
	}
	encoding, err := wire.ParseEncoding(spec.Encoding)
	if err != nil {
		return nil
	}
	var costs []string
	if spec.marks(true) {
		costs = append(costs, fmt.Sprintf("%d bytes in each marked IPv4 packet (%v, encoding %v)", encoding.Overhead(modules), modules, encoding))
	}
	if spec.marks(false) {
		costs = append(costs, fmt.Sprintf("%d bytes in each marked IPv6 packet (%v)", wire.Native.Overhead(modules), modules))
	}
	costs = append(costs, rowCosts(spec, pairs)...)
	if spec.Records {
		costs = append(costs, "one row in packets for each marked packet that comes: sample, or keep runs short, where there are many")
	}
	for _, p := range spec.placedPoints() {
		if p.Cost != "" {
			costs = append(costs, p.costs(spec))
		}
	}
	if spec.Trace > 0 {
		costs = append(costs, fmt.Sprintf("%d traced paths each %v, for each family of addresses", len(pairs), spec.Trace))
	}
	return costs
}

func rowCosts(spec Spec, pairs []Pair) []string {
	rate := float64(time.Second) / float64(spec.Interval)
	if spec.Granularity == ByHost {
		return []string{fmt.Sprintf("up to %.3g rows a second in flows: one each %v for each of %d pairs and family of addresses with traffic",
			rate*float64(len(pairs)), spec.Interval, len(pairs))}
	}
	what := "flow"
	if spec.Granularity == ByHostPort {
		what = "pair of host and port"
	}
	return []string{fmt.Sprintf("one row in flows each %v for each %s with traffic: with 100 of them in each of %d pairs, %.3g rows a second",
		spec.Interval, what, len(pairs), 100*rate*float64(len(pairs)))}
}
