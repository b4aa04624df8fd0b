package validation

import (
	"net/netip"
	"slices"

	"pillion.dev/probe/source"
)

// edgeOf returns the address of the agent behind which a host is, if it is behind one: hosts
// without an agent answer no path probes, and marks for them are removed at the edge. The
// caller holds the lock.
func (p *Prober) edgeOf(host netip.Addr) (edge netip.Addr, ok bool) {
	if _, own := p.peers[host]; own {
		return edge, false
	}
	for address, peer := range p.peers {
		if address.Is4() != host.Is4() || ok && edge.Less(address) {
			continue
		}
		if slices.ContainsFunc(peer.Behind, func(prefix netip.Prefix) bool { return prefix.Contains(host) }) {
			edge, ok = address, true
		}
	}
	return edge, ok
}

// follow gives the path to a host behind an edge the state of the path to the edge, now and
// whenever that changes. It returns false if the host is behind none. The caller holds the lock.
func (p *Prober) follow(path source.Path) bool {
	edge, ok := p.edgeOf(path.Address)
	if !ok || len(p.behind) >= p.most/2 { // packets on further ones are not marked
		return ok
	}
	to := source.Path{Address: edge, Encoding: path.Encoding}
	p.behind[path] = to
	if known := p.add(to); known.applied() != Pending {
		p.setOne(path, known.applied())
		if known.MTU != 0 {
			p.limitOne(path.Address, known.MTU)
		}
	}
	return true
}

// followers calls f for a path and for those to hosts behind its end.
func (p *Prober) followers(path source.Path, f func(source.Path)) {
	f(path)
	for host, edge := range p.behind {
		if edge == path {
			f(host)
		}
	}
}

// set passes the state of a path to the source. The caller holds the lock.
func (p *Prober) set(path source.Path, state State) {
	p.followers(path, func(path source.Path) { p.setOne(path, state) })
}

func (p *Prober) setOne(path source.Path, state State) {
	if err := p.source.SetValidation(path, state.forSource()); err != nil {
		p.log.Warn("validate path", "address", path.Address, "encoding", path.Encoding, "error", err)
	}
}

// limit limits the size of packets on a path; 0: no longer. The caller holds the lock.
func (p *Prober) limit(path source.Path, size int) {
	p.followers(path, func(path source.Path) { p.limitOne(path.Address, size) })
}

func (p *Prober) limitOne(address netip.Addr, size int) {
	if err := p.source.LimitPath(address, size); err != nil {
		p.log.Warn("limit size of packets", "address", address, "error", err)
	}
}

// forgetBehind removes paths to hosts that are now behind another edge, and paths that are not used. The caller
// holds the lock.
func (p *Prober) forgetBehind(used func(source.Path) bool) {
	for host, edge := range p.behind {
		if now, ok := p.edgeOf(host.Address); ok && now == edge.Address && used(host) {
			continue
		}
		delete(p.behind, host)
		if err := p.source.ForgetPath(host); err != nil {
			p.log.Warn("forget path", "error", err)
		}
	}
}
