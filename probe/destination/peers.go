package destination

import (
	"cmp"
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
	// peersPage is how many peers a page of the tables has: a host with few has one page, of 128 KiB in all.
	peersPage = 1024
	// PeersMax is how many peers there can be at once. Each takes 128 bytes in the tables and up to 100 in the tree of prefixes.
	PeersMax = 128*peersPage - 1
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
	// with one of them, just now. Without any, marks need no tag; with some, those that only
	// rules without authentication select need none.
	Keys []wire.Key
	// Rules select the packets that are measured; none means all.
	Rules []Rule
	// Amends select packets on their way to another host, into whose marks the time of their
	// arrival here is written; none means no packets. For that, tags are not checked.
	Amends []fivetuple.Filter
	// Unread: no mark of the peer counts.
	Unread bool
}

// Rule selects packets, and says which fields tell their flows apart where these differ
// (Settings.FlowsDiffer); 0: all fields.
type Rule struct {
	fivetuple.Filter
	Flow flow.Fields
	// Untagged: marks need no tag, whatever keys their peer has, unless another rule of that peer
	// which is not untagged selects the packet, too.
	Untagged bool
}

// Rules returns a rule for each of some filters.
func Rules(filters ...fivetuple.Filter) []Rule {
	var rules []Rule
	for _, filter := range filters {
		rules = append(rules, Rule{Filter: filter})
	}
	return rules
}

func (p Peer) equal(other Peer) bool {
	return slices.Equal(p.Keys, other.Keys) && slices.Equal(p.Rules, other.Rules) && slices.Equal(p.Amends, other.Amends) && p.Unread == other.Unread
}

// Peers are the hosts whose marks count, by prefix. The zero Prefix stands for every host
// where all are peers.
type Peers map[netip.Prefix]Peer

// Ingresses are the agents, by number, whose marks of packets that they forward count: marks
// name them. A mark that names another agent is of no peer, whatever the source of the packet.
type Ingresses map[uint32]Peer

// origin is what a mark is attributed by: the source of the packet, or the number in the mark.
type origin struct {
	prefix  netip.Prefix
	ingress uint32
}

// origins are all that marks are accepted from. The zero origin: every host.
func origins(peers Peers, ingresses Ingresses) map[origin]Peer {
	all := map[origin]Peer{}
	for prefix, peer := range peers {
		all[origin{prefix: prefix}] = peer
	}
	for number, peer := range ingresses {
		all[origin{ingress: number}] = peer
	}
	return all
}

// Prefixes returns the peers' prefixes, in order; none if all hosts are peers.
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
func (d *Destination) Accept(peers Peers, ingresses Ingresses) error {
	wanted := origins(peers.masked(), ingresses)
	if d.origins != nil && maps.EqualFunc(wanted, d.origins, Peer.equal) {
		return nil
	}
	if err := d.accept(wanted); err != nil {
		d.origins = nil // some may be set
		return fmt.Errorf("accept peers: %w", err)
	}
	d.origins = wanted
	d.peersState++
	if err := d.objects.PeersState.Set(d.peersState); err != nil {
		return fmt.Errorf("announce change of peers: %w", err)
	}
	return nil
}

func (d *Destination) accept(wanted map[origin]Peer) error {
	if n := len(wanted); n > PeersMax {
		return fmt.Errorf("%w: %d prefixes and agents, limit %d", ErrPeers, n, PeersMax)
	}
	for from := range wanted {
		if from.ingress > wire.IngressMax {
			return fmt.Errorf("%w: ingress number %d, limit %d", ErrPeers, from.ingress, wire.IngressMax)
		}
	}
	rules, err := d.addRules(wanted)
	if err != nil {
		return err
	}
	if err := d.setPeer(0, wanted[origin{}], rules); err != nil {
		return err
	}
	for from := range d.positions { // first, so that there is room
		if _, ok := wanted[from]; ok {
			continue
		}
		if err := d.drop(from); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("remove %v: %w", from, err)
		}
		delete(d.positions, from)
	}
	if err := d.addPeers(wanted, rules); err != nil {
		return err
	}
	d.rules = rules // those that are in no use any more may be overwritten
	return nil
}

func (d *Destination) addPeers(wanted map[origin]Peer, rules places) error {
	if d.positions == nil {
		d.positions = map[origin]uint32{}
	}
	used, free := map[uint32]bool{}, uint32(1) // the first belongs to peers without a prefix
	for _, position := range d.positions {
		used[position] = true
	}
	for from, peer := range wanted {
		if from == (origin{}) {
			continue
		}
		position, known := d.positions[from]
		if !known {
			for used[free] {
				free++
			}
			position = free
			free++
		}
		if before, was := d.origins[from]; known && was && before.equal(peer) {
			continue
		}
		if err := d.setPeer(position, peer, rules); err != nil { // before the first mark is accepted
			return err
		}
		if err := d.remember(from, position); err != nil {
			return fmt.Errorf("add %v: %w", from, err)
		}
		d.positions[from] = position
	}
	return nil
}

