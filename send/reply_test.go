package send

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/reply"
	"pillion.dev/send/schedule"
)

// TestReplies: each reply is matched with its packet, whatever the far end answers.
func TestReplies(t *testing.T) {
	r := newRig(t)
	const open = 80
	r.in(r.far, func() error {
		for _, address := range []netip.Addr{farAddress, farAddress6} {
			l, err := net.Listen("tcp", netip.AddrPortFrom(address, open).String())
			if err != nil {
				return err
			}
			t.Cleanup(func() { l.Close() })
		}
		return nil
	})
	for _, row := range []struct {
		protocol, flags string
		port            uint16
		kind            reply.Kind
		packets, least  int
	}{
		{frame.ICMP, "", 0, reply.EchoReply, 500, 500},
		{frame.TCP, "S", open, reply.SynAck, 200, 200},
		{frame.TCP, "S", 9, reply.Reset, 500, 500},
		{frame.TCP, "PA", open, reply.Reset, 500, 500}, // data of a connection that is not known
		{frame.UDP, "", 9, reply.Unreachable, 500, 1},  // hosts limit the rate of ICMP errors
	} {
		for _, to := range []netip.Addr{farAddress, farAddress6} {
			t.Run(fmt.Sprintf("%s %s %d to %v", row.protocol, row.flags, row.port, to), func(t *testing.T) {
				h := r.header(to, row.protocol)
				h.DestinationPort, h.TCPFlags, h.Identifier = row.port, row.flags, 77
				headers := map[string]*frame.Header{"": h}
				l, err := reply.Listen(r.namespace, nearDevice, headers)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				s, err := schedule.Train(row.packets, 120, 100*time.Microsecond, schedule.Trains{})
				job := jobOf(t, h, s, err)
				job.Prepare = l.Prepare
				a, records, err := r.send(t.Context(), r.open(dispatch.Options{Mechanism: "bpf"}), job)
				if err != nil || a.Sent != uint64(row.packets) {
					t.Fatalf("%+v, %v", a, err)
				}
				l.Await(t.Context(), uint64(row.least), 5*time.Second)
				replied := 0
				for _, record := range records {
					got, ok := l.Of(record.Train, record.Number)
					if !ok {
						continue
					}
					replied++
					// The clock is converted, with an error of a microsecond.
					if got.Kind != row.kind || got.From != to || got.At < record.Departure()-1000 || got.At > dispatch.Now() {
						t.Fatalf("%+v: %+v", record, got)
					}
				}
				if replied < row.least || row.least == row.packets && l.Duplicates() != 0 {
					t.Errorf("%d replies, %d duplicates", replied, l.Duplicates())
				}
			})
		}
	}
}
