package source

import (
	"net/netip"
	"testing"

	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// judgement is the word of verdict.h in its parts.
type judgement struct {
	passed, policy, verdict, limit, state uint64
}

func judgementOf(word uint64) judgement {
	return judgement{word >> 48, word >> 44 & 0xf, word >> 38 & 0x3f, word >> 22 & 0xffff, word & 0x3fffff}
}

// judgements returns those of all flows in slots.
func (s *Source) judgements(t *testing.T) (all []judgement) {
	t.Helper()
	var key uint32
	var slot sourceSlot
	entries := s.objects.Slots.Iterate()
	for entries.Next(&key, &slot) {
		if slot.Key.Last != 0 {
			all = append(all, judgementOf(slot.Numbers.Judgement))
		}
	}
	if err := entries.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestJudgementWord: no part of the word runs into another.
func TestJudgementWord(t *testing.T) {
	to := netip.MustParseAddr("2001:db8::2")
	packet := ipv6("2001:db8::1", to.String(), 6, tcp(1, 2, 0x10, nil, []byte("x")))
	settings := Settings{Policy: Policy{Modules: wire.Loss, Encodings: wire.EncodingList{wire.Native}}, ValidatePaths: true, StartEmpty: true}
	s := open(t, settings)
	if err := s.SetValidation(Path{to, wire.Native}, Passed); err != nil {
		t.Fatal(err)
	}
	check := func(name string, want judgement) {
		t.Helper()
		run(t, s.objects.SourceTc, packet)
		run(t, s.objects.SourceTc, packet) // the first of a flow has no slot yet
		all := s.judgements(t)
		if len(all) != 1 {
			t.Fatalf("%s: %d flows have a judgement", name, len(all))
		}
		all[0].state = 0
		if all[0] != want {
			t.Errorf("%s: %+v, want %+v", name, all[0], want)
		}
	}
	if err := s.SetRules([]fivetuple.Filter{{}}, nil); err != nil {
		t.Fatal(err)
	}
	check("passed", judgement{passed: 1 << wire.Native, limit: 1500})
	if err := s.LimitPath(to, 1234); err != nil {
		t.Fatal(err)
	}
	check("limited", judgement{passed: 1 << wire.Native, limit: 1234})
	for _, state := range []uint32{0x3ffffe, 0x3fffff, 0x400000, 0xffffffff} {
		if err := s.objects.RulesState.Set(state); err != nil {
			t.Fatal(err)
		}
		check("state wraps", judgement{passed: 1 << wire.Native, limit: 1234})
	}
	if err := s.SetValidation(Path{to, wire.Native}, Failed); err != nil {
		t.Fatal(err)
	}
	check("failed", judgement{limit: 1234})
	if err := s.SetRules(nil, nil); err != nil {
		t.Fatal(err)
	}
	check("no rule", judgement{verdict: uint64(sourceOutcomeOUTCOME_NO_MATCH)})
}