// remember lets the program find the position of a peer.
func (d *Destination) remember(from origin, position uint32) error {
	if from.ingress != 0 {
		return d.putEntry(d.objects.Ingresses, destinationMapIngresses, from.ingress, position)
	}
	return d.objects.Positions.Put(flow.NewHostPrefix(from.prefix), position)
}

func (d *Destination) drop(from origin) error {
	if from.ingress != 0 {
		return d.putEntry(d.objects.Ingresses, destinationMapIngresses, from.ingress, uint32(0))
	}
	return d.objects.Positions.Delete(flow.NewHostPrefix(from.prefix))
}

// String is the prefix or the number.
func (o origin) String() string {
	if o.ingress != 0 {
		return fmt.Sprintf("ingress %d", o.ingress)
	}
	return o.prefix.String()
}

func (d *Destination) setPeer(position uint32, peer Peer, rules places) error {
	if n := len(peer.Keys); n > KeysMax {
		return fmt.Errorf("%w: %d keys of one peer, limit %d", ErrPeers, n, KeysMax)
	}
	raw := destinationPeer{Count: uint32(len(peer.Keys)), Rules: rules.of(peer.Rules), Amends: rules.of(Rules(peer.Amends...)), Untagged: rules.untagged(peer.Rules)}
	if peer.Unread {
		raw.Unread = 1
	}
	for i, key := range peer.Keys {
		raw.Keys[i].Words = key.Words()
	}
	if err := d.addPage(d.objects.PeerFlows, destinationMapPeerFlows, position/peersPage); err != nil {
		return fmt.Errorf("make room for flows of a peer: %w", err)
	}
	if err := d.putEntry(d.objects.Peers, destinationMapPeers, position, raw); err != nil {
		return fmt.Errorf("set keys and rules of a peer: %w", err)
	}
	return nil
}

// pageName is a page of a table of pages.
type pageName struct {
	table string
	page  uint32
}

// putEntry sets an entry of a table of pages, to which it adds the page if it is not there.
func (d *Destination) putEntry(table *ebpf.Map, name string, number uint32, value any) error {
	page := number / peersPage
	if err := d.addPage(table, name, page); err != nil {
		return err
	}
	return d.pages[pageName{name, page}].Put(number%peersPage, value)
}

// addPage adds a page to a table unless it is there.
func (d *Destination) addPage(table *ebpf.Map, name string, page uint32) error {
	if d.pages[pageName{name, page}] != nil {
		return nil
	}
	spec, err := loadDestination()
	if err != nil {
		return err
	}
	entries, err := ebpf.NewMap(spec.Maps[name].InnerMap)
	if err != nil {
		return err
	}
	if d.pages == nil {
		d.pages = map[pageName]*ebpf.Map{}
	}
	if err := table.Put(page, entries); err != nil {
		return errors.Join(err, entries.Close())
	}
	d.pages[pageName{name, page}] = entries
	return nil
}

// entry returns what the table of all rules has of a rule: the rest is a matter of each peer.
func (r Rule) entry() Rule {
	r.Untagged = false
	return r
}

// places are the positions of rules in their table.
type places map[Rule]int

// of returns the rules of a peer as bits.
func (p places) of(rules []Rule) (bits [2]uint64) {
	for _, rule := range rules {
		place := p[rule.entry()]
		bits[place/64] |= 1 << (place % 64)
	}
	return bits
}

// untagged returns the places of the rules that need no tag. A rule that occurs with and without needs one.
func (p places) untagged(rules []Rule) (bits [2]uint64) {
	for _, rule := range rules {
		if place := p[rule.entry()]; rule.Untagged && !slices.Contains(rules, rule.entry()) {
			bits[place/64] |= 1 << (place % 64)
		}
	}
	return bits
}

// addRules returns the rules of all peers. New ones take places that no peer refers to yet.
func (d *Destination) addRules(wanted map[origin]Peer) (places, error) {
	rules, free := places{}, 0
	for _, peer := range wanted {
		for _, rule := range append(slices.Clone(peer.Rules), Rules(peer.Amends...)...) {
			rules[rule.entry()] = -1
		}
	}
	if n := len(rules); n > FiltersMax {
		return nil, fmt.Errorf("%w: %d different filters, limit %d", ErrPeers, n, FiltersMax)
	}
	taken := map[int]bool{}
	for rule, place := range d.rules {
		taken[place] = true
		if _, ok := rules[rule]; ok {
			rules[rule] = place
		}
	}
	for rule, place := range rules {
		if place >= 0 {
			continue
		}
		for taken[free] {
			free++
		}
		taken[free], rules[rule] = true, free
	}
	return rules, d.writeRules(rules)
}

// writeRules does not change those in use, which stay where they are.
func (d *Destination) writeRules(rules places) error {
	var table [2 * FiltersMax]flow.Rule // so that all can be replaced at once
	if err := d.objects.Rules.Get(&table); err != nil {
		return fmt.Errorf("read rules: %w", err)
	}
	for rule, place := range rules {
		table[place] = flow.NewRule(rule.Filter)
		table[place].Policy = uint8(cmp.Or(rule.Flow, flow.All))
	}
	if err := d.objects.Rules.Set(table); err != nil {
		return fmt.Errorf("write rules: %w", err)
	}
	return nil
}
