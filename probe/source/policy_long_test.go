//go:build long

package source

import (
	"testing"

	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// TestLongPoliciesComeAndGo uses more policies than there is room for, one after the other.
func TestLongPoliciesComeAndGo(t *testing.T) {
	s := open(t, Settings{Policy: Policy{Modules: both, Encodings: wire.EncodingList{wire.Native}}, StartEmpty: true})
	packet := ipv4("192.0.2.1", "198.51.100.2", 17, ported(7, 1, []byte("x")))
	next := uint32(0)
	for round, size := range []int{1, 9, PoliciesMax} {
		policies := make([]Policy, PoliciesMax)
		for i := range policies {
			policies[i] = Policy{Modules: wire.Loss, Encodings: wire.EncodingList{wire.Shim}, Marking: wire.Marking{StampEvery: 1 + uint32(round<<8+i)}}
		}
		policies = policies[:size]
		s.setPoliciesOf(t, policies, []Rule{{Filter: fivetuple.Filter{}, Policy: len(policies) - 1}})
		m, encoding := s.markOf(t, packet)
		if encoding != "shim" || round > 0 && m.Sequence != next {
			t.Errorf("round %d: %s, number %d, want %d", round, encoding, m.Sequence, next)
		}
		next = (m.Sequence + 1) & wire.SequenceMask
	}
	loaded := 0
	for _, v := range s.variants {
		if v != nil {
			loaded++
		}
	}
	if loaded != PoliciesMax {
		t.Errorf("%d variants are loaded, want %d", loaded, PoliciesMax)
	}
}
