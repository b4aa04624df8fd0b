package router

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// fill occupies all places of the tables but so many.
func fill(t *testing.T, profile *Router, free uint32) {
	t.Helper()
	overflow := profile.collection.Maps[routerMapOverflows]
	for key := range overflow.MaxEntries() - free {
		if err := overflow.Put(uint64(key+1), routerPacket{}); err != nil {
			t.Fatal(err)
		}
	}
	occupy(t, profile, 1)
}

// refusals is of how many packets the address is remembered.
func refusals(t *testing.T, profile *Router) (n uint64) {
	t.Helper()
	var key uint64
	var value routerRefusal
	entries := profile.collection.Maps[routerMapRefusals].Iterate()
	for entries.Next(&key, &value) {
		n++
	}
	if err := entries.Err(); err != nil {
		t.Fatal(err)
	}
	return n
}

const burst = 8 // packets that are inside the router at once

// bursts sends n packets, several in one call: the left host's device gets all of them
// before the router forwards the first.
func (r *rig) bursts(address string, n int) {
	r.t.Helper()
	const length = 100
	r.run(r.left, "ethtool", "-K", "out", "tx-udp-segmentation", "off")
	client := r.dial(address)
	defer client.Close()
	raw, err := client.SyscallConn()
	if err != nil {
		r.t.Fatal(err)
	}
	if e := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT, length)
	}); e != nil || err != nil {
		r.t.Fatal(e, err)
	}
	for payload := make([]byte, burst*length); n > 0; n -= burst {
		for {
			_, err := client.Write(payload)
			if err == nil {
				break
			}
			if !isRefusal(err) {
				r.t.Fatal(err)
			}
		}
	}
}

// withoutLate is the account without the packets whose arrival was to be missed.
func withoutLate(a Account, late bool) Account {
	if late {
		a.NoArrival = 0
	}
	return a
}

// quiet leaves only what the test itself sends: nothing of IPv6, and no answers.
func (r *rig) quiet() {
	for _, host := range []string{r.left, r.router, r.right} {
		r.configure(host, "ipv6/conf/all/disable_ipv6", "1")
	}
	r.listen("10.9.2.2:9")
}

// inputBridge puts a bridge on top of the interface to the left.
func (r *rig) inputBridge() {
	r.ip(r.router, "link add top type bridge", "link set in0 master top", "address flush dev in0",
		"address add 10.9.1.1/24 dev top", "link set top up")
	r.ip(r.left, "neighbour flush dev out")
	server := r.listen("10.9.2.2:8")
	defer server.Close()
	r.reach(server, "10.9.2.2:8")
}

// plainBridge does the same; the bridge does not ask netfilter.
func (r *rig) plainBridge() {
	if _, err := os.Stat("/proc/sys/net/bridge"); err == nil {
		r.configure(r.router, "bridge/bridge-nf-call-iptables", "0")
	}
	r.inputBridge()
}
