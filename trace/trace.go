// Package trace finds the routers between this host and another one, hop by hop,
// with probes that all belong to one flow, as Paris traceroute does: routers that
// spread load by flow send them all the same way, today and tomorrow, so that the
// hops are those of one path and a changed path is a change of the network.
//
// What is constant in all probes of a trace, and in every later trace with the
// same source, destination, protocol and Options.Flow: addresses, traffic class,
// flow label (IPv6), length, and the eight bytes behind the IP header, which are
// ports, length and checksum of UDP, or type, code, checksum, identifier and
// sequence number of ICMP. What differs is TTL or hop limit, the IPv4 identification
// with the header checksum, and the payload, which is balanced to keep the checksum.
// A router that spreads packet by packet still shows several addresses in one hop.
// A host with several routes of its own chooses among them by addresses alone, since
// the kernel sees no ports in a raw packet.
//
// Answers are told apart by the payload that they quote, wherever in the quote it is:
// also behind an in-line mark that a source put before it. Where a router quotes no
// more than RFC 792 asks for, the IPv4 identification decides.
//
// It needs Linux and CAP_NET_RAW. It resolves no names and puts nothing together
// from several paths: the server does that. In the flow it feeds the point hops.
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

// Options say what to trace and how. What is left zero, but the destination, gets
// its default.
type Options struct {
	Destination netip.Addr
	// Source is an address of this host; default: that of the route.
	Source netip.Addr
	// Protocol is UDP, which is the default, or ICMP.
	Protocol string
	// Flow chooses one of the flows between the two addresses.
	Flow uint16
	// MaxHops is the largest TTL; default 30, at most 255.
	MaxHops int
	// Attempts are the probes for each hop; default 3, at most 100.
	Attempts int
	// Gap is how many hops in a row may be silent until the trace is given up;
	// default 5. It also bounds how far probes run ahead of the answers.
	Gap int
	// Wait bounds the time for an answer; default 1 s. When answers came, it is four
	// times the slowest of them, between Wait/2 and Wait.
	Wait time.Duration
	// Mark is the firewall mark (SO_MARK) of the probes, by which others on this host
	// can tell them; zero: none. It needs CAP_NET_ADMIN.
	Mark uint32
}

// Path is what a trace found.
type Path struct {
	// Time is when it began.
	Time        time.Time
	Source      netip.Addr
	Destination netip.Addr
	Protocol    string
	// Reached says that the destination answered. If not, the hops end where a router
	// said that it goes no further, or with the silent ones that Gap allows: how many
	// there are in truth is not known.
	Reached bool
	Hops    []Hop
}

// Hop is one router, or the destination.
type Hop struct {
	TTL int
	// Address of who answered most often; not valid where nobody did.
	Address netip.Addr
	// Others answered in the same hop.
	Others []netip.Addr
	// RTT is the least round-trip time of the answers of Address, from just before the
	// probe was sent to the kernel's time stamp of the answer.
	RTT     time.Duration
	Sent    int
	Answers int
}

// ErrPermission marks a trace that this process may not make.
var ErrPermission = errors.New("tracing needs CAP_NET_RAW: run as root or grant it")

// errOptions marks options that cannot be.
var errOptions = errors.New("bad options")

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
	// The only way to end a read at once that no later deadline undoes.
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
		return fmt.Errorf("%w: destination %s is not the address of a host", errOptions, o.Destination)
	case o.Source.IsValid() && o.Source.Is4() != o.Destination.Is4():
		return fmt.Errorf("%w: source %s and destination %s are of two families", errOptions, o.Source, o.Destination)
	}
	return nil
}

// run sends probes and reads answers until none is missing that may still come.
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
