package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/probe/router"
)

const (
	dropOne  = 100 // the rule drops one in this many
	patience = 10 * time.Second
	tcpPort  = 9001
	// segment is what one packet of TCP holds: what asks for so many packets has to
	// send so many times that.
	segment = 1448
)

// account has the fate of many packets of which a rule drops one in a hundred.
type account struct {
	Traffic string `json:"traffic"`
	router.Account
	// Sent is the number of packets sent; 0 where the kernel decides how many those are.
	Sent uint64 `json:"sent,omitempty"`
	// Closed: each packet sent was seen, and none is unexplained, lost by the profile, or
	// still pending.
	Closed bool `json:"closed"`
}

// measureAccounts sends a number of packets of each kind through the router.
func measureAccounts(ctx context.Context, s settings) (all []account, err error) {
	for _, kind := range []struct {
		name     string
		protocol uint8
		features map[string][]string // of interfaces, before
		send     func(b *bench) error
	}{
		{"udp", unix.IPPROTO_UDP, nil, func(b *bench) error {
			_, err := b.shoot(constant(shortPayload).series(s.Account, 0), 0)
			return err
		}},
		{"tcp with gso", unix.IPPROTO_TCP, nil, func(b *bench) error { return b.stream(int64(s.Account) * segment) }},
		{"tcp with gro", unix.IPPROTO_TCP, map[string][]string{"host": {"tso", "off"}, "router": {"gro", "on"}},
			func(b *bench) error { return b.stream(int64(s.Account) * segment) }},
		{"tcp with gro, cut at the output", unix.IPPROTO_TCP,
			map[string][]string{"host": {"tso", "off"}, "router": {"gro", "on", "tso", "off"}},
			func(b *bench) error { return b.stream(int64(s.Account) * segment) }},
	} {
		if ctx.Err() != nil {
			return all, ctx.Err()
		}
		a := account{Traffic: kind.name}
		if kind.protocol == unix.IPPROTO_UDP {
			a.Sent = uint64(s.Account)
		}
		err := onBench(false, func(b *bench) (err error) {
			if err := b.features(kind.features); err != nil {
				return err
			}
			a.Account, err = b.account(ctx, kind.protocol, kind.send)
			return err
		})
		if err != nil {
			return all, fmt.Errorf("account of %s: %w", kind.name, err)
		}
		a.Closed = a.Unexplained == 0 && a.Lost == 0 && a.InFlight == 0 &&
			a.Seen == a.Forwarded+a.Dropped+a.Local+a.Merged && (a.Sent == 0 || a.Seen == a.Sent)
		all = append(all, a)
	}
	return all, nil
}

func (b *bench) features(f map[string][]string) error {
	if f == nil {
		return nil
	}
	var err error
	for _, host := range []string{b.testbed.sender, b.testbed.receiver} {
		err = errors.Join(err, run(host, "ethtool", append([]string{"-K", "out"}, f["host"]...)...))
	}
	for _, device := range []string{"in0", "in1"} {
		err = errors.Join(err, run(b.router, "ethtool", append([]string{"-K", device}, f["router"]...)...))
	}
	return err
}

func (b *bench) account(ctx context.Context, protocol uint8, send func(b *bench) error) (a router.Account, err error) {
	rule, err := b.rule()
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, rule.Close()) }()
	profile, err := b.profile(router.Options{Match: router.Match{Protocol: protocol}})
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, profile.Close()) }()
	if err := send(b); err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := profile.Settle(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return a, err
	}
	s, err := profile.Snapshot()
	return s.Account, err
}

// rule drops some of the packets that the router forwards, at random.
func (b *bench) rule() (link.Link, error) {
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
	err = netns.Do(b.router, func() (err error) {
		rule, err = link.AttachNetfilter(link.NetfilterOptions{
			Program: program, ProtocolFamily: link.NetfilterProtoIPv4, Hook: link.NetfilterInetForward,
		})
		return err
	})
	return rule, err
}

// stream sends a number of bytes by TCP. The receiver reads them from its socket, so the
// hook that counts and drops packets there is detached first.
func (b *bench) stream(size int64) error {
	if err := b.receiver.close(); err != nil {
		return err
	}
	*b.receiver = receiver{}
	address := netip.AddrPortFrom(target, tcpPort).String()
	var listener net.Listener
	err := netns.Do(b.testbed.receiver, func() (err error) {
		listener, err = net.Listen("tcp4", address)
		return err
	})
	if err != nil {
		return err
	}
	defer listener.Close()
	arrived := make(chan int64, 1)
	go func() {
		var n int64
		if c, err := listener.Accept(); err == nil {
			n, _ = io.Copy(io.Discard, c)
			c.Close()
		}
		arrived <- n
	}()
	var c net.Conn
	err = netns.Do(b.testbed.sender, func() (err error) {
		c, err = net.DialTCP("tcp4", nil, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address)))
		return err
	})
	if err != nil {
		return err
	}
	_, err = io.CopyN(c, zeros{}, size)
	if err = errors.Join(err, c.Close()); err != nil {
		return fmt.Errorf("send stream: %w", err)
	}
	select {
	case n := <-arrived:
		if n != size {
			return fmt.Errorf("send stream: %d of %d bytes arrived", n, size)
		}
		return nil
	case <-time.After(6 * patience):
		return errors.New("send stream: it does not end")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
