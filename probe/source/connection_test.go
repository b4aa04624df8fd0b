package source

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/probe/hook"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// pipe is a TCP connection over the loopback device of a namespace.
type pipe struct{ client, server net.Conn }

func connect(t *testing.T, name, address string) pipe {
	t.Helper()
	var p pipe
	err := netns.Do(name, func() error {
		listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
		if err != nil {
			return err
		}
		defer listener.Close()
		if p.client, err = net.Dial("tcp", listener.Addr().String()); err != nil {
			return err
		}
		p.server, err = listener.Accept()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.client.Close(); p.server.Close() })
	return p
}

// echo moves a message there and back.
func (p pipe) echo(t *testing.T) {
	t.Helper()
	const message = "the seat behind the rider"
	buffer := make([]byte, len(message))
	for _, way := range []struct{ from, to net.Conn }{{p.client, p.server}, {p.server, p.client}} {
		_, err := io.WriteString(way.from, message)
		_, failed := io.ReadFull(way.to, buffer)
		if err := errors.Join(err, failed); err != nil || string(buffer) != message {
			t.Fatalf("%q arrived: %v", buffer, err)
		}
	}
}

// The kernel reserves room in connections that begin before and after the source, while
// its rules want them.
func TestConnectionsGetRoom(t *testing.T) {
	for family, address := range map[string]string{"ipv4": "127.0.0.1", "ipv6": "::1"} {
		t.Run(family, func(t *testing.T) {
			name := namespace.New(t)
			existing := connect(t, name, address)
			existing.echo(t)
			s := openOnLoopback(t, name, Settings{
				Policy: Policy{Modules: wire.Delay | wire.Loss, Encodings: wire.EncodingList{wire.TCPOption}}, StartEmpty: true,
			})
			rounds := func(rules []fivetuple.Filter) (marked, connections uint64) {
				t.Helper()
				if err := s.SetRules(rules, nil); err != nil {
					t.Fatal(err)
				}
				before := s.mustTally(t)
				existing.echo(t)
				connect(t, name, address).echo(t)
				after := s.mustTally(t)
				if after.Connections.Limit != "" {
					t.Error(after.Connections.Limit)
				}
				return after.Marked - before.Marked, after.Connections.Marked - before.Connections.Marked
			}
			if marked, connections := rounds(nil); marked+connections != 0 {
				t.Errorf("%d segments of %d connections are marked that no rule wants", marked, connections)
			}
			// Each connection has two ends here.
			tcp := []fivetuple.Filter{{Protocol: 6, HasProtocol: true}}
			if marked, connections := rounds(tcp); marked < 5 || connections != 4 {
				t.Errorf("%d segments of %d ends are marked, want at least 5 of 4", marked, connections)
			}
			if marked, connections := rounds(nil); marked+connections != 0 {
				t.Errorf("%d segments of %d connections are still marked", marked, connections)
			}
		})
	}
}

// openOnLoopback has a namespace's own packets marked until the test ends.
func openOnLoopback(t *testing.T, name string, settings Settings) *Source {
	t.Helper()
	return openOn(t, name, "lo", settings)
}

func openOn(t *testing.T, name, device string, settings Settings) *Source {
	t.Helper()
	var s *Source
	err := netns.Do(name, func() error {
		device, err := hook.Find(device)
		if err != nil {
			return err
		}
		s, err = Open(device, settings)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Renew(Forever); err != nil {
		t.Fatal(err)
	}
	return s
}

// The programs of all sources see the sockets of all networks: each leaves to the others the room that they made.
func TestConnectionsBesideOtherSources(t *testing.T) {
	name, elsewhere := namespace.New(t), namespace.New(t)
	const idle = "idle"
	err := netns.Do(name, func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: idle}, PeerName: "peer"})
	})
	if err != nil {
		t.Fatal(err)
	}
	option := wire.EncodingList{wire.TCPOption}
	openOn(t, name, idle, Settings{Policy: Policy{Modules: wire.Loss, Encodings: option}})
	openOnLoopback(t, elsewhere, Settings{Policy: Policy{Modules: wire.Loss, Encodings: option}})
	s := openOnLoopback(t, name, Settings{Policy: Policy{Modules: wire.Loss, Encodings: option, Tagged: true}})
	if err := s.SetKeys(map[netip.Prefix]wire.Key{everywhere[0]: pairKey}); err != nil {
		t.Fatal(err)
	}
	connect(t, name, "127.0.0.1").echo(t)
	tally := s.mustTally(t)
	if want := tally.Marked * uint64(wire.TCPOption.TaggedOverhead(wire.Loss)); tally.Marked < 5 || tally.BytesAdded != want {
		t.Errorf("%d bytes added to %d segments, want %d: %+v", tally.BytesAdded, tally.Marked, want, tally)
	}
}

// Connections of two policies get room for the marks of their own, of different lengths, and
// of those of a third none.
func TestConnectionsOfPolicies(t *testing.T) {
	name := namespace.New(t)
	s := openOnLoopback(t, name, Settings{Policy: Policy{Modules: wire.Loss, Encodings: wire.EncodingList{wire.Native, wire.Shim}}, StartEmpty: true})
	option := wire.EncodingList{wire.TCPOption}
	to := func(prefix string, policy int) Rule {
		return Rule{Filter: fivetuple.Filter{Protocol: 6, HasProtocol: true, Dst: netip.MustParsePrefix(prefix)}, Policy: policy}
	}
	policies := []Policy{
		{Modules: wire.Loss, Encodings: option}, {Modules: wire.Delay | wire.Loss, Encodings: option, Tagged: true},
		{Modules: wire.Loss, Encodings: wire.EncodingList{wire.UDP}},
	}
	rules := []Rule{to("127.0.0.1/32", 0), to("127.0.0.2/32", 1), to("127.0.0.3/32", 2)}
	set := func() {
		t.Helper()
		if err := netns.Do(name, func() error { return s.SetPolicies(policies, rules, nil) }); err != nil {
			t.Fatal(err)
		}
	}
	set()
	if err := s.SetKeys(map[netip.Prefix]wire.Key{everywhere[0]: pairKey}); err != nil {
		t.Fatal(err)
	}
	// The client is 127.0.0.1, so that segments to it have the first policy.
	for _, row := range []struct {
		address string
		tagged  bool // segments to it
	}{{"127.0.0.1", false}, {"127.0.0.2", true}} {
		before := s.mustTally(t)
		connect(t, name, row.address).echo(t)
		after := s.mustTally(t)
		marked, added := after.Marked-before.Marked, after.BytesAdded-before.BytesAdded
		if marked < 4 || after.Connections.Marked-before.Connections.Marked != 2 || after.Connections.Limit != "" {
			t.Errorf("%s: %d segments of %d ends marked: %+v", row.address, marked, after.Connections.Marked-before.Connections.Marked, after)
		}
		if long := added > marked*uint64(wire.TCPOption.Overhead(wire.Loss)); long != row.tagged {
			t.Errorf("%s: %d bytes added to %d segments", row.address, added, marked)
		}
	}
	policies, rules = policies[:1], []Rule{{Filter: fivetuple.Filter{Protocol: 6, HasProtocol: true}}}
	existing := connect(t, name, "127.0.0.2")
	existing.echo(t)
	set()
	before := s.mustTally(t)
	existing.echo(t)
	if after := s.mustTally(t); after.Marked == before.Marked {
		t.Errorf("no segment marked once there is one policy: %+v", after)
	}
}
