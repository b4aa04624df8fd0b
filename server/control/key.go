package control

import "pillion.dev/session"

// resolve finds the pairs of each session.
func (c *Control) resolve(hosts []session.Host) {
	for _, r := range c.sessions {
		r.pairs = nil
		if r.active() {
			r.pairs, _, _ = session.Resolve(r.Spec, hosts)
		}
	}
}

// entrust adds to the tasks of an agent the key that it shares with each peer, the numbers by which marks name who forwarded their packets, and why addresses of peers count without more.
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

// pairKey is the key of a source and a destination, derived once. All derived keys are forgotten when there are
// many more of them than pairs.
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
