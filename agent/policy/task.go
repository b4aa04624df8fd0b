package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"pillion.dev/measure/point"
	"pillion.dev/session"
	"pillion.dev/wire"
)

// Marking is what sources of sessions may mark.
type Marking struct {
	// Allowed: packets may be marked at all; default true.
	Allowed bool `yaml:"allowed"`
	// Every: at most one packet in so many; default 1.
	Every uint32 `yaml:"every"`
	// PacketsPerSecond is the limit of each session; 0: none.
	PacketsPerSecond int64 `yaml:"packets_per_second"`
}

// at states which key of which file refuses something.
func (p *Policy) at(key, format string, a ...any) error {
	where := "default of " + key
	if p.file != "" {
		where = p.file
		if line := p.lines[key]; line != 0 {
			where += fmt.Sprintf(":%d", line)
		}
		where += ": " + key
	}
	return fmt.Errorf("%w: %s: %s", ErrRefused, where, fmt.Sprintf(format, a...))
}

// Source returns why a session may not mark as it asks to.
func (p *Policy) Source(task session.SourceTask) error {
	if !p.Marking.Allowed {
		return p.at("marking.allowed", "packets of this host are not marked")
	}
	list, err := wire.ParseEncodings(task.Encoding)
	if err != nil {
		return err
	}
	for _, e := range list {
		if p.Encodings != nil && !slices.Contains(p.Encodings, e.String()) {
			return p.at("encodings", "%s is not one of %s: use another encoding for the session", e, listed(p.Encodings))
		}
	}
	if every := max(task.Sampling.Every, task.Sampling.Random, task.Sampling.Hash, 1); every < p.Marking.Every {
		return p.at("marking.every", "the session marks 1 in %d packets, this host at most 1 in %d", every, p.Marking.Every)
	}
	if limit := p.Marking.PacketsPerSecond; limit > 0 {
		if least := time.Second / time.Duration(limit); time.Duration(task.Sampling.MinGap) < least {
			return p.at("marking.packets_per_second", "the session has a min_gap of %v, this host marks at most %d packets/s: at least %v is needed",
				task.Sampling.MinGap, limit, least)
		}
	}
	if err := p.forwards(task.Transit); err != nil {
		return err
	}
	return p.deviceOf(task.Device)
}

// forwards returns why packets of hosts without an agent may not be measured.
func (p *Policy) forwards(prefixes []string) error {
	if len(prefixes) > 0 && len(p.transit) == 0 {
		return p.at("transit", "packets that this host forwards are not measured: %s", listed(prefixes))
	}
	for _, text := range prefixes {
		if prefix, err := netip.ParsePrefix(text); err != nil || !within(p.transit, prefix) {
			return p.at("transit", "%s is not in %s", text, listed(p.Transit))
		}
	}
	return nil
}

// within reports whether one of the prefixes contains all of another one.
func within(prefixes []netip.Prefix, part netip.Prefix) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Bits() <= part.Bits() && p.Contains(part.Addr().Unmap()) })
}

// Destination returns why marks may not be read for a session.
func (p *Policy) Destination(task session.DestinationTask) error {
	if !p.Decapsulation {
		return p.at("decapsulation", "this host reads and removes no marks")
	}
	if err := p.forwards(slices.Concat(task.Transit, task.Amends)); err != nil {
		return err
	}
	return p.deviceOf(task.Device)
}

// Point returns why a point may not be measured for a session.
func (p *Policy) Point(task session.PointTask) error {
	if task.Point == point.Router.Name && !p.RouterProfiles {
		return p.at("router_profiles", "this host is not profiled as a router")
	}
	return nil
}

// Trace returns why the path to an address may not be traced.
func (p *Policy) Trace(task session.TraceTask) error {
	_, err := p.Permit([]session.Peer{{Agent: task.Peer, Addresses: []string{task.Address}}})
	return err
}

// Captures returns why packets may not be captured.
func (p *Policy) Captures() error {
	if !p.Capture {
		return p.at("capture", "packets are not captured on this host")
	}
	return nil
}

// Device returns why no program may be attached to an interface.
func (p *Policy) Device(name string) error {
	if p.Devices != nil && !matches(p.Devices, name) {
		return p.at("devices", "%s is not one of %s", name, listed(p.Devices))
	}
	return nil
}

// deviceOf is Device, unless the route decides.
func (p *Policy) deviceOf(name string) error {
	if name == "" {
		return nil
	}
	return p.Device(name)
}

// Permit returns the peers that this host may measure with, with the addresses permitted of each, and
// why others are refused.
func (p *Policy) Permit(peers []session.Peer) (permitted []session.Peer, refused error) {
	var reasons []error
	for _, peer := range peers {
		if p.Peers != nil && !matches(p.Peers, peer.Agent) {
			reasons = append(reasons, p.at("peers", "%s is not one of %s", peer.Agent, listed(p.Peers)))
			continue
		}
		addresses := slices.DeleteFunc(slices.Clone(peer.Addresses), func(text string) bool {
			address, err := netip.ParseAddr(text)
			return err == nil && !isUnicast(address)
		})
		if len(addresses) == 0 && len(peer.Addresses) > 0 {
			reasons = append(reasons, fmt.Errorf("%w: %s of %s is not the unicast address of another host", ErrRefused, peer.Addresses[0], peer.Agent))
			continue
		}
		if p.Prefixes != nil {
			addresses = slices.DeleteFunc(addresses, func(text string) bool {
				address, err := netip.ParseAddr(text)
				return err != nil || !within(p.prefixes, netip.PrefixFrom(address, address.BitLen()))
			})
		}
		if len(addresses) == 0 && len(peer.Addresses) > 0 {
			reasons = append(reasons, p.at("prefixes", "no address of %s is in %s", peer.Agent, listed(p.Prefixes)))
			continue
		}
		peer.Addresses = addresses
		if err := p.behind(peer); err != nil {
			reasons = append(reasons, err)
			continue
		}
		permitted = append(permitted, peer)
	}
	if more := len(reasons) - 1; more > 0 {
		return permitted, fmt.Errorf("%w; likewise %d more peers", reasons[0], more)
	}
	return permitted, errors.Join(reasons...)
}

// behind returns why the hosts behind a peer may not be measured.
func (p *Policy) behind(peer session.Peer) error {
	if err := p.forwards(peer.Prefixes); err != nil {
		return fmt.Errorf("hosts behind %s: %w", peer.Agent, err)
	}
	for _, text := range peer.Prefixes {
		if prefix, err := netip.ParsePrefix(text); p.Prefixes != nil && (err != nil || !within(p.prefixes, prefix)) {
			return p.at("prefixes", "%s behind %s is not in %s", text, peer.Agent, listed(p.Prefixes))
		}
	}
	return nil
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		found, err := path.Match(pattern, name)
		return err == nil && found
	})
}

func listed(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
