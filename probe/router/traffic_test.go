package router

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
)

// packets is how many the large tests send.
const packets = 100_000

// flood sends n payloads from the left host to the right one, which need not listen.
func (r *rig) flood(address string, n, length int) {
	r.t.Helper()
	client := r.dial(address)
	defer client.Close()
	payload := make([]byte, length)
	for sent := 0; sent < n; {
		// A pending error of another packet is returned instead of sending this one.
		if _, err := client.Write(payload); err == nil {
			sent++
		} else if !isRefusal(err) {
			r.t.Fatal(err)
		}
	}
}

func isRefusal(err error) bool {
	for _, refusal := range []error{unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EACCES, unix.EPERM} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// stream sends so many bytes by TCP from the left host to the right one.
func (r *rig) stream(address string, size int64) {
	r.t.Helper()
	var listener net.Listener
	err := netns.Do(r.right, func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	defer listener.Close()
	received := make(chan int64, 1)
	go func() {
		var n int64
		if c, err := listener.Accept(); err == nil {
			n, _ = io.Copy(io.Discard, c)
			c.Close()
		}
		received <- n
	}()
	var c net.Conn
	err = netns.Do(r.left, func() (err error) {
		c, err = net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address)))
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	_, err = io.CopyN(c, zeros{}, size)
	c.Close()
	if err != nil {
		r.t.Fatal(err)
	}
	select {
	case n := <-received:
		if n != size {
			r.t.Errorf("%d bytes arrived, want %d", n, size)
		}
	case <-time.After(6 * patience):
		r.t.Fatal("the stream does not end")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// rule drops one of so many forwarded packets, at random, until the test ends.
func (r *rig) rule(one int32) {
	r.t.Helper()
	r.forwardBy(asm.Instructions{
		asm.FnGetPrandomU32.Call(),
		asm.Mov.Reg32(asm.R0, asm.R0),
		asm.Mod.Imm(asm.R0, one),
		asm.JEq.Imm(asm.R0, 0, "drop"),
		asm.Mov.Imm(asm.R0, 1),
		asm.Return(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("drop"),
		asm.Return(),
	})
}

// forwardBy asks a netfilter program about each forwarded packet until the test ends.
func (r *rig) forwardBy(instructions asm.Instructions) {
	r.t.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Netfilter, AttachType: ebpf.AttachNetfilter, License: "GPL", Instructions: instructions,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { program.Close() })
	err = netns.Do(r.router, func() error {
		for _, family := range []link.NetfilterProtocolFamily{link.NetfilterProtoIPv4, link.NetfilterProtoIPv6} {
			l, err := link.AttachNetfilter(link.NetfilterOptions{
				Program: program, ProtocolFamily: family, Hook: link.NetfilterInetForward, Priority: 10,
			})
			if err != nil {
				return err
			}
			r.t.Cleanup(func() { l.Close() })
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// classify lets tc pass that verdict on all IPv4 packets that enter by the device.
func (r *rig) classify(device string, verdict int32) {
	r.t.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{
			asm.LoadMem(asm.R1, asm.R1, 16, asm.Word), // protocol
			asm.Mov.Imm(asm.R0, -1),
			asm.JNE.Imm(asm.R1, 8, "pass"), // 0x0800 in network order
			asm.Mov.Imm(asm.R0, verdict),
			asm.Return().WithSymbol("pass"),
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { program.Close() })
	err = netns.Do(r.router, func() error {
		i, err := net.InterfaceByName(device)
		if err != nil {
			return err
		}
		l, err := link.AttachTCX(link.TCXOptions{Interface: i.Index, Program: program, Attach: ebpf.AttachTCXIngress})
		if err == nil {
			r.t.Cleanup(func() { l.Close() })
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
}
