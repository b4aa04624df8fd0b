package source

import (
	"errors"
	"testing"

	"pillion.dev/probe/flow"
	"pillion.dev/probe/hook"
	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// TestAggregatesAreNamed: a mark that numbers packets of flows by other fields says by which.
func TestAggregatesAreNamed(t *testing.T) { aggregatesAreNamed(t, false) }

// aggregatesAreNamed does so for all fields in each encoding, or for some.
func aggregatesAreNamed(t *testing.T, full bool) {
	vectors, err := codec.Vectors()
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, encoding wire.Encoding, modules wire.Module) {
		for i, fields := range []flow.Fields{flow.Src | flow.Dst, flow.Dst, flow.Src | flow.Dst | flow.Protocol | flow.Dport} {
			if !full && i != int(encoding)%3 {
				continue
			}
			settings := all(encoding, modules)
			settings.Flow = fields
			s := open(t, settings)
			for _, v := range vectors {
				if v.Encoding != wire.Native && v.Encoding != encoding || v.Port != wire.Port || len(v.Original) > 1400 {
					continue
				}
				want, in := encodingFor(encoding, v.Original), v.Original
				if v.Encoding == wire.TCPOption {
					if in, err = codec.ReserveTCPOption(v.Original); err != nil {
						t.Fatal(err)
					}
					want = wire.TCPOption
				}
				m := checkMarked(t, run(t, s.objects.SourceTc, in), v.Original, want)
				named := fields
				if want == wire.Native && modules == wire.Delay {
					named = 0 // nothing is numbered
				}
				if m.Modules != modules || m.Aggregate != uint8(named) {
					t.Errorf("%s: %v of flows by %v", v.Name, m.Modules, flow.Fields(m.Aggregate))
				}
			}
		}
	})
}

// TestAggregatesInStandards: encodings that cannot name the fields are refused.
func TestAggregatesInStandards(t *testing.T) {
	for _, encoding := range standards() {
		settings := all(encoding, wire.Delay|wire.Loss)
		settings.Flow = flow.Src | flow.Dst
		if _, err := specification(hook.Device{Name: "none", MTU: 1500, LinkLength: 14}, settings, 0); !errors.Is(err, ErrAggregate) {
			t.Errorf("%v: %v", encoding, err)
		}
	}
}
