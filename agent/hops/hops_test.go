package hops

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"pillion.dev/session"
	"pillion.dev/trace"
)

func TestResult(t *testing.T) {
	at := time.Unix(1_760_000_000, 0)
	got := Result(&trace.Path{
		Time: at, Source: netip.MustParseAddr("10.0.0.1"), Destination: netip.MustParseAddr("2001:db8::2"), Protocol: "udp", Reached: true,
		Hops: []trace.Hop{
			{TTL: 1, Sent: 3},
			{TTL: 2, Address: netip.MustParseAddr("2001:db8::2"), RTT: 2 * time.Millisecond, Sent: 3, Answers: 2},
		},
	})
	want := session.TraceResult{
		Time: at, Source: "10.0.0.1", Address: "2001:db8::2", Protocol: "udp", Reached: true,
		Hops: []session.TraceHop{{TTL: 1, Sent: 3}, {TTL: 2, Address: "2001:db8::2", RTT: 2e6, Sent: 3, Answers: 2}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
