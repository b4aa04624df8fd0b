package destination

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/probe/hook"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

func filters(t *testing.T, texts ...string) []fivetuple.Filter {
	t.Helper()
	all := make([]fivetuple.Filter, len(texts))
	for i, text := range texts {
		if err := all[i].UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// peersWith are all peers of the golden packets, with these filters.
func peersWith(filters []fivetuple.Filter) Peers {
	peer := Peer{Rules: Rules(filters...)}
	return Peers{netip.MustParsePrefix("0.0.0.0/0"): peer, netip.MustParsePrefix("::/0"): peer}
}

// TestMarkOutsideTheFilters: a mark of a peer that no session selects is neither counted nor
// taken out, in any encoding.
func TestMarkOutsideTheFilters(t *testing.T) {
	for _, texts := range [][]string{
		{"dport=9"}, {"proto=udp"}, {"proto=tcp"}, {"src=192.0.2.0/24"}, {"dst=2001:db8::/32", "proto=icmp"}, {"src=198.51.100.1"},
	} {
		want := filters(t, texts...)
		d := open(t, Settings{Peers: peersWith(want)})
		for _, hook := range hooks[:2] {
			for _, v := range golden(t) {
				if v.Port != wire.Port {
					continue
				}
				key := keyOf(v.Original)
				selected := slices.ContainsFunc(want, func(f fivetuple.Filter) bool { return f.Matches(key) })
				before := d.mustTally(t)
				out := run(t, hook.program(d), frame(v.Marked), 0)
				after := d.mustTally(t)
				if refused := after.Reasons["filter"] > before.Reasons["filter"]; refused == selected {
					t.Errorf("%s, %s, %s: selected %v, refused %v", texts, hook.name, v.Name, selected, refused)
				}
				if !selected && (after.Packets != before.Packets || !bytes.Equal(out, frame(v.Marked))) {
					t.Errorf("%s, %s, %s: counted, or changed", texts, hook.name, v.Name)
				}
			}
		}
	}
}

// TestFiltersChange: a run of packets that are counted the short way ends when the filters do,
// also if all of them are replaced at once.
func TestFiltersChange(t *testing.T) {
	d := open(t, Settings{Peers: peersWith(nil)})
	number, marked, refused := 0, uint64(0), uint64(0)
	check := func(name string, selected bool) {
		t.Helper()
		arriveInOrder(t, d, 1, number, 5)
		number += 5
		if selected {
			marked += 5
		} else {
			refused += 5
		}
		if tally := d.mustTally(t); tally.Packets != marked || tally.Reasons["filter"] != refused {
			t.Fatalf("%s: %d and %d, want %d and %d", name, tally.Packets, tally.Reasons["filter"], marked, refused)
		}
	}
	accept := func(filters []fivetuple.Filter) {
		t.Helper()
		if err := d.Accept(peersWith(filters), nil); err != nil {
			t.Fatal(err)
		}
	}
	many := func(first, n int) []string {
		texts := make([]string, n)
		for i := range texts {
			texts[i] = fmt.Sprintf("dport=%d", first+i)
		}
		return texts
	}
	check("no filter", true)
	accept(filters(t, "proto=tcp"))
	check("other protocol", false)
	accept(filters(t, "proto=tcp", "proto=udp"))
	check("protocol", true)
	accept(filters(t, many(40000, FiltersMax)...))
	check("many others", false)
	accept(filters(t, append(many(50000, FiltersMax-1), "proto=udp")...))
	check("the last of many", true)
	if err := d.Accept(peersWith(filters(t, many(1, FiltersMax+1)...)), nil); !errors.Is(err, ErrPeers) {
		t.Errorf("too many filters: %v", err)
	}
	check("after the error", true)
}

// TestSparseFlowOutsideTheFilters: packets without a mark of a flow that is no longer selected.
func TestSparseFlowOutsideTheFilters(t *testing.T) {
	for _, slots := range []int{0, 1} {
		d := open(t, Settings{slots: slots, Peers: peersWith(nil)})
		f := sparseFlow{t, d.objects.DestinationTc, nil, wire.UDPOption, originalOf(t, "udp-option delay ipv4 udp"), 1 << 16}
		f.arrive(0, true)
		f.arrive(1, false)
		if err := d.Accept(peersWith(filters(t, "proto=tcp")), nil); err != nil {
			t.Fatal(err)
		}
		f.arrive(2, false)
		f.arrive(3, true)
		f.arrive(4, false)
		if tally := d.mustTally(t); tally.Packets != 2 || tally.Unmarked != 2 || tally.Reasons["filter"] != 1 {
			t.Errorf("%+v", tally)
		}
		d.takeFlows(t)
	}
}

// TestReplaceKeepsFilters: the program that takes the place of another knows its filters.
func TestReplaceKeepsFilters(t *testing.T) {
	host := namespace.New(t)
	settings := Settings{Peers: peersWith(filters(t, "proto=tcp"))}
	var first, second *Destination
	err := netns.Do(host, func() error {
		device, err := hook.Find("lo")
		if err == nil {
			first, err = Open(device, settings)
		}
		if err == nil {
			second, err = first.Replace(settings)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	arriveInOrder(t, second, 1, 0, 5)
	if tally := second.mustTally(t); tally.Packets != 0 || tally.Reasons["filter"] != 5 {
		t.Errorf("%+v", tally)
	}
	if err := netns.Do(host, func() error { return errors.Join(first.Close(), second.Close()) }); err != nil {
		t.Fatal(err)
	}
}
