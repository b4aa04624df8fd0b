package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/probe/router"
	"pillion.dev/study/bench/result"
)

const (
	dropOne = 100 // the rule drops one in this many
	// segment is what one packet of TCP holds.
	segment = 1448
)

// kinds of traffic by name, with the offloads of hosts and of the router.
var kinds = map[string]struct {
	protocol      uint8
	hosts, router []string
}{
	"udp":     {protocol: unix.IPPROTO_UDP},
	"tcp-gso": {protocol: unix.IPPROTO_TCP},
	"tcp-gro": {unix.IPPROTO_TCP, []string{"tso", "off"}, []string{"gro", "on"}},
	"tcp-cut": {unix.IPPROTO_TCP, []string{"tso", "off"}, []string{"gro", "on", "tso", "off"}},
}

// accountCommand sends many packets through a router of which a rule drops one in a hundred,
// and reports how the profile accounts for them.
func accountCommand(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	names := strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")
	traffic := f.String("traffic", "udp", names)
	packets := f.Int("packets", 1_000_000, "packets, each of at most one segment")
	return func(ctx context.Context) (r result.Result, err error) {
		kind, ok := kinds[*traffic]
		if !ok {
			return nil, fmt.Errorf("invalid -traffic %q: want %s", *traffic, names)
		}
		t, err := buildTestbed(layout{family: 4})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, t.Close()) }()
		if err := t.features(kind.hosts, kind.router); err != nil {
			return nil, err
		}
		rule, err := t.rule()
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, rule.Close()) }()
		profile, err := t.profile(router.Options{Match: router.Match{Protocol: kind.protocol}})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, profile.Close()) }()
		sent, err := t.sendAll(int(kind.protocol), *packets)
		if err != nil {
			return nil, err
		}
		if err := settle(ctx, profile); err != nil {
			return nil, err
		}
		s, err := profile.Snapshot()
		if err != nil {
			return nil, err
		}
		return accounted(s.Account, sent), nil
	}
}

// accounted is the fate of the packets; sent is 0 where the kernel decides how many those are.
func accounted(a router.Account, sent uint64) result.Result {
	r := result.Result{
		"sent": sent, "seen": a.Seen, "forwarded": a.Forwarded, "dropped": a.Dropped, "merged": a.Merged,
		"lost": a.Lost, "in_flight": a.InFlight, "no_arrival": a.NoArrival, "segments": a.Segments,
	}
	unnamed := float64(a.Unexplained)
	if sent > 0 {
		unnamed += float64(sent) - float64(a.Seen)
	}
	r["unnamed"] = math.Abs(unnamed)
	r["not_followed"] = math.Abs(unnamed) + float64(a.Lost+a.InFlight+a.NoArrival)
	return r
}

// sendAll sends datagrams, which are dropped at the receiver's device, or a stream of as many
// segments, which its socket reads.
func (t *testbed) sendAll(protocol, packets int) (sent uint64, err error) {
	if protocol == unix.IPPROTO_UDP {
		return uint64(packets), t.sendDatagrams(packets)
	}
	sink, err := openSink(t)
	if err != nil {
		return 0, err
	}
	defer sink.close()
	s, err := t.openSender(t.sender, protocol)
	if err != nil {
		return 0, err
	}
	defer s.close()
	if err := s.stream(packets * segment); err != nil {
		return 0, err
	}
	s.close()
	return 0, sink.await(int64(packets) * segment)
}

func (t *testbed) sendDatagrams(packets int) error {
	received, err := t.count(t.receiver, ebpf.AttachTCXIngress)
	if err != nil {
		return err
	}
	s, err := t.openSender(t.sender, unix.IPPROTO_UDP)
	if err != nil {
		return errors.Join(err, received.close())
	}
	defer s.close()
	buffer := make([]byte, shortPayload)
	for range packets {
		if err = s.write(buffer, len(buffer)); err != nil {
			break
		}
	}
	if err == nil {
		_, err = received.await(uint64(packets)) // some are dropped
	}
	return errors.Join(err, received.close())
}

// rule drops some of the packets that the router forwards, at random.
func (t *testbed) rule() (link.Link, error) {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "drop_some", Type: ebpf.Netfilter, AttachType: ebpf.AttachNetfilter, License: "GPL",
		Instructions: asm.Instructions{
			asm.FnGetPrandomU32.Call(),
			asm.Mov.Reg32(asm.R0, asm.R0),
			asm.Mod.Imm(asm.R0, dropOne),
			asm.JEq.Imm(asm.R0, 0, "drop"),
			asm.Mov.Imm(asm.R0, 1),
			asm.Return(),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("drop"),
			asm.Return(),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("load rule: %w", err)
	}
	defer program.Close() // the link holds a reference
	var rule link.Link
	err = netns.Do(t.router, func() (err error) {
		rule, err = link.AttachNetfilter(link.NetfilterOptions{
			Program: program, ProtocolFamily: link.NetfilterProtoIPv4, Hook: link.NetfilterInetForward,
		})
		return err
	})
	return rule, err
}
