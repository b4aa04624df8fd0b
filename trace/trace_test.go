package trace

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
)

// trace traces from host a.
func (n *network) trace(options Options) Path {
	n.t.Helper()
	var path Path
	n.do("a", func() (err error) {
		path, err = Trace(n.t.Context(), options)
		return err
	})
	return path
}

// shown formats the path in one line: the addresses, * for no answer.
func shown(path *Path) string {
	var hops []string
	for i, h := range path.Hops {
		text := "*"
		if h.Address.IsValid() {
			text = h.Address.String()
		}
		if h.TTL != i+1 {
			text += fmt.Sprintf(" at ttl %d", h.TTL)
		}
		hops = append(hops, text)
	}
	if !path.Reached {
		hops = append(hops, "not reached")
	}
	return strings.Join(hops, " ")
}

// families are both IP versions with both protocols.
var families = []struct {
	name     string
	address  func(link, end int) netip.Addr
	protocol string
}{
	{"IPv4 UDP", four, UDP}, {"IPv4 ICMP", four, ICMP}, {"IPv6 UDP", six, UDP}, {"IPv6 ICMP", six, ICMP},
}

func checkChain(t *testing.T, path *Path, address func(int, int) netip.Addr, links []int) {
	t.Helper()
	var want []string
	for _, link := range links {
		if link == 0 {
			want = append(want, "*")
		} else {
			want = append(want, address(link, 2).String())
		}
	}
	if links[len(links)-1] == 0 {
		want = append(want, "not reached")
	}
	if got := shown(path); got != strings.Join(want, " ") {
		t.Errorf("got %s, want %s", got, strings.Join(want, " "))
	}
	for _, h := range path.Hops {
		if h.Sent != 3 || h.Address.IsValid() != (h.Answers > 0) || h.Answers > h.Sent || (h.RTT > 0) != (h.Answers > 0) {
			t.Errorf("inconsistent hop: %+v", h)
		}
	}
}

// Linux answers six probes of one host at once, then one a second. A trace must work with
// that.
func TestRateLimitedAnswers(t *testing.T) {
	n := newChain(t, 3)
	for host := range n.hosts {
		n.do(host, func() error {
			return errors.Join(
				os.WriteFile("/proc/sys/net/ipv4/icmp_ratelimit", []byte("1000"), 0o644),
				os.WriteFile("/proc/sys/net/ipv4/icmp_ratemask", []byte("6168"), 0o644), // errors
				os.WriteFile("/proc/sys/net/ipv6/icmp/ratelimit", []byte("1000"), 0o644),
				os.WriteFile("/proc/sys/net/ipv6/icmp/ratemask", []byte("0-1,3-127"), 0o644))
		})
	}
	for _, address := range []func(int, int) netip.Addr{four, six} {
		path := n.trace(Options{Destination: address(4, 2)})
		checkChain(t, &path, address, []int{1, 2, 3, 4})
	}
}

// newFork is a - r1 - {r2, r3} - r4 - b, where r1 chooses between r2 and r3 by flow.
func newFork(t *testing.T) *network {
	n := newNetwork(t, [][2]string{{"a", "r1"}, {"r1", "r2"}, {"r1", "r3"}, {"r2", "r4"}, {"r3", "r4"}, {"r4", "b"}})
	for _, link := range []string{"link2", "link3", "link4", "link5", "link6"} {
		n.route("a", link, [2]int{1, 2})
	}
	n.route("r1", "link6", [2]int{2, 2}, [2]int{3, 2})
	n.route("r2", "link1", [2]int{2, 1})
	n.route("r2", "link6", [2]int{4, 2})
	n.route("r3", "link1", [2]int{3, 1})
	n.route("r3", "link6", [2]int{5, 2})
	n.route("r4", "link1", [2]int{4, 1})
	n.route("b", "link1", [2]int{6, 1})
	return n
}

func TestOneFlowShowsOnePath(t *testing.T) {
	n := newFork(t)
	for _, family := range families {
		t.Run(family.name, func(t *testing.T) {
			destination := family.address(6, 2)
			const traces = 20
			first := n.trace(Options{Destination: destination, Protocol: family.protocol})
			if !first.Reached || len(first.Hops) != 4 {
				t.Fatalf("got %s, want 4 hops", shown(&first))
			}
			for range traces - 1 {
				path := n.trace(Options{Destination: destination, Protocol: family.protocol})
				if shown(&path) != shown(&first) {
					t.Errorf("got %s, the first was %s", shown(&path), shown(&first))
				}
				for _, h := range path.Hops {
					if len(h.Others) > 0 {
						t.Errorf("hop of several addresses: %+v", h)
					}
				}
			}
		})
	}
}

