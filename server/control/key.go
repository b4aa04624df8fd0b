package control

import (
	"cmp"
	"fmt"

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

// authentication is that of sessions which leave it open. It is one for all of them, since
// sessions on one interface must agree: off while an agent of theirs does not support it, and
// limit says so.
func (c *Control) authentication(hosts []session.Host) (way, limit string) {
	incapable := map[string]bool{}
	for _, host := range hosts {
		incapable[host.Name] = !host.Authenticates()
	}
	for _, r := range c.inOrder() {
		if !r.leavesAuthentication() {
			continue
		}
		for _, p := range r.pairs {
			for _, name := range []string{p.Destination, p.Source} {
				if incapable[name] {
					return session.Unauthenticated, fmt.Sprintf("marks without authentication: "+
						"the version of the agent on %s, in session %s, does not support it", name, r.Spec.Name)
				}
			}
		}
	}
	return session.Authenticated, ""
}

// leavesAuthentication reports whether the session leaves it to the server.
func (r *record) leavesAuthentication() bool {
	return cmp.Or(r.Spec.Authentication, session.AutoAuthentication) == session.AutoAuthentication
}

// entrust adds to the tasks of an agent what only newer agents know: the key that it shares
// with each peer, and why addresses of peers count without more.
func (c *Control) entrust(r *record, agent string, a session.Assignment) {
	for i := range a.Sources {
		peers := a.Sources[i].Peers
		for j := range peers {
			peer := &peers[j]
			peer.Key = r.Key.Pair(agent, peer.Agent)
			peer.Named = r.Spec.Names(peer.Agent)
			if other := c.agents[peer.Agent]; other != nil {
				peer.Approved = other.approvedOf(peer.Addresses)
			}
		}
	}
	for i := range a.Destinations {
		peers := a.Destinations[i].Peers
		for j := range peers {
			peers[j].Key = r.Key.Pair(peers[j].Agent, agent)
		}
	}
}
