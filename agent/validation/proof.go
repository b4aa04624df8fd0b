package validation

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"pillion.dev/probe/source"
	"pillion.dev/session"
	"pillion.dev/wire"
)

// A Peer is an agent that is said to have an address.
type Peer struct {
	Address netip.Addr
	Agent   string
	// Key seals probes to it, if it is not nil: then only answers with the seal of that agent
	// count, and packets to the address prove nothing else.
	Key *wire.ProbeKey
	// Behind are the prefixes of hosts for which the agent removes marks; marks arrive there if
	// they arrive at the agent.
	Behind []netip.Prefix
	// Encodings in which the path to it is tested.
	Encodings wire.EncodingList
}

// A Proof is what is known about who has an address: Passed while path probes to it are
// answered with the seal of the agent.
type Proof struct {
	Address netip.Addr
	Agent   string
	State   State
	Since   time.Time
}

// Text says what is known.
func (p Proof) Text() string {
	switch p.State {
	case Passed:
		return p.Address.String() + " is proven to be an address of " + p.Agent
	case Pending:
		return "the first proof that " + p.Address.String() + " is an address of " + p.Agent + " has not ended yet"
	case Foreign:
		return p.Address.String() + " is not marked: its host answers path probes, but not as the agent " + p.Agent +
			" of this session: another host has the address"
	}
	return string(session.NotReachable) + p.Address.String() + " of " + p.Agent + " is not marked: " + Unanswered.Text()
}

// proof stands for the encoding of a path whose test is the proof of an address: its probes
// have no mark.
const proof = wire.Encoding(0xfe)

// ProofLife is how long a proof holds without another one; at 100 and more paths per second
// of refreshLeast it is three times the interval between them.
const ProofLife = 30 * time.Second

// Expect sets the agents that have addresses, and has these addresses and the paths to them tested although no flow
// uses them yet; others are no longer kept. Of several peers with one address the first counts, with the encodings
// of all. A path that was not kept is tested at once unless it has passed. A new agent or key of an address
// requires a new proof.
func (p *Prober) Expect(peers []Peer) {
	p.mu.Lock()
	before := p.peers
	p.peers = map[netip.Addr]Peer{}
	var paths []source.Path
	for _, peer := range peers {
		paths = append(paths, PathsTo(peer.Address, peer.Encodings)...)
		if _, taken := p.peers[peer.Address]; taken {
			continue
		}
		p.peers[peer.Address] = peer
		if peer.Key != nil {
			paths = append(paths, source.Path{Address: peer.Address, Encoding: proof})
		}
	}
	p.forgetBehind(func(source.Path) bool { return true })
	for address, was := range before {
		if now := p.peers[address]; now.Agent != was.Agent || (now.Key == nil) != (was.Key == nil) {
			delete(p.paths, source.Path{Address: address, Encoding: proof})
		}
	}
	p.keep(paths)
	p.mu.Unlock()
	p.reschedule()
}

// keep tests these paths. The caller holds the lock.
func (p *Prober) keep(paths []source.Path) {
	before := map[*path]bool{}
	for _, known := range p.paths {
		before[known], known.kept = known.kept, false
	}
	for _, path := range paths {
		known := p.add(path)
		if known.kept = true; !before[known] && known.State != Passed {
			known.due = time.Now()
		}
	}
	for key, known := range p.paths {
		if key.Encoding == proof && !known.kept {
			delete(p.paths, key) // the source knows no such path
		}
	}
}

// Proven reports whether an address is proven to be one of this agent.
func (p *Prober) Proven(address netip.Addr, agent string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.paths[source.Path{Address: address, Encoding: proof}]
	return known != nil && known.State == Passed && p.peers[address].Agent == agent
}

// blocked reports whether no marked probe may be sent to an address, since it is not proven.
// The caller holds the lock.
func (p *Prober) blocked(key source.Path) bool {
	if key.Encoding == proof || p.peers[key.Address].Key == nil {
		return false
	}
	known := p.paths[source.Path{Address: key.Address, Encoding: proof}]
	return known == nil || known.State != Passed
}

// Proofs returns what is known about addresses, by address.
func (p *Prober) Proofs() []Proof {
	p.mu.Lock()
	defer p.mu.Unlock()
	var proofs []Proof
	for key, known := range p.paths {
		if key.Encoding == proof {
			proofs = append(proofs, p.proof(known.Path))
		}
	}
	slices.SortFunc(proofs, func(a, b Proof) int { return cmp.Or(a.Address.Compare(b.Address)) })
	return proofs
}

// proof returns a proof. The caller holds the lock.
func (p *Prober) proof(known Path) Proof {
	return Proof{known.Address, p.peers[known.Address].Agent, known.State, known.Since}
}

// notify passes on a change of what is known.
func (p *Prober) notify(after Path) {
	if after.Encoding != proof {
		p.changed(after)
		return
	}
	p.mu.Lock()
	found := p.proof(after)
	p.mu.Unlock()
	if p.proved != nil {
		p.proved(found)
	}
}

// Equal reports whether both are the same agent at the same address, with the same key and the
// same hosts behind it.
func (peer Peer) Equal(other Peer) bool {
	if peer.Address != other.Address || peer.Agent != other.Agent || (peer.Key == nil) != (other.Key == nil) ||
		!slices.Equal(peer.Behind, other.Behind) || !slices.Equal(peer.Encodings, other.Encodings) {
		return false
	}
	return peer.Key == nil || peer.Key.Number() == other.Key.Number()
}

// message returns the datagram of a probe: sealed, if the peer has a key.
func (peer Peer) message(probe wire.Probe) []byte {
	if peer.Key == nil {
		return probe.Append(nil)
	}
	return peer.Key.Seal(probe.Append(nil), peer.Address, peer.Agent)
}

// genuine reports whether an answer is from the peer, as far as it must prove that.
func (peer Peer) genuine(answer []byte) bool {
	return peer.Key == nil || peer.Key.Verify(answer, peer.Address, peer.Agent)
}
