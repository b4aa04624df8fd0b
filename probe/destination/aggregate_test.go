package destination

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pillion.dev/probe/flow"
	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// aggregated is a vector's packet with a mark of a flow by these fields; 0: by all.
func aggregated(t *testing.T, v codec.Vector, fields flow.Fields) []byte {
	t.Helper()
	m := v.Mark
	if fields != flow.All {
		m.Aggregate = uint8(fields)
	}
	marked, err := codec.Insert(v.Original, v.Encoding, m, v.Port)
	if err != nil {
		t.Fatal(err)
	}
	return marked
}

// TestAggregationMismatch: marks that number flows by other fields than the destination's are
// taken out and counted as such; they are in no flow, so that nothing seems to be lost.
func TestAggregationMismatch(t *testing.T) { aggregationMismatch(t, false) }

// aggregationMismatch tries some combinations, or, long, others.
func aggregationMismatch(t *testing.T, long bool) {
	hosts, protocols := flow.Src|flow.Dst, flow.Src|flow.Dst|flow.Protocol
	for _, row := range []struct {
		source, destination flow.Fields
		long                bool
	}{
		{flow.All, hosts, false}, {hosts, flow.All, false}, {hosts, protocols, true}, {protocols, flow.Dst, true},
		{flow.All, flow.All, true}, {hosts, hosts, false}, {flow.Dst, flow.Dst, true},
	} {
		if row.long != long {
			continue
		}
		t.Run(fmt.Sprintf("%v at %v", row.source, row.destination), func(t *testing.T) {
			d, programs := open(t, Settings{Flow: row.destination}), hooks[:1]
			if row.source == flow.All {
				programs = hooks[:2] // what follows is the same of both
			}
			for _, v := range golden(t) {
				if v.Port != wire.Port || v.Mark.Sparse || v.Mark.Modules&wire.Loss == 0 || v.Encoding.Carries()&wire.CarriesSparse == 0 {
					continue
				}
				in := aggregated(t, v, row.source)
				want := v.Original
				if v.Encoding == wire.TCPOption {
					want = in
				}
				for _, hook := range programs {
					before := d.mustTally(t)
					if out := run(t, hook.program(d), frame(in), 0); !bytes.Equal(out, frame(want)) {
						t.Errorf("%s, %s:\n%x\nbecame %x\nwant   %x", hook.name, v.Name, in, out[14:], want)
					}
					after := d.mustTally(t)
					differ, counted := after.Reasons["flow"]-before.Reasons["flow"], after.Packets-before.Packets
					if matches := row.source == row.destination; matches && (differ != 0 || counted != 1) || !matches && (differ != 1 || counted != 0) {
						t.Errorf("%s, %s: %d counted, %d of another aggregate", hook.name, v.Name, counted, differ)
					}
					if flows := d.takeFlows(t); len(flows) != int(counted) {
						t.Errorf("%s, %s: %d flows", hook.name, v.Name, len(flows))
					}
				}
			}
			if tally := d.mustTally(t); tally.Lost != 0 || tally.Seen != tally.Packets+tally.Rejected {
				t.Errorf("tally %+v", tally)
			}
		})
	}
}

// TestFlowsByRule: where the fields that tell flows apart differ, those of a packet's rule count.
// Marks that number other flows are in none, and their source is known.
func TestFlowsByRule(t *testing.T) {
	hosts, protocols := flow.Src|flow.Dst, flow.Src|flow.Dst|flow.Protocol
	rules := []Rule{
		{Filter: filters(t, "proto=udp")[0], Flow: hosts}, {Filter: filters(t, "proto=tcp")[0], Flow: flow.All},
		{Filter: filters(t, "proto=icmp")[0], Flow: protocols}, {Filter: filters(t, "proto=icmpv6")[0], Flow: protocols},
	}
	peer := Peer{Rules: rules}
	d := open(t, Settings{FlowsDiffer: true, Peers: Peers{netip.MustParsePrefix("0.0.0.0/0"): peer, netip.MustParsePrefix("::/0"): peer}})
	seen := map[flow.Fields]int{}
	for _, v := range golden(t) {
		if v.Port != wire.Port || v.Mark.Sparse || v.Encoding.Carries()&wire.CarriesSparse == 0 {
			continue
		}
		key := keyOf(v.Original)
		i := slices.IndexFunc(rules, func(r Rule) bool { return r.Matches(key) })
		if i < 0 {
			continue
		}
		for _, source := range []flow.Fields{flow.All, hosts, protocols} {
			if v.Mark.Modules&wire.Loss == 0 && source != flow.All {
				continue // nothing is numbered
			}
			wanted := rules[i].Flow
			in := aggregated(t, v, source)
			for _, hook := range hooks[:2] {
				before := d.mustTally(t)
				run(t, hook.program(d), frame(in), 0)
				after := d.mustTally(t)
				fits := source == wanted || v.Mark.Modules&wire.Loss == 0
				differ, counted := after.Reasons["flow"]-before.Reasons["flow"], after.Packets-before.Packets
				if fits && (differ != 0 || counted != 1) || !fits && (differ != 1 || counted != 0) {
					t.Errorf("%s, %s by %v: %d counted, %d of another aggregate", hook.name, v.Name, source, counted, differ)
				}
				if !fits && !slices.ContainsFunc(after.Mismatches, func(m Mismatch) bool {
					return m.Theirs == source && m.Ours == wanted && m.Source.IsValid() && !m.Seen.IsZero()
				}) {
					t.Errorf("%s, %s by %v: the source is not among %v", hook.name, v.Name, source, after.Mismatches)
				}
				for raw := range d.takeFlows(t) {
					got, want := raw.Marked(), flow.Key{Src: key.Src, Dst: key.Dst}
					if wanted&flow.Protocol != 0 {
						want.Protocol = key.Protocol
					}
					if wanted == flow.All {
						want = key
					} else {
						want.Fields = wanted
					}
					if got != want || flow.RawOf(got) != raw {
						t.Errorf("%s, %s: flow %+v, want %+v", hook.name, v.Name, got, want)
					}
					seen[wanted]++
				}
			}
		}
	}
	if len(seen) < 2 {
		t.Errorf("flows by %v only", seen)
	}
}
