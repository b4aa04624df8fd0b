package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pillion.dev/agent/validation"
	"pillion.dev/session"
	"pillion.dev/wire"
)

// proofOf returns the keys by which peers prove their addresses, by agent, and the addresses
// that need no proof.
func proofOf(task session.SourceTask) (map[string]*wire.ProbeKey, map[netip.Addr]bool) {
	proofs, approved := map[string]*wire.ProbeKey{}, map[netip.Addr]bool{}
	for _, peer := range task.Peers {
		if len(peer.Key) != 0 {
			key := wire.NewProbeKey(peer.Key)
			proofs[peer.Agent] = &key
		}
		for _, text := range peer.Approved {
			if address, err := netip.ParseAddr(text); err == nil {
				approved[address] = true
			}
		}
	}
	return proofs, approved
}

// keyOf is the key by which an address must be proven; nil: it need not be.
func (task *sourceTask) keyOf(address netip.Addr) *wire.ProbeKey {
	if task.approved[address] {
		return nil
	}
	return task.proofs[task.peers[address]]
}

// names reports whether the session selects the agent by its name.
func (task *sourceTask) names(agent string) bool {
	return slices.ContainsFunc(task.Peers, func(p session.Peer) bool { return p.Agent == agent && p.Named })
}

// Self is what a host knows of itself and its server.
type Self struct {
	// Agent is the name of this host's agent, as which it answers path probes of sessions.
	Agent string `json:"agent"`
	// Reserved are addresses that are not marked unless a session names their agent, and what
	// each is.
	Reserved map[netip.Addr]string `json:"reserved,omitempty"`
}

// Tell sets what the host knows of itself.
func (r *Runner) Tell(self Self) {
	r.mu.Lock()
	r.self = self
	r.setKeys()
	r.mu.Unlock()
	r.wake()
}

// setKeys lets the host answer path probes of the sessions that it reads marks for.
func (r *Runner) setKeys() {
	var secrets [][]byte
	for _, task := range r.assignment.Destinations {
		for _, peer := range task.Peers {
			if len(peer.Key) != 0 {
				secrets = append(secrets, peer.Key)
			}
		}
	}
	r.keys.Set(r.self.Agent, secrets)
}

// admitted returns the addresses of a task to which packets may be marked now: addresses of peers that are alive,
// proven, and not reserved.
func (s *deviceSource) admitted(task sourceTask, pulse session.Pulse) []netip.Addr {
	return slices.DeleteFunc(alive(task, pulse), func(address netip.Addr) bool {
		agent := task.peers[address]
		return s.isReserved(task, address) != "" ||
			task.keyOf(address) != nil && (s.paths == nil || !s.paths.Proven(address, agent))
	})
}

// isReserved returns what the host needs the address for, unless the session names the agent
// that has it; empty: nothing.
func (s *deviceSource) isReserved(task sourceTask, address netip.Addr) string {
	if s.self == nil || task.names(task.peers[address]) {
		return ""
	}
	return s.self.Reserved[address]
}

// addressProved marks to an address, or no longer does, as its proof has changed.
func (s *deviceSource) addressProved(proof validation.Proof) {
	level := slog.LevelInfo
	if proof.State != validation.Passed {
		level = slog.LevelWarn
	}
	s.log.Log(context.Background(), level, "address proof "+string(proof.State), "device", *s.name.Load(), "found", proof.Text())
	if s.proved != nil {
		s.proved()
	}
}

// countAddresses counts the addresses of peers, and says why packets to some of them are not
// marked.
func (s *deviceSource) countAddresses(counters map[string]uint64) (limit string) {
	others := 0
	say := func(text string) {
		if limit == "" {
			limit = text
		} else {
			others++
		}
	}
	if s.paths != nil {
		for _, proof := range s.paths.Proofs() {
			switch proof.State {
			case validation.Pending:
				counters[session.AddressesPending]++
			case validation.Passed:
				counters[session.AddressesProven]++
			default:
				counters[session.AddressesUnproven]++
				say(proof.Text())
			}
		}
	}
	seen := map[netip.Addr]bool{}
	for _, task := range s.tasks {
		for _, address := range addressesOf(task) {
			if why := s.isReserved(task, address); why != "" && !seen[address] {
				seen[address] = true
				counters[session.AddressesReserved]++
				say(fmt.Sprintf("%v of %s is not marked: it is %s; select %s by its name to measure it", address, task.peers[address], why, task.peers[address]))
			}
		}
	}
	if others > 0 {
		limit += fmt.Sprintf("; and %d more addresses", others)
	}
	return limit
}

// unproven are the addresses whose paths are not reported, since they are not proven.
func (s *deviceSource) unproven() map[netip.Addr]bool {
	addresses := map[netip.Addr]bool{}
	for _, proof := range s.paths.Proofs() {
		if proof.State != validation.Passed {
			addresses[proof.Address] = true
		}
	}
	return addresses
}

// Unicast returns the first address of a peer to which packets can be sent, and the
// interface of the route.
func Unicast(peer session.Peer) (device string, to netip.Addr, err error) {
	var reasons []error
	for _, text := range peer.Addresses {
		to, err := netip.ParseAddr(text)
		if err != nil {
			reasons = append(reasons, fmt.Errorf("read address of %s: %w", peer.Agent, err))
			continue
		}
		device, err := routeDevice(to)
		if err != nil {
			reasons = append(reasons, err)
			continue
		}
		// The address of a network or its broadcast address has a route of another type.
		routes, err := netlink.RouteGet(net.IP(to.AsSlice()))
		if err != nil || len(routes) == 0 || routes[0].Type != unix.RTN_UNICAST {
			reasons = append(reasons, fmt.Errorf("%v is not the unicast address of another host", to))
			continue
		}
		return device, to, nil
	}
	return "", to, cmp.Or(errors.Join(reasons...), fmt.Errorf("%s has no address", peer.Agent))
}
