package destination

import (
	"net/netip"
	"testing"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// named marks a datagram with a number as the agent of that number does; 0: marks name nobody.
func named(t *testing.T, encoding wire.Encoding, ingress, number uint32) []byte {
	t.Helper()
	mark := codec.Mark{Modules: wire.Loss, Sequence: number, Single: true}
	if ingress != 0 {
		mark.Options = codec.AppendModules(codec.IngressOption(ingress))
	}
	marked, err := codec.Insert(datagramOf(encoding), encoding, mark, wire.Port)
	if err != nil {
		t.Fatal(err)
	}
	return marked
}

// TestIngressNamed: two agents mark packets of the same five-tuple with numbers of their own,
// which are two flows. A mark that names an agent is attributed by that alone, one that names
// none by the source of the packet.
func TestIngressNamed(t *testing.T) {
	for _, encoding := range []wire.Encoding{wire.Native, wire.UDP} {
		t.Run(encoding.String(), func(t *testing.T) {
			host := keyOf(datagramOf(encoding)).Src
			d := open(t, Settings{Ingresses: Ingresses{7: {}, 9: {}}})
			const packets, apart = 50, 1 << 20
			for i := range uint32(packets) {
				run(t, d.objects.DestinationTc, frame(named(t, encoding, 7, i)), 0)
				run(t, d.objects.DestinationXdp, frame(named(t, encoding, 9, apart+i)), 0)
			}
			for _, ingress := range []uint32{0, 8, 0x10007} {
				marked := frame(named(t, encoding, ingress, 1))
				checkFrame(t, run(t, d.objects.DestinationTc, marked, 0), marked)
			}
			if tally := d.mustTally(t); tally.Packets != 2*packets || tally.Restored != 2*packets || tally.Reasons["peer"] != 3 {
				t.Errorf("tally %+v", tally)
			}
			rows, err := d.Read(ByHost)
			if err != nil {
				t.Fatal(err)
			}
			found := map[uint32]uint64{}
			for _, row := range rows {
				found[row.Key.Ingress] = row.Packets
				if row.Lost != 0 || row.Restarts != 0 || row.Duplicated != 0 || row.Key.Src != host {
					t.Errorf("row %+v", row)
				}
			}
			if len(rows) != 2 || found[7] != packets || found[9] != packets {
				t.Errorf("packets by agent: %v", found)
			}
			// The agents leave, and the host itself marks.
			if err := d.Accept(Peers{netip.PrefixFrom(host, host.BitLen()): {}}, nil); err != nil {
				t.Fatal(err)
			}
			run(t, d.objects.DestinationTc, frame(named(t, encoding, 7, packets)), 0)
			run(t, d.objects.DestinationTc, frame(named(t, encoding, 0, 1)), 0)
			if tally := d.mustTally(t); tally.Packets != 2*packets+1 || tally.Reasons["peer"] != 4 {
				t.Errorf("once the agents have left: %+v", tally)
			}
		})
	}
}

// TestIngressLimit: a number that no mark can name is refused.
func TestIngressLimit(t *testing.T) {
	d := open(t, Settings{StartEmpty: true})
	if err := d.Accept(nil, Ingresses{wire.IngressMax + 1: {}}); err == nil {
		t.Error("too high a number was accepted")
	}
	if err := d.Accept(nil, Ingresses{wire.IngressMax: {}}); err != nil {
		t.Error(err)
	}
}
