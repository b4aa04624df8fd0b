package send

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/observer"
)

// rig is a veth pair between two namespaces of a test.
type rig struct {
	testing.TB
	near, far string // namespaces
	namespace *os.File
	peer      int // index of the far interface
}

const (
	nearDevice, farDevice = "near0", "far0"
	nearAddress           = "192.0.2.1/24"
	nearAddress6          = "2001:db8::1/64"
)

var (
	farAddress  = netip.MustParseAddr("192.0.2.2")
	farAddress6 = netip.MustParseAddr("2001:db8::2")
)

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{TB: t, near: namespace.New(t), far: namespace.New(t)}
	far, err := os.Open(netns.Path(r.far))
	r.must(err)
	defer far.Close()
	r.namespace, err = os.Open(netns.Path(r.near))
	r.must(err)
	t.Cleanup(func() { r.namespace.Close() })
	r.in(r.near, func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: nearDevice}, PeerName: farDevice, PeerNamespace: netlink.NsFd(far.Fd())})
	})
	r.up(r.near, nearDevice, nearAddress, nearAddress6)
	r.peer = r.up(r.far, farDevice, farAddress.String()+"/24", farAddress6.String()+"/64")
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) in(name string, f func() error) {
	r.Helper()
	r.must(netns.Do(name, f))
}

// up gives an interface its addresses and returns its index.
func (r *rig) up(name, device string, addresses ...string) (index int) {
	r.Helper()
	r.in(name, func() error {
		l, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		index = l.Attrs().Index
		for _, text := range addresses {
			a, err := netlink.ParseAddr(text)
			if err != nil {
				return err
			}
			a.Flags = 2 // IFA_F_NODAD
			if err := netlink.AddrAdd(l, a); err != nil {
				return err
			}
		}
		return netlink.LinkSetUp(l)
	})
	return index
}

// header of packets to an address, resolved.
func (r *rig) header(to netip.Addr, protocol string) *frame.Header {
	r.Helper()
	h := &frame.Header{Destination: to, Protocol: protocol, SourcePort: 50000, DestinationPort: 9, Number: 253}
	r.in(r.near, func() error { return Address(h, nearDevice) })
	return h
}

// observe watches packets with the header arrive at the far end.
func (r *rig) observe(h *frame.Header, trains, packets int) *observer.Observer {
	r.Helper()
	overhead, err := h.Overhead()
	r.must(err)
	const link = 14
	var o *observer.Observer
	r.in(r.far, func() (err error) {
		o, err = observer.Open(observer.Arrival, r.peer, overhead-link, trains, packets)
		return err
	})
	r.Cleanup(func() { o.Close() })
	return o
}

func (r *rig) open(o dispatch.Options) dispatch.Sender {
	r.Helper()
	o.Device, o.Namespace = nearDevice, r.namespace
	s, err := dispatch.Open(o)
	r.must(err)
	r.Cleanup(func() { s.Close() })
	return s
}

// send sends the job and returns its records, whose account must be closed.
func (r *rig) send(ctx context.Context, s dispatch.Sender, job Job) (*Account, []dispatch.Record, error) {
	r.Helper()
	a := NewAccount(DefaultLate)
	var records []dispatch.Record
	err := Run(ctx, s, job, func(record dispatch.Record) {
		a.Add(record)
		records = append(records, record)
	})
	a.Close()
	if a.Scheduled != a.Sent+a.LateDropped+a.Cancelled+a.Failed {
		r.Errorf("account is not closed: %+v", a)
	}
	return a, records, err
}

// mechanisms that work on any interface; txtime has a test of its own (TestLaunchTime).
func mechanisms() []dispatch.Mechanism {
	return slices.DeleteFunc(slices.Clone(dispatch.Mechanisms), func(m dispatch.Mechanism) bool { return m.Name == "txtime" })
}
