// Package policy is what a host allows servers to have done on it. It is a file of the host
// that no server can change, and it is enforced by the agent before anything is done.
//
// Without a file the defaults apply, which let sessions measure whatever they ask for, but send
// little, and only to the hosts that they measure.
package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"pillion.dev/internal/quantity"
	"pillion.dev/session"
)

// DefaultFile is read if it exists and no other file is given.
const DefaultFile = "/etc/pillion/policy.yaml"

// Policy of a host. Its methods may be called from several goroutines.
type Policy struct {
	// Peers are patterns of agents' names, Prefixes of their addresses, and Devices of
	// interfaces that sessions may use; nil: all. Encodings are those that this host may mark in;
	// nil: all.
	Peers     []string `yaml:"peers"`
	Prefixes  []string `yaml:"prefixes"`
	Devices   []string `yaml:"devices"`
	Encodings []string `yaml:"encodings"`
	// Transit are prefixes of hosts without an agent whose packets may be marked and measured by a
	// host that forwards them: those behind this host, and those behind its peers; default none.
	Transit []string `yaml:"transit"`
	// Marking is what sources of sessions may mark.
	Marking Marking `yaml:"marking"`
	// Decapsulation: marks may be read and removed, with outer headers; default true.
	Decapsulation bool `yaml:"decapsulation"`
	// Capture: the agent's configuration may have packets captured; default true.
	Capture bool `yaml:"capture"`
	// RouterProfiles: sessions may profile this host as a router; default true.
	RouterProfiles bool `yaml:"router_profiles"`
	// Sending is what tasks of sessions may send.
	Sending Sending `yaml:"sending"`

	prefixes, transit []netip.Prefix
	// file is empty for the defaults; lines are the line numbers of the keys in it.
	file  string
	lines map[string]int

	mu       sync.Mutex
	admitted map[*Request]bool
}

// Sending is what tasks of sessions may send.
type Sending struct {
	// Allowed: sessions may send at all; default true.
	Allowed bool `yaml:"allowed"`
	// Targets are prefixes to which packets may be sent; nil: the addresses of all agents that a
	// session measures from this host.
	Targets []string `yaml:"targets"`
	// Rate is the limit for all tasks together in bit/s; default 10M.
	Rate quantity.Size `yaml:"rate"`
	// PacketsPerSecond is the limit for all tasks together; default 1000.
	PacketsPerSecond int64 `yaml:"packets_per_second"`
	// Protocols that may be sent: udp, tcp, icmp and raw; default udp and icmp.
	Protocols []string `yaml:"protocols"`

	targets []netip.Prefix
}

// Default is the policy without a file.
func Default() *Policy {
	return &Policy{
		Marking: Marking{Allowed: true, Every: 1}, Decapsulation: true, Capture: true, RouterProfiles: true,
		Sending: Sending{Allowed: true, Rate: 10_000_000, PacketsPerSecond: 1000, Protocols: []string{"udp", "icmp"}},
	}
}

// ErrPolicy marks an invalid policy file.
var ErrPolicy = errors.New("invalid policy")

// protocols are the values of the option protocol of the point send.
var protocols = []string{"udp", "tcp", "icmp", "raw"}

// Request is what a task asks to send.
type Request struct {
	// Target is the destination address, which the session's assignment names.
	Target   netip.Addr
	Protocol string // one of Sending.Protocols
	// The most that the task will send.
	BitsPerSecond, PacketsPerSecond int64
}

// ErrRefused marks a request that the policy does not allow.
var ErrRefused = errors.New(string(session.Refused))

// Admit reserves what the request asks for until release is called, or returns why the policy
// does not allow it.
func (p *Policy) Admit(r Request) (release func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.send(r); err != nil {
		return nil, err
	}
	if p.admitted == nil {
		p.admitted = map[*Request]bool{}
	}
	held := &r
	p.admitted[held] = true
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.admitted, held)
	}, nil
}

func (p *Policy) send(r Request) error {
	s := &p.Sending
	switch a := r.Target; {
	case !s.Allowed:
		return p.at("sending.allowed", "sending is not allowed")
	case !isUnicast(a):
		return fmt.Errorf("%w: %v is not the unicast address of another host", ErrRefused, a)
	case s.Targets != nil && !slices.ContainsFunc(s.targets, func(prefix netip.Prefix) bool { return prefix.Contains(a.Unmap()) }):
		return p.at("sending.targets", "%v is in none of the targets: %s", a, listed(s.Targets))
	case !slices.Contains(s.Protocols, r.Protocol):
		return p.at("sending.protocols", "protocol %s is not one of %s", r.Protocol, strings.Join(s.Protocols, ", "))
	}
	var bits, packets int64
	for other := range p.admitted {
		bits += other.BitsPerSecond
		packets += other.PacketsPerSecond
	}
	if r.BitsPerSecond > int64(s.Rate)-bits {
		return p.at("sending.rate", "%s exceed the limit of %s, of which other tasks use %s", quantity.FormatRate(r.BitsPerSecond), quantity.FormatRate(int64(s.Rate)), quantity.FormatRate(bits))
	}
	if r.PacketsPerSecond > s.PacketsPerSecond-packets {
		return p.at("sending.packets_per_second", "%d packets/s exceed the limit of %d packets/s, of which other tasks use %d", r.PacketsPerSecond, s.PacketsPerSecond, packets)
	}
	return nil
}

// isUnicast reports whether packets to an address can leave for one other host. The kernel refuses to send to the broadcast
// address of a network.
func isUnicast(a netip.Addr) bool {
	return a.Unmap().IsGlobalUnicast() || a.Unmap().IsLinkLocalUnicast()
}
