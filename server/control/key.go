package control

import (
	"cmp"
	"fmt"
	"slices"

	"pillion.dev/session"
)

// resolve finds the pairs of each session.
func (c *Control) resolve(hosts []session.Host) {
	for _, r := range c.sessions {
		r.pairs = nil
		if r.active() {
			r.pairs, _, _ = session.Resolve(r.Spec, hosts)
		}
	}
}

// unauthenticated returns the sessions that leave authentication to the server and go without, by
// name, and why: an agent of theirs does not support it, or one of another session with which
// they must agree.
func (c *Control) unauthenticated(known session.Hosts) map[string]string {
	why := map[string]string{}
	var open, without []*record
	for _, r := range c.inOrder() {
		if !r.leavesAuthentication() {
			continue
		}
		open = append(open, r)
		for _, p := range r.pairs {
			for _, name := range []string{p.Destination, p.Source} {
				if host, ok := known[name]; ok && !host.Authenticates() && why[r.Spec.Name] == "" {
					why[r.Spec.Name] = fmt.Sprintf("marks without authentication: "+
						"the version of the agent on %s, in session %s, does not support it", name, r.Spec.Name)
					without = append(without, r)
				}
			}
		}
	}
	for len(without) > 0 {
		r := without[0]
		without = without[1:]
		for _, other := range open {
			if why[other.Spec.Name] == "" && agreeing(r, other, known) {
				why[other.Spec.Name] = why[r.Spec.Name]
				without = append(without, other)
			}
		}
	}
	return why
}

// agreeing reports whether two sessions must agree on authentication: a destination reads the same marks
// of one source for both, or it or the source is of a version that does not distinguish packets.
func agreeing(a, b *record, hosts session.Hosts) bool {
	pairs, sources := map[session.Pair]bool{}, map[string]bool{}
	for _, p := range a.pairs {
		pairs[p], sources[p.Source] = true, true
	}
	overlap := a.Spec.Overlaps(b.Spec)
	return slices.ContainsFunc(b.pairs, func(p session.Pair) bool {
		source, destination := hosts[p.Source], hosts[p.Destination]
		return pairs[p] && (overlap || !destination.AuthenticatesByRule()) || sources[p.Source] && !source.HasPolicies()
	})
}

// leavesAuthentication reports whether the session leaves it to the server.
func (r *record) leavesAuthentication() bool {
	return cmp.Or(r.Spec.Authentication, session.AutoAuthentication) == session.AutoAuthentication
}

// entrust adds to the tasks of an agent what only newer agents know: the key that it shares
// with each peer, the numbers by which marks name who forwarded their packets, and why addresses of peers count without more.
func (c *Control) entrust(r *record, agent string, a session.Assignment) {
	for i := range a.Sources {
		if own := c.agents[agent]; own != nil && len(a.Sources[i].Transit) > 0 {
			a.Sources[i].Number = own.Number
		}
		peers := a.Sources[i].Peers
		for j := range peers {
			peer := &peers[j]
			peer.Key = r.pairKey(agent, peer.Agent)
			peer.Named = r.Spec.Names(peer.Agent)
			if other := c.agents[peer.Agent]; other != nil {
				peer.Approved = other.approvedOf(peer.Addresses)
			}
		}
	}
	for i := range a.Destinations {
		peers := a.Destinations[i].Peers
		for j := range peers {
			if len(a.Destinations[i].Amends) == 0 { // a waypoint checks no tags
				peers[j].Key = r.pairKey(peers[j].Agent, agent)
			}
			if other := c.agents[peers[j].Agent]; other != nil && len(peers[j].Prefixes) > 0 {
				peers[j].Number = other.Number
			}
		}
	}
}

// pairKey is the key of a source and a destination, derived once. Those of many more pairs than
// there are now are forgotten.
func (r *record) pairKey(source, destination string) session.Key {
	pair := session.Pair{Source: source, Destination: destination}
	key, found := r.keys[pair]
	if !found {
		if r.keys == nil || len(r.keys) > 1024+4*len(r.pairs) {
			r.keys = map[session.Pair]session.Key{}
		}
		key = r.Key.Pair(source, destination)
		r.keys[pair] = key
	}
	return key
}
