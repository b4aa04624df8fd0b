package runner

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"pillion.dev/session"
	"pillion.dev/wire"
)

const (
	// strictAfter is how long marks of a peer are still accepted without a tag after tags became required,
	// and from flows that sessions no longer select: the peer's agent may learn of the change later, and a
	// rejected mark stays in its packet.
	strictAfter = 20 * time.Second
	// untaggedAfter is how long a source marks nothing before it omits tags, so that its
	// peers no longer require them.
	untaggedAfter = 5 * time.Second
)

var errAuthenticationChanges = errors.New("marks nothing for 5 s: its marks will no longer carry tags")

// markKey returns the key of a peer, if there is one.
func markKey(peer session.Peer) (key wire.Key, ok bool) {
	return key, copy(key[:], peer.Key) == wire.KeyLength
}

// eachKey calls f for each address of a peer with a key, and for the prefixes behind it.
func eachKey(peers []session.Peer, f func(netip.Prefix, wire.Key)) {
	for _, peer := range peers {
		key, ok := markKey(peer)
		if !ok {
			continue
		}
		for _, text := range peer.Addresses {
			if address, err := netip.ParseAddr(text); err == nil {
				f(netip.PrefixFrom(address, address.BitLen()), key)
			}
		}
		if len(peer.Prefixes) > 0 {
			for _, prefix := range peer.Ends() {
				f(prefix, key)
			}
		}
	}
}

// pairKeys are the keys with which the source makes tags: for a peer of several sessions that
// of the first with authentication. Peers without any such session get path probes with a tag, too, if
// another one has the same encoding, and do not look at it.
func pairKeys(tasks []sourceTask) map[netip.Prefix]wire.Key {
	keys := map[netip.Prefix]wire.Key{}
	var wide []netip.Prefix // with authentication
	for _, authenticated := range []bool{true, false} {
		for _, task := range tasks {
			if task.Authenticated != authenticated {
				continue
			}
			eachKey(task.Peers, func(prefix netip.Prefix, key wire.Key) {
				if _, ok := keys[prefix]; ok || !authenticated && slices.ContainsFunc(wide, func(w netip.Prefix) bool { return w.Overlaps(prefix) }) {
					return
				}
				keys[prefix] = key
				if authenticated && !prefix.IsSingleIP() {
					wide = append(wide, prefix)
				}
			})
		}
	}
	return keys
}
