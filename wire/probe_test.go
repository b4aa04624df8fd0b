package wire_test

import (
	"bytes"
	"encoding/hex"
	"testing"

	"pillion.dev/wire"
)

// probeVectors are probes and their bytes.
var probeVectors = []struct {
	name  string
	probe wire.Probe
	bytes string
}{
	{"question without a mark", wire.Probe{Round: 2, Token: 0x0102030405060708},
		"504c5650" + "0000ffff" + "01ff0002" + "00000000" + "0102030405060708"},
	{"question with a mark", wire.Probe{Marked: true, Encoding: wire.UDPOption, Token: 1},
		"504c5650" + "0000ffff" + "01040000" + "00000000" + "0000000000000001"},
	{"answer, mark read", wire.Probe{Answer: true, Marked: true, Encoding: wire.Native, Token: 1, Read: wire.ProbeMarkRead},
		"504c5650" + "0001fffe" + "02000000" + "00000000" + "0000000000000001"},
	{"answer, mark malformed", wire.Probe{Answer: true, Marked: true, Encoding: wire.UDPOption, Token: 1, Read: wire.ProbeMalformed},
		"504c5650" + "0002fffd" + "02040000" + "00000000" + "0000000000000001"},
}

func TestProbe(t *testing.T) {
	for _, row := range probeVectors {
		t.Run(row.name, func(t *testing.T) {
			want, err := hex.DecodeString(row.bytes)
			if err != nil {
				t.Fatal(err)
			}
			if got := row.probe.Append(nil); !bytes.Equal(got, want) || len(got) != wire.ProbeLength {
				t.Errorf("got %x, want %x", got, want)
			}
			if got, err := wire.ParseProbe(append(want, 0, 0)); err != nil || got != row.probe {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// FuzzProbe: what is read is written the same.
func FuzzProbe(f *testing.F) {
	for _, row := range probeVectors {
		f.Add(row.probe.Append(nil))
	}
	f.Add(append(wire.Probe{}.Append(nil)[:8], 3, 9))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := wire.ParseProbe(b)
		if err != nil {
			return
		}
		if again, err := wire.ParseProbe(p.Append(nil)); err != nil || again != p {
			t.Errorf("%x: %+v became %+v, %v", b, p, again, err)
		}
	})
}
