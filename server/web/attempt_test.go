package web

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"
)

func TestAttempts(t *testing.T) {
	a4, b4 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	a6, sameNet, otherNet := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::ffff:1"), netip.MustParseAddr("2001:db8:0:1::1")
	tests := []struct {
		name      string
		failures  int
		from, ask netip.Addr
		wait      time.Duration
		want      bool
	}{
		{"first", 0, a4, a4, 0, false},
		{"below the burst", attemptBurst - 1, a4, a4, 0, false},
		{"burst", attemptBurst, a4, a4, 0, true},
		{"another address", attemptBurst, a4, b4, 0, false},
		{"forgiven", attemptBurst, a4, a4, attemptEvery, false},
		{"not forgiven all at once", attemptBurst + 5, a4, a4, attemptEvery, true},
		{"same network", attemptBurst, a6, sameNet, 0, true},
		{"another network", attemptBurst, a6, otherNet, 0, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			now := epoch
			a := newAttempts(func() time.Time { return now })
			for range test.failures {
				a.failed(test.from)
			}
			now = now.Add(test.wait)
			if got := a.blocked(test.ask); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestAttemptsAreBounded(t *testing.T) {
	now := epoch
	a := newAttempts(func() time.Time { return now })
	address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(i)))) }
	for i := range attemptSources + 100 {
		a.failed(address(i))
	}
	if n := len(a.buckets); n > attemptSources+1 {
		t.Errorf("%d buckets, want at most %d", n, attemptSources+1)
	}
	if !a.blocked(address(1 << 30)) {
		t.Error("a new address does not share the common bucket")
	}
	now = now.Add(time.Hour)
	a.failed(address(1 << 30))
	if n := len(a.buckets); n > 10 {
		t.Errorf("%d buckets after an hour, want empty ones removed", n)
	}
}