// This proves that the fork of the test above works. Linux hashes no ports of ICMP, so
// only UDP spreads.
func TestFlowsSpreadOverAFork(t *testing.T) {
	n := newFork(t)
	for _, family := range families {
		if family.protocol == ICMP {
			continue
		}
		t.Run(family.name, func(t *testing.T) {
			seen := map[string]bool{}
			for number := range uint16(40) {
				path := n.trace(Options{Destination: family.address(6, 2), Protocol: family.protocol, Flow: number, Attempts: 1})
				seen[shown(&path)] = true
			}
			if len(seen) != 2 {
				t.Errorf("got paths %v, want 2", seen)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	n := newChain(t, 2)
	for _, family := range families {
		t.Run(family.name, func(t *testing.T) {
			n.do("a", func() error { return addDefault(family.address(1, 2)) })
			n.do("r1", func() error { return addDefault(family.address(2, 2)) })
			destination := netip.MustParseAddr("10.99.9.9")
			if family.address(1, 1).Is6() {
				destination = netip.MustParseAddr("fd99::9")
			}
			path := n.trace(Options{Destination: destination, Protocol: family.protocol})
			want := fmt.Sprintf("%s %s not reached", family.address(1, 2), family.address(2, 2))
			if shown(&path) != want {
				t.Errorf("got %s, want %s", shown(&path), want)
			}
		})
	}
}

func TestOwnAddress(t *testing.T) {
	n := newChain(t, 0)
	for _, family := range families {
		path := n.trace(Options{Destination: family.address(1, 1), Protocol: family.protocol})
		if got, want := shown(&path), family.address(1, 1).String(); got != want {
			t.Errorf("%s: got %s, want %s", family.name, got, want)
		}
	}
}

func TestSourceAddress(t *testing.T) {
	n := newChain(t, 2)
	for _, family := range families {
		source := family.address(1, 1)
		path := n.trace(Options{Destination: family.address(3, 2), Source: source, Protocol: family.protocol, Mark: 0x50})
		if path.Source != source || !path.Reached {
			t.Errorf("%s: got %+v", family.name, path)
		}
	}
	n.do("a", func() error {
		if _, err := Trace(t.Context(), Options{Destination: four(3, 2), Source: four(9, 9)}); !errors.Is(err, unix.EADDRNOTAVAIL) {
			t.Errorf("from a foreign address: got %v", err)
		}
		return nil
	})
}

func TestNoRoute(t *testing.T) {
	n := newChain(t, 0)
	n.do("a", func() error {
		if _, err := Trace(t.Context(), Options{Destination: netip.MustParseAddr("10.99.9.9")}); !errors.Is(err, unix.ENETUNREACH) {
			t.Errorf("got %v, want network unreachable", err)
		}
		return nil
	})
}

// Concurrent traces of one flow must not use each other's answers.
func TestConcurrentTraces(t *testing.T) {
	n := newChain(t, 3)
	results := make(chan string)
	const traces = 8
	for range traces {
		go func() {
			var path Path
			err := netns.Do(n.hosts["a"], func() (err error) {
				path, err = Trace(t.Context(), Options{Destination: four(4, 2)})
				return err
			})
			text := shown(&path)
			for _, h := range path.Hops {
				text += fmt.Sprintf(" %d/%d", h.Answers, h.Sent)
			}
			if err != nil {
				text = err.Error()
			}
			results <- text
		}()
	}
	for range traces {
		if got, want := <-results, "10.91.1.2 10.91.2.2 10.91.3.2 10.91.4.2 3/3 3/3 3/3 3/3"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestCancel(t *testing.T) {
	n := newChain(t, 0)
	n.silence("b")
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	n.do("a", func() error {
		timer := time.AfterFunc(20*time.Millisecond, func() { cancel(cause) })
		defer timer.Stop()
		if _, err := Trace(ctx, Options{Destination: four(1, 2), Wait: time.Hour}); !errors.Is(err, cause) {
			t.Errorf("got %v, want %v", err, cause)
		}
		if _, err := Trace(ctx, Options{Destination: four(1, 2)}); err == nil {
			t.Error("traced although the context had ended")
		}
		return nil
	})
}

func TestWithoutPermission(t *testing.T) {
	namespace.NeedRoot(t)
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if err := dropCapability(unix.CAP_NET_RAW); err != nil {
			result <- err
			return
		}
		_, err := Trace(t.Context(), Options{Destination: netip.MustParseAddr("127.0.0.1")})
		result <- err
	}()
	err := <-result
	if !errors.Is(err, ErrPermission) {
		t.Errorf("got %v, want %v", err, ErrPermission)
	}
}

func TestInvalidOptions(t *testing.T) {
	tests := map[string]Options{
		"no destination":          {},
		"everybody":               {Destination: netip.MustParseAddr("224.0.0.1")},
		"unspecified destination": {Destination: netip.MustParseAddr("::")},
		"two families":            {Destination: netip.MustParseAddr("10.0.0.1"), Source: netip.MustParseAddr("fd00::1")},
		"unknown protocol":        {Destination: netip.MustParseAddr("10.0.0.1"), Protocol: "tcp"},
		"too many hops":           {Destination: netip.MustParseAddr("10.0.0.1"), MaxHops: 256},
		"negative attempts":       {Destination: netip.MustParseAddr("10.0.0.1"), Attempts: -1},
		"negative wait":           {Destination: netip.MustParseAddr("10.0.0.1"), Wait: -1},
	}
	for name, options := range tests {
		if _, err := Trace(t.Context(), options); !errors.Is(err, errOptions) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
