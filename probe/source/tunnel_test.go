package source

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pillion.dev/probe/destination"
	"pillion.dev/probe/hook"
	"pillion.dev/wire"
)

// tunnel makes a device without link header; packets that leave it are read from
// the file, packets written to it come in. It belongs to the calling thread's
// namespace.
func tunnel(t *testing.T, name string) (*netlink.Tuntap, int) {
	t.Helper()
	link := &netlink.Tuntap{
		LinkAttrs: netlink.LinkAttrs{Name: name, MTU: 1500}, Mode: netlink.TUNTAP_MODE_TUN,
		Flags: netlink.TUNTAP_NO_PI, Queues: 1,
	}
	if err := netlink.LinkAdd(link); err != nil {
		t.Fatalf("add %s: %v", name, err)
	}
	t.Cleanup(func() {
		for _, f := range link.Fds {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	if err := netlink.LinkSetUp(link); err != nil {
		t.Fatalf("set %s up: %v", name, err)
	}
	return link, int(link.Fds[0].Fd())
}

// redirect hands what comes in by one device, after the probes, to another.
func redirect(t *testing.T, from string, to netlink.Link) {
	t.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "redirect", Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R1, int32(to.Attrs().Index)),
			asm.Mov.Imm(asm.R2, 0),
			asm.FnRedirect.Call(),
			asm.Return(),
		},
	})
	if err != nil {
		t.Fatalf("load redirect: %v", err)
	}
	t.Cleanup(func() { program.Close() })
	device, err := hook.Find(from)
	if err != nil {
		t.Fatal(err)
	}
	attachment, err := hook.Attach(program, device, hook.Options{Point: hook.Ingress, Order: hook.Last})
	if err != nil {
		t.Fatalf("attach redirect: %v", err)
	}
	t.Cleanup(func() { attachment.Close() })
}

// receive reads the packet that a device has for us.
func receive(t *testing.T, fd int) []byte {
	t.Helper()
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(poll, 5000); n != 1 || err != nil {
		t.Fatalf("no packet: %v", err)
	}
	b := make([]byte, 4096)
	n, err := unix.Read(fd, b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

// sender is a socket whose packets leave by a device as they are.
func sender(t *testing.T, link netlink.Link) func(packet []byte) error {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return func(packet []byte) error {
		to := &unix.SockaddrLinklayer{Ifindex: link.Attrs().Index, Protocol: 0x0008}
		if packet[0]>>4 == 6 {
			to.Protocol = 0xdd86
		}
		return unix.Sendto(fd, packet, 0, to)
	}
}

func through(t *testing.T, encoding wire.Encoding, packets int) {
	t.Helper()
	// Otherwise the kernel sends router solicitations of its own.
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	out, outFile := tunnel(t, "out-"+encoding.String())
	in, inFile := tunnel(t, "in-"+encoding.String())
	end, endFile := tunnel(t, "end-"+encoding.String())
	redirect(t, in.Name, end)
	send := sender(t, out)
	s, d := openBoth(t, out.Name, in.Name, encoding)
	v := variety{Rand: rand.New(rand.NewPCG(uint64(encoding), 10))}
	for sent := 0; sent < packets; {
		packet := v.packet()
		if version := packet[0] >> 4; version != 4 && version != 6 || len(packet) > 1500 {
			continue
		}
		if err := send(packet); err != nil {
			t.Fatalf("send %x: %v", packet, err)
		}
		sent++
		marked := receive(t, outFile)
		if n, err := unix.Write(inFile, marked); n != len(marked) {
			t.Fatalf("write %x: %v", marked, err)
		}
		if got := receive(t, endFile); !bytes.Equal(got, packet) {
			t.Fatalf("packet  %x\nmarked  %x\nbecame  %x", packet, marked, got)
		}
	}
	tally, err := s.Tally()
	if err != nil {
		t.Fatal(err)
	}
	came, err := d.Tally()
	if err != nil {
		t.Fatal(err)
	}
	if tally.Seen != uint64(packets) || came.Seen != tally.Seen || came.Packets != tally.Marked || tally.Marked == 0 {
		t.Errorf("source %+v\ndestination %+v", tally, came)
	}
	t.Logf("%d packets, %d marked", packets, tally.Marked)
}

func openBoth(t *testing.T, out, in string, encoding wire.Encoding) (*Source, *destination.Destination) {
	t.Helper()
	from, err := hook.Find(out)
	if err != nil {
		t.Fatal(err)
	}
	to, err := hook.Find(in)
	if err != nil {
		t.Fatal(err)
	}
	if from.LinkLength != 0 || to.LinkLength != 0 {
		t.Fatalf("link headers of %d and %d bytes", from.LinkLength, to.LinkLength)
	}
	s, err := Open(from, all(encoding, wire.Delay|wire.Loss))
	if err != nil {
		t.Fatal(err)
	}
	d, errOfD := destination.Open(to, destination.Settings{Strip: destination.StripAlways})
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	})
	if errOfD != nil {
		t.Fatal(errOfD)
	}
	if err := s.Renew(Forever); err != nil {
		t.Fatal(err)
	}
	return s, d
}
