package destination

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"

	"pillion.dev/probe/flow"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// Limits of peer.h.
const (
	// PeersMax is how many peers there can be at once.
	PeersMax = 4096
	// KeysMax is how many keys a peer can have.
	KeysMax = 4
	// FiltersMax is how many different filters all peers can have.
	FiltersMax = flow.RulesMax
)

// ErrPeers refuses more peers, keys or filters than there is room for.
var ErrPeers = errors.New("bad peers")

// Peer says which marks of a peer count; others stay in their packets. The zero Peer: all.
type Peer struct {
	// Keys are those that the peer writes tags with: a mark counts only if its tag was made
	// with one of them, just now. Without any, marks need no tag.
	Keys []wire.Key
	// Filters select the packets that are measured; none means all.
	Filters []fivetuple.Filter
}

func (p Peer) equal(other Peer) bool {
	return slices.Equal(p.Keys, other.Keys) && slices.Equal(p.Filters, other.Filters)
}

// Peers are the hosts whose marks count, by prefix. The zero Prefix stands for every host
// where all are peers.
type Peers map[netip.Prefix]Peer

// Prefixes returns those of the peers, in order; none if all hosts are peers.
func (p Peers) Prefixes() []netip.Prefix {
	var prefixes []netip.Prefix
	for prefix := range p {
		if prefix.IsValid() {
			prefixes = append(prefixes, prefix)
		}
	}
	slices.SortFunc(prefixes, netip.Prefix.Compare)
	return prefixes
}

func (p Peers) masked() Peers {
	masked := Peers{}
	for prefix, peer := range p {
		if prefix.IsValid() {
			prefix = prefix.Masked()
		}
		masked[prefix] = peer
	}
	return masked
}

// Accept replaces the peers while traffic flows.
func (d *Destination) Accept(peers Peers) error {
	peers = peers.masked()
	if d.peers != nil && maps.EqualFunc(peers, d.peers, Peer.equal) {
		return nil
	}
	if err := d.accept(peers); err != nil {
		return fmt.Errorf("accept peers: %w", err)
	}
	d.peers = peers
	d.peersState++
	if err := d.objects.PeersState.Set(d.peersState); err != nil {
		return fmt.Errorf("announce change of peers: %w", err)
	}
	return nil
}

func (d *Destination) accept(wanted Peers) error {
	if n := len(wanted); n > PeersMax {
		return fmt.Errorf("%w: %d prefixes, limit %d", ErrPeers, n, PeersMax)
	}
	rules, err := d.addRules(wanted)
	if err != nil {
		return err
	}
	if err := d.setPeer(0, wanted[netip.Prefix{}], rules); err != nil {
		return err
	}
	for prefix := range d.positions { // first, so that there is room
		if _, ok := wanted[prefix]; ok {
			continue
		}
		if err := d.objects.Positions.Delete(flow.NewHostPrefix(prefix)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("remove %v: %w", prefix, err)
		}
		delete(d.positions, prefix)
	}
	if err := d.addPeers(wanted, rules); err != nil {
		return err
	}
	d.rules = rules // those that are in no use any more may be overwritten
	return nil
}

func (d *Destination) addPeers(wanted Peers, rules filterRules) error {
	if d.positions == nil {
		d.positions = map[netip.Prefix]uint32{}
	}
	used, free := map[uint32]bool{}, uint32(1) // the first belongs to peers without a prefix
	for _, position := range d.positions {
		used[position] = true
	}
	for prefix, peer := range wanted {
		if !prefix.IsValid() {
			continue
		}
		position, known := d.positions[prefix]
		if !known {
			for used[free] {
				free++
			}
			position = free
			free++
		}
		if err := d.setPeer(position, peer, rules); err != nil { // before the first mark is accepted
			return err
		}
		if err := d.objects.Positions.Put(flow.NewHostPrefix(prefix), position); err != nil {
			return fmt.Errorf("add %v: %w", prefix, err)
		}
		d.positions[prefix] = position
	}
	return nil
}

func (d *Destination) setPeer(position uint32, peer Peer, rules filterRules) error {
	if n := len(peer.Keys); n > KeysMax {
		return fmt.Errorf("%w: %d keys of one peer, limit %d", ErrPeers, n, KeysMax)
	}
	raw := destinationPeer{Count: uint32(len(peer.Keys)), Rules: rules.of(peer.Filters)}
	for i, key := range peer.Keys {
		raw.Keys[i].Words = key.Words()
	}
	if err := d.objects.Peers.Put(position, raw); err != nil {
		return fmt.Errorf("set keys and rules of a peer: %w", err)
	}
	return nil
}

// filterRules are the positions of filters in the table of rules.
type filterRules map[fivetuple.Filter]int

// of returns the rules of a peer as bits.
func (r filterRules) of(filters []fivetuple.Filter) (bits [2]uint64) {
	for _, filter := range filters {
		bits[r[filter]/64] |= 1 << (r[filter] % 64)
	}
	return bits
}

// addRules returns the rules of all peers. New ones take places that no peer refers to yet.
func (d *Destination) addRules(wanted Peers) (filterRules, error) {
	rules, free := filterRules{}, 0
	for _, peer := range wanted {
		for _, filter := range peer.Filters {
			rules[filter] = -1
		}
	}
	if n := len(rules); n > FiltersMax {
		return nil, fmt.Errorf("%w: %d different filters, limit %d", ErrPeers, n, FiltersMax)
	}
	taken := map[int]bool{}
	for filter, place := range d.rules {
		taken[place] = true
		if _, ok := rules[filter]; ok {
			rules[filter] = place
		}
	}
	for filter, place := range rules {
		if place >= 0 {
			continue
		}
		for taken[free] {
			free++
		}
		taken[free], rules[filter] = true, free
	}
	return rules, d.writeRules(rules)
}

// writeRules does not change those in use, which stay where they are.
func (d *Destination) writeRules(rules filterRules) error {
	var table [2 * FiltersMax]flow.Rule // so that all can be replaced at once
	if err := d.objects.Rules.Get(&table); err != nil {
		return fmt.Errorf("read rules: %w", err)
	}
	for filter, place := range rules {
		table[place] = flow.NewRule(filter)
	}
	if err := d.objects.Rules.Set(table); err != nil {
		return fmt.Errorf("write rules: %w", err)
	}
	return nil
}
