package destination

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"

	"pillion.dev/wire"
)

// Limits of peer.h.
const (
	// PeersMax is how many peers there can be at once.
	PeersMax = 4096
	// KeysMax is how many keys a peer can have.
	KeysMax = 4
)

// ErrPeers refuses more peers or keys than there is room for.
var ErrPeers = errors.New("bad peers")

// Keys are the keys that peers write tags with, by the prefix of the peer. A mark of a peer
// with keys counts only if its tag was made with one of them, just now. Peers without keys
// need no tag. The zero Prefix stands for every host where all are peers.
type Keys map[netip.Prefix][]wire.Key

// Accept replaces the peers and their keys while traffic flows.
func (d *Destination) Accept(peers []netip.Prefix, keys Keys) error {
	wanted := map[netip.Prefix]bool{}
	for _, prefix := range peers {
		wanted[prefix.Masked()] = true
	}
	keys = keys.masked()
	if d.peers != nil && maps.Equal(wanted, d.peers) && maps.EqualFunc(keys, d.keys, slices.Equal) {
		return nil
	}
	if err := d.accept(wanted, keys); err != nil {
		return err
	}
	d.peers, d.keys = wanted, keys
	d.peersState++
	if err := d.objects.PeersState.Set(d.peersState); err != nil {
		return fmt.Errorf("announce change of peers: %w", err)
	}
	return nil
}

func (k Keys) masked() Keys {
	masked := Keys{}
	for prefix, keys := range k {
		if prefix.IsValid() {
			prefix = prefix.Masked()
		}
		masked[prefix] = append(masked[prefix], keys...)
	}
	return masked
}

func (d *Destination) accept(wanted map[netip.Prefix]bool, keys Keys) error {
	if len(wanted) > PeersMax {
		return fmt.Errorf("accept peers: %w: %d, at most %d", ErrPeers, len(wanted), PeersMax)
	}
	if err := d.setKeys(0, keys[netip.Prefix{}]); err != nil {
		return err
	}
	for prefix := range d.peers { // first, so that there is room
		if wanted[prefix] {
			continue
		}
		if err := d.objects.Peers.Delete(rawPeer(prefix)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("remove peer %v: %w", prefix, err)
		}
		delete(d.positions, prefix)
	}
	if d.positions == nil {
		d.positions = map[netip.Prefix]uint32{}
	}
	used, free := map[uint32]bool{}, uint32(1) // the first belongs to peers without a prefix
	for _, position := range d.positions {
		used[position] = true
	}
	for prefix := range wanted {
		position, known := d.positions[prefix]
		if !known {
			for used[free] {
				free++
			}
			position = free
			free++
		}
		if err := d.setKeys(position, keys[prefix]); err != nil { // before the first mark is accepted
			return err
		}
		if err := d.objects.Peers.Put(rawPeer(prefix), position); err != nil {
			return fmt.Errorf("add peer %v: %w", prefix, err)
		}
		d.positions[prefix] = position
	}
	return nil
}

func (d *Destination) setKeys(position uint32, keys []wire.Key) error {
	if len(keys) > KeysMax {
		return fmt.Errorf("accept peers: %w: %d keys of one peer, at most %d", ErrPeers, len(keys), KeysMax)
	}
	raw := destinationPeerKey{Count: uint32(len(keys))}
	for i, key := range keys {
		raw.Keys[i].Words = key.Words()
	}
	if err := d.objects.PeerKeys.Put(position, raw); err != nil {
		return fmt.Errorf("set keys of a peer: %w", err)
	}
	return nil
}

func rawPeer(prefix netip.Prefix) destinationPeer {
	peer := destinationPeer{Prefix: uint32(8 + prefix.Bits()), Family: 6}
	if prefix.Addr().Is4() {
		peer.Family = 4
	}
	copy(peer.Address[:], prefix.Addr().AsSlice())
	return peer
}
