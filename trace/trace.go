// Package trace finds the routers between this host and another one, hop by hop,
// with probes of a single flow, as Paris traceroute does: routers that balance load
// per flow forward them all along the same path, also in later traces, so that the
// hops belong to one path and a changed path is a change of the network.
//
// Constant in all probes of a trace, and in every later trace with the same source,
// destination, protocol and Options.Flow: addresses, traffic class, flow label
// (IPv6), length, and the first eight bytes after the IP header, which are ports,
// length and checksum of UDP, or type, code, checksum, identifier and sequence number
// of ICMP. Variable: TTL or hop limit, the IPv4 identification with the header
// checksum, and the payload, which is adjusted to keep the checksum. With per-packet
// load balancing a hop still shows several addresses. A host with several routes
// selects among them by addresses only, since the kernel sees no ports in a raw
// packet.
//
// Replies are matched by the quoted payload, at any offset in the quote: also behind
// an in-line mark. If a router quotes no more than RFC 792 requires, the IPv4
// identification is used.
//
// It requires Linux and CAP_NET_RAW. It resolves no names and does not combine paths:
// the server does. In the flow it feeds the point hops.
package trace

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"
)

// Protocols of the probes.
const (
	UDP  = "udp"
	ICMP = "icmp"
)

// Options of a trace. Zero fields, except the destination, get defaults.
type Options struct {
	Destination netip.Addr
	// Source is an address of this host; default: the route's source address.
	Source netip.Addr
	// Protocol is UDP, which is the default, or ICMP.
	Protocol string
	// Flow selects one of the flows between the two addresses.
	Flow uint16
	// MaxHops is the largest TTL; default 30, at most 255.
	MaxHops int
	// Attempts are the probes for each hop; default 3, at most 100.
	Attempts int
	// Gap is the number of consecutive silent hops after which the trace ends;
	// default 5. It also limits how far probes run ahead of replies.
	Gap int
	// Wait is the maximum timeout for a reply; default 1 s. After the first replies,
	// the timeout is four times the slowest, between Wait/2 and Wait.
	Wait time.Duration
	// Mark is the firewall mark (SO_MARK) of the probes; zero: none. It requires
	// CAP_NET_ADMIN.
	Mark uint32
}

// Path is the result of a trace.
type Path struct {
	// Time is the start of the trace.
	Time        time.Time
	Source      netip.Addr
	Destination netip.Addr
	Protocol    string
	// Reached reports whether the destination replied. If not, the hops end at a router
	// that reported the destination unreachable, or after Gap silent hops: the true
	// number of hops is unknown.
	Reached bool
	Hops    []Hop
}

// Hop is one router, or the destination.
type Hop struct {
	TTL int
	// Address that replied most often; invalid if none did.
	Address netip.Addr
	// Others are further addresses that replied at the same hop.
	Others []netip.Addr
	// RTT is the minimum round-trip time of replies from Address, from just before the
	// probe was sent to the kernel's timestamp of the reply.
	RTT     time.Duration
	Sent    int
	Answers int
}

// ErrPermission marks a trace without the required capability.
var ErrPermission = errors.New("tracing requires CAP_NET_RAW: run as root or grant it")

// errOptions marks invalid options.
var errOptions = errors.New("invalid options")

// Trace traces one path. When ctx ends, it returns at once with its error.
func Trace(ctx context.Context, options Options) (Path, error) {
	path, err := trace(ctx, options)
	if err != nil {
		return Path{}, fmt.Errorf("trace %s: %w", options.Destination, err)
	}
	return path, nil
}

func trace(ctx context.Context, options Options) (Path, error) {
	if err := options.complete(); err != nil {
		return Path{}, err
	}
	s, err := open(ctx, &options)
	if err != nil {
		return Path{}, err
	}
	defer s.close()
	// Closing is the only way to interrupt a read that no later deadline undoes.
	stop := context.AfterFunc(ctx, s.close)
	defer stop()
	w := walk{Options: options, probes: make([]probe, options.MaxHops*options.Attempts)}
	path := Path{Time: time.Now(), Source: s.flow.source, Destination: s.flow.destination, Protocol: options.Protocol}
	if err := w.run(s); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return Path{}, err
	}
	path.Reached, path.Hops = w.reached > 0, w.hops()
	return path, nil
}

// complete sets defaults.
func (o *Options) complete() error {
	defaults := []struct {
		value       *int
		name        string
		usual, most int
	}{
		{&o.MaxHops, "hops", 30, 255},
		{&o.Attempts, "attempts", 3, 100},
		{&o.Gap, "gap", 5, 255},
	}
	for _, d := range defaults {
		if *d.value == 0 {
			*d.value = d.usual
		}
		if *d.value < 0 || *d.value > d.most {
			return fmt.Errorf("%w: %d %s, want 1 to %d", errOptions, *d.value, d.name, d.most)
		}
	}
	if o.Wait == 0 {
		o.Wait = time.Second
	}
	if o.Protocol == "" {
		o.Protocol = UDP
	}
	o.Destination, o.Source = o.Destination.Unmap(), o.Source.Unmap()
	switch {
	case o.Wait < 0:
		return fmt.Errorf("%w: wait %s", errOptions, o.Wait)
	case o.Protocol != UDP && o.Protocol != ICMP:
		return fmt.Errorf("%w: protocol %q, want udp or icmp", errOptions, o.Protocol)
	case !o.Destination.IsValid() || o.Destination.IsUnspecified() || o.Destination.IsMulticast():
		return fmt.Errorf("%w: destination %s is not a unicast address", errOptions, o.Destination)
	case o.Source.IsValid() && o.Source.Is4() != o.Destination.Is4():
		return fmt.Errorf("%w: source %s and destination %s are of different families", errOptions, o.Source, o.Destination)
	}
	return nil
}

// run sends probes and reads replies until all have arrived or timed out.
func (w *walk) run(s *socket) error {
	for {
		number, at := w.next()
		now := time.Now()
		switch {
		case number >= 0 && !at.After(now):
			sent, err := s.send(w.ttl(number), number)
			if err != nil {
				return err
			}
			w.sent(number, sent)
			continue
		case number < 0 && !at.After(now):
			return nil
		}
		answers, err := s.receive(at)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		for _, a := range answers {
			w.take(a)
		}
	}
}
