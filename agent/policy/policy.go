// Package policy is what a host allows servers to have done on it. It is a file of the host
// that no server can change, and it is enforced by the agent before anything is done.
//
// So far it covers sending. Without a file the defaults apply, which let sessions send little,
// and only to the hosts that they measure.
package policy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"

	"pillion.dev/internal/document"
	"pillion.dev/internal/quantity"
	"pillion.dev/send/frame"
)

// DefaultFile is read if it exists and no other file is given.
const DefaultFile = "/etc/pillion/policy.yaml"

// Policy of a host. Its methods may be called from several goroutines.
type Policy struct {
	// Sending is what tasks of sessions may send.
	Sending Sending `yaml:"sending"`

	mu       sync.Mutex
	admitted map[*Request]bool
}

// Sending is what tasks of sessions may send.
type Sending struct {
	// Allowed: sessions may send at all; default true.
	Allowed bool `yaml:"allowed"`
	// Targets are prefixes to which packets may be sent; by default those of all agents that a
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
	return &Policy{Sending: Sending{
		Allowed: true, Rate: 10_000_000, PacketsPerSecond: 1000, Protocols: []string{frame.UDP, frame.ICMP},
	}}
}

// ErrPolicy marks an invalid policy file.
var ErrPolicy = errors.New("invalid policy")

// Open reads a file; keys that are absent have their defaults. An empty path stands for
// DefaultFile, or for the defaults if there is none.
func Open(path string) (*Policy, error) {
	text, err := os.ReadFile(path)
	if path == "" {
		path = DefaultFile
		if text, err = os.ReadFile(path); errors.Is(err, fs.ErrNotExist) {
			return Default(), nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	p, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w: %w", path, ErrPolicy, err)
	}
	return p, nil
}

func parse(text []byte) (*Policy, error) {
	p := Default()
	defaults := p.Sending
	p.Sending.Protocols = nil // a list in the file replaces that of the defaults
	more, err := document.Decode(text, p)
	if errors.Is(err, io.EOF) {
		return Default(), nil
	}
	if err != nil {
		return nil, err
	}
	if more {
		return nil, errors.New("the file has more than one document")
	}
	s := &p.Sending
	if s.Protocols == nil {
		s.Protocols = defaults.Protocols
	}
	if s.Rate <= 0 || s.PacketsPerSecond <= 0 {
		return nil, errors.New("sending: rate and packets_per_second must be greater than 0; use allowed: false to forbid sending")
	}
	for _, name := range s.Protocols {
		if !slices.Contains(protocols, name) {
			return nil, fmt.Errorf("sending: unknown protocol %q; valid: %s", name, strings.Join(protocols, ", "))
		}
	}
	for _, text := range s.Targets {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("sending: target %q is not a prefix, such as 10.0.0.0/8", text)
		}
		s.targets = append(s.targets, prefix.Masked())
	}
	return p, nil
}

var protocols = []string{frame.UDP, frame.TCP, frame.ICMP, frame.Raw}

// Request is what a task asks to send.
type Request struct {
	// Target is the destination address, which the session's assignment names.
	Target   netip.Addr
	Protocol string // as in package frame
	// The most that the task will send.
	BitsPerSecond, PacketsPerSecond int64
}

// ErrRefused marks a request that the policy does not allow.
var ErrRefused = errors.New("refused by the policy of this host")

// Admit reserves what the request asks for until release is called, or returns why the policy
// does not allow it.
func (p *Policy) Admit(r Request) (release func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.check(r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
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

func (p *Policy) check(r Request) error {
	s := &p.Sending
	switch a := r.Target; {
	case !s.Allowed:
		return errors.New("sending is not allowed")
	case !a.IsValid() || a.IsMulticast() || a.IsUnspecified() || a.IsLoopback() || a == broadcast:
		return fmt.Errorf("%v is not the unicast address of another host", a)
	case len(s.targets) > 0 && !slices.ContainsFunc(s.targets, func(prefix netip.Prefix) bool { return prefix.Contains(a.Unmap()) }):
		return fmt.Errorf("%v is in none of the targets %s", a, strings.Join(s.Targets, ", "))
	case !slices.Contains(s.Protocols, r.Protocol):
		return fmt.Errorf("protocol %s is not one of %s", r.Protocol, strings.Join(s.Protocols, ", "))
	}
	var bits, packets int64
	for other := range p.admitted {
		bits += other.BitsPerSecond
		packets += other.PacketsPerSecond
	}
	if r.BitsPerSecond > int64(s.Rate)-bits {
		return fmt.Errorf("%d bit/s exceed the limit of %d bit/s, of which other tasks use %d", r.BitsPerSecond, int64(s.Rate), bits)
	}
	if r.PacketsPerSecond > s.PacketsPerSecond-packets {
		return fmt.Errorf("%d packets/s exceed the limit of %d packets/s, of which other tasks use %d", r.PacketsPerSecond, s.PacketsPerSecond, packets)
	}
	return nil
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})
