package source

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/probe/hook"
	"pillion.dev/wire"
)

// connections are the programs that have the kernel reserve room for marks in the TCP
// connections of this host. They end with the process.
type connections struct {
	programs struct {
		Callbacks *ebpf.Program `ebpf:"source_connection"`
		Existing  *ebpf.Program `ebpf:"source_connections"`
	}
	network  *os.File // the device's namespace
	callback link.Link
	iterator *link.Iter
	// refused says that the kernel does not let programs take up existing connections,
	// unlisted why they could not be listed.
	refused  bool
	unlisted error
}

// Connections counts the TCP connections whose segments carry marks in an option.
type Connections struct {
	Marked uint64 `json:"marked"`
	// Paused counts retransmission timeouts that interrupted the marking of a connection
	// until all that was sent before was acknowledged, Stopped those that ended it: nothing
	// marked had been acknowledged before.
	Paused  uint64 `json:"paused"`
	Stopped uint64 `json:"stopped"`
	// WithoutAcks are connections whose acknowledgements without data are not marked any
	// more, since the peer repeated data as if it had not received them.
	WithoutAcks uint64 `json:"without_acks"`
	// Avoided are connections without marks, since the marks of earlier connections to the
	// same destination were lost on the way.
	Avoided uint64 `json:"avoided"`
	// Full counts segments whose options left too little room. The kernel does not ask where
	// they left none: among the skipped packets, tcp_options has both.
	Full uint64 `json:"full"`
	// Cleared counts segments of connections whose callbacks a program of other software cleared, until they were set
	// again: without them the kernel reserves no room.
	Cleared uint64 `json:"callbacks_cleared,omitempty"`
	// Limit says which connections are not marked although the encodings ask for it.
	Limit string `json:"limit,omitempty"`
}

func (c *Connections) add(cpu *sourceTally) {
	c.Marked += cpu.Connections
	c.Paused += cpu.ConnectionsPaused
	c.Stopped += cpu.ConnectionsStopped
	c.WithoutAcks += cpu.ConnectionsWithoutAcks
	c.Avoided += cpu.ConnectionsAvoided
	c.Full += cpu.SegmentsFull
	c.Cleared += cpu.CallbacksCleared
}

// connectionLimit says why connections are not marked, if any are not.
func (s *Source) connectionLimit() string {
	for _, index := range s.places {
		switch v, c := s.variants[index], s.variants[index].connections; {
		case v.unfollowed != nil:
			return fmt.Sprintf("no connection is marked by %v: %v", wire.TCPOption, v.unfollowed)
		case c != nil && c.unlisted != nil:
			return fmt.Sprintf("connections that began earlier are not marked: %v", c.unlisted)
		case c != nil && c.refused:
			return "connections that began earlier are not marked: that needs Linux 6.12"
		}
	}
	return ""
}

// networkCookie is what the programs tell the calling thread's network namespace by.
func networkCookie() (uint64, error) {
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open socket: %w", err)
	}
	defer unix.Close(socket)
	cookie, err := unix.GetsockoptUint64(socket, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if errors.Is(err, unix.ENOPROTOOPT) {
		return 0, fmt.Errorf("%w: cookies of network namespaces need Linux 5.14", hook.ErrOldKernel)
	}
	if err != nil {
		return 0, fmt.Errorf("read cookie of network namespace: %w", err)
	}
	return cookie, nil
}

// openConnections attaches the programs. They share all maps with the source's programs,
// so spec must be the one that these were loaded from.
func openConnections(spec *ebpf.CollectionSpec, maps map[string]*ebpf.Map) (*connections, error) {
	c := &connections{}
	err := c.open(spec, maps)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("follow connections: %w", err), c.Close())
	}
	return c, nil
}

func (c *connections) open(spec *ebpf.CollectionSpec, maps map[string]*ebpf.Map) error {
	var err error
	if err = hook.Load(spec, &c.programs, maps); err != nil {
		return err
	}
	if c.network, err = os.Open("/proc/thread-self/ns/net"); err != nil {
		return fmt.Errorf("open network namespace: %w", err)
	}
	if c.callback, err = hook.AttachSockets(c.programs.Callbacks); err != nil {
		return err
	}
	c.iterator, err = link.AttachIter(link.IterOptions{Program: c.programs.Existing})
	if err != nil {
		return fmt.Errorf("list connections: %w", err)
	}
	return nil
}

// follow attaches the programs if the list has the encoding first for local TCP of either
// family. Without them its packets get the next of the list; if there is none that is an
// error.
func (s *Source) follow(v *variant, spec *ebpf.CollectionSpec) error {
	list := v.policy.Encodings
	var families wire.Class
	for _, family := range []wire.Class{wire.ClassIPv4, wire.ClassIPv6} {
		if first, ok := list.Choose(family | wire.ClassTCP); ok && first == wire.TCPOption {
			families |= family
		}
	}
	if families == 0 {
		return nil
	}
	maps := s.objects.shared()
	maps[".rodata"], maps[sourceMapConnections] = v.programs.Constants, v.programs.Connections
	c, err := openConnections(spec, maps)
	if err != nil {
		if len(list) == 1 {
			return err
		}
		v.unfollowed = err
		return nil
	}
	v.connections, v.families = c, families
	return nil
}

// takeUp lets the program see the existing connections that the rules want.
func (s *Source) takeUp() error {
	for _, v := range s.variants {
		if v == nil || v.connections == nil {
			continue
		}
		if err := s.takeUpBy(v.connections); err != nil {
			return err
		}
	}
	return nil
}

func (s *Source) takeUpBy(c *connections) error {
	err := errors.Join(s.objects.ConnectionsFound.Set(uint32(0)), s.objects.ConnectionsRefused.Set(uint32(0)))
	if err != nil {
		return err
	}
	c.unlisted = netns.DoIn(c.network, c.list)
	var refused uint32
	if err := s.objects.ConnectionsRefused.Get(&refused); err != nil {
		return err
	}
	c.refused = c.refused || refused != 0
	return nil
}

// list runs the program on each connection of the thread's network namespace.
func (c *connections) list() error {
	reader, err := c.iterator.Open()
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, reader)
	return errors.Join(err, reader.Close())
}

// Close detaches the programs: from then on no header gets room.
func (c *connections) Close() error {
	if c == nil {
		return nil
	}
	var err error
	if c.callback != nil {
		err = errors.Join(err, c.callback.Close())
	}
	if c.iterator != nil {
		err = errors.Join(err, c.iterator.Close())
	}
	if c.network != nil {
		err = errors.Join(err, c.network.Close())
	}
	return errors.Join(err, c.programs.Callbacks.Close(), c.programs.Existing.Close())
}
