package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pillion.dev/agent/validation"
	"pillion.dev/session"
	"pillion.dev/wire"
)

const (
	// concurrent bounds the addresses checked at a time, each with four sockets.
	concurrent = 128
	// addressesMax bounds the addresses of one request.
	addressesMax = 4096
)

// path is what was found about the path to one address of a peer.
type path struct {
	peer, address string
	// alone: the peer has no other address.
	alone bool
	// fault is why the path was not checked.
	fault  error
	device string
	route  error
	// own: the address is this host's.
	own bool
	mtu int // bytes, as the kernel knows it; 0 unknown
	// echo is the round-trip time of a plain ICMP echo; marked is the round-trip time of an echo with IPv6
	// destination options.
	echo, marked       time.Duration
	echoErr, markedErr error
	six                bool
	// probe is what answers path probes.
	probe    validation.Reply
	probeErr error
}

// checkPeers checks all addresses of the peers in parallel.
func checkPeers(ctx context.Context, peers []session.Peer) []session.Check {
	var checks []session.Check
	var paths []*path
	for _, peer := range peers {
		if len(peer.Addresses) == 0 {
			checks = append(checks, session.Check{
				Name: "peer " + peer.Agent, Level: Error, Found: "it has no address of its own",
				Advice: "give its host an address that no other agent uses",
			})
		}
		for _, address := range peer.Addresses {
			paths = append(paths, &path{peer: peer.Agent, address: address, alone: len(peer.Addresses) == 1})
		}
	}
	if len(paths) > addressesMax {
		checks = append(checks, unknown("peers", fmt.Errorf("%d addresses, only the first %d are checked", len(paths), addressesMax)))
		paths = paths[:addressesMax]
	}
	walkAll(ctx, paths)
	for _, p := range paths {
		checks = append(checks, judgePath(*p))
	}
	return append(checks, judgeOptions(paths))
}

func walkAll(ctx context.Context, paths []*path) {
	slots := make(chan struct{}, concurrent)
	var walks sync.WaitGroup
	for _, p := range paths {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			p.fault = errors.New("timed out")
			continue
		}
		walks.Go(func() {
			defer func() { <-slots }()
			p.walk(ctx)
		})
	}
	walks.Wait()
}

// walk checks the path.
func (p *path) walk(ctx context.Context) {
	defer func() {
		if cause := recover(); cause != nil {
			p.fault = fmt.Errorf("panic: %v", cause)
		}
	}()
	address, err := netip.ParseAddr(p.address)
	if err != nil {
		p.fault = fmt.Errorf("read address: %w", err)
		return
	}
	address = address.Unmap()
	p.six = address.Is6()
	if p.device, p.own, p.route = findRoute(address); p.route != nil || p.own {
		return
	}
	p.mtu = pathMTU(ctx, address)
	var plain sync.WaitGroup
	plain.Go(func() { p.echo, p.echoErr = echo(ctx, address, false) })
	plain.Go(func() { p.probe, p.probeErr = askProbe(ctx, address, p.device) })
	if p.six {
		p.marked, p.markedErr = echo(ctx, address, true)
	}
	plain.Wait()
}

func askProbe(ctx context.Context, address netip.Addr, device string) (validation.Reply, error) {
	link, err := net.InterfaceByName(device)
	if err != nil {
		return validation.NoReply, err
	}
	return validation.Ask(ctx, address, link.Index)
}

// findRoute looks up the kernel's route; nothing is sent.
func findRoute(address netip.Addr) (device string, own bool, err error) {
	if zone := address.Zone(); zone != "" {
		return zone, false, nil
	}
	routes, err := netlink.RouteGet(net.IP(address.AsSlice()))
	if err != nil {
		return "", false, err
	}
	if len(routes) == 0 {
		return "", false, unix.ENETUNREACH
	}
	if link, err := netlink.LinkByIndex(routes[0].LinkIndex); err == nil {
		device = link.Attrs().Name
	}
	return device, routes[0].Type == unix.RTN_LOCAL, nil
}

