package sender

import (
	"bytes"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pillion.dev/internal/test/namespace"
	"pillion.dev/send/frame"
	"pillion.dev/send/model"
	"pillion.dev/send/stream"
)

// TestStream: the traffic of a model is written to a connection for each flow, in sizes that
// no frame could have, and tested for its fit.
func TestStream(t *testing.T) {
	namespace.NeedRoot(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan uint64)
	go func() {
		connections, _, _ := stream.Discard(t.Context(), l)
		ended <- connections
	}()
	m, err := model.ParseModel("interval=exponential(100us) size=constant(4kB) seed=2 count=50")
	if err != nil {
		t.Fatal(err)
	}
	h := &frame.Header{Protocol: frame.TCP, Destination: netip.MustParseAddr("127.0.0.1"), DestinationPort: l.Addr().(*net.TCPAddr).AddrPort().Port(), SourcePort: 50000}
	var out bytes.Buffer
	options := Options{Device: "lo", Flows: map[string]*frame.Header{"": h}, Model: m, FlowCount: 2, Late: time.Second, Stream: true}
	if err := Run(t.Context(), options, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"mechanism tcp-socket (sequential)\n", "scheduled 100 = sent 100 +", "flow 2, size constant(4000B,min=1B,max=65535B): drawn consistent (p 1.000), sent consistent",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
	l.Close()
	if n := <-ended; n > 2 {
		t.Errorf("%d connections", n)
	}
}