// pathMTU is the kernel's path MTU, bytes, or 0 if unknown. Until larger packets have been sent, the kernel only
// knows the MTU of the route.
func pathMTU(ctx context.Context, address netip.Addr) int {
	const discard = 9 // nothing is sent
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", netip.AddrPortFrom(address, discard).String())
	if err != nil {
		return 0
	}
	defer conn.Close()
	raw, err := conn.(*net.UDPConn).SyscallConn()
	if err != nil {
		return 0
	}
	level, option := unix.IPPROTO_IP, unix.IP_MTU
	if address.Is6() {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_MTU
	}
	mtu := 0
	_ = raw.Control(func(fd uintptr) {
		if value, err := unix.GetsockoptInt(int(fd), level, option); err == nil {
			mtu = value
		}
	})
	return mtu
}

func judgePath(p path) session.Check {
	check := session.Check{Name: strings.Join(strings.Fields("peer "+p.peer+" "+p.address), " "), Level: OK}
	worse := func(level, advice string) {
		if check.Advice == "" {
			check.Level, check.Advice = level, advice
		}
	}
	switch {
	case p.fault != nil:
		return unknown(check.Name, p.fault)
	case p.route != nil:
		check.Found = fmt.Sprintf("no route: %v", p.route)
		worse(Warning, "ip route get "+p.address)
		if p.alone {
			check.Level = Error
		}
		return check
	case p.own:
		check.Found = "this host has the same address"
		worse(Error, "give each host unique addresses: ip addr show to "+p.address)
		return check
	}
	found := []string{"via " + p.device}
	switch {
	case p.echoErr == nil:
		found = append(found, fmt.Sprintf("RTT %v", p.echo.Round(time.Microsecond)))
	case errors.Is(p.echoErr, errNoReply):
		found = append(found, "no reply to ICMP echo")
		worse(Warning, "check that the host is up and that no firewall drops ICMP: ping -c 3 "+p.address)
	default:
		found = append(found, fmt.Sprintf("RTT unknown: %v", p.echoErr))
		worse(Warning, rootAdvice)
	}
	if p.mtu > 0 {
		found = append(found, fmt.Sprintf("path MTU %d bytes", p.mtu))
	} else {
		found = append(found, "path MTU unknown")
	}
	if p.six {
		switch {
		case p.markedErr == nil:
			found = append(found, fmt.Sprintf("with destination options in %v", p.marked.Round(time.Microsecond)))
		case p.dropped():
			found = append(found, "no reply with destination options")
			worse(Warning, "the path drops IPv6 destination options, which carry the marks: allow them in firewalls, or measure over IPv4 (--family ipv4)")
		case !errors.Is(p.markedErr, errNoReply):
			found = append(found, "with destination options unknown")
		}
	}
	switch {
	case p.probeErr != nil:
		found = append(found, fmt.Sprintf("path probes unknown: %v", p.probeErr))
	case p.probe == validation.Answered:
		found = append(found, "path probes answered")
	case p.probe == validation.Unreachable:
		found = append(found, "path probes answered by ICMP port unreachable")
	default:
		found = append(found, string(session.NotReachable)+validation.Unanswered.Text())
		worse(Warning, fmt.Sprintf("path validation requires an answer: permit UDP port %d to the peer; without a destination there, ICMP port unreachable from it", wire.ProbePort))
	}
	check.Found = strings.Join(found, ", ")
	return check
}

// dropped tells a path that drops destination options from one without any reply. It
// is no proof: the requests may have been lost.
func (p *path) dropped() bool {
	return p.six && p.echoErr == nil && errors.Is(p.markedErr, errNoReply)
}

// judgeOptions sums up what the echoes show about marks in IPv6 packets.
func judgeOptions(paths []*path) session.Check {
	passed, dropped := 0, 0
	for _, p := range paths {
		switch {
		case p.dropped():
			dropped++
		case p.six && p.marked > 0 && p.markedErr == nil:
			passed++
		}
	}
	const why = "marks in IPv6 packets are destination options, which firewalls and middleboxes may drop"
	check := ok("IPv6 destination options", "%s; %d of %d tested addresses are reachable with them", why, passed, passed+dropped)
	switch {
	case dropped > 0:
		check.Level, check.Advice = Warning, "see the checks of the peers: allow IPv6 destination options in firewalls, or measure over IPv4 (--family ipv4)"
	case passed == 0:
		check.Found = why + "; no IPv6 peer was tested"
	}
	return check
}
