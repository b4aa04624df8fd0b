package validation

import (
	"net/netip"
	"testing"
	"time"

	"pillion.dev/probe/source"
	"pillion.dev/wire"
)

var h2 = netip.MustParseAddr("192.0.2.2")

func secretOf(text string) []byte { return []byte(text + "0123456789abcdef")[:16] }

func peerWith(secret []byte, agent string) Peer {
	key := wire.NewProbeKey(secret)
	return Peer{Address: h2, Agent: agent, Key: &key, Encodings: wire.EncodingList{wire.UDPOption}}
}

// TestOnlyTheAgentProvesItsAddress: an answer counts if the responder has the key of the pair
// and is the agent that is expected at this address.
func TestOnlyTheAgentProvesItsAddress(t *testing.T) {
	peer := peerWith(secretOf("web"), "h2")
	probe := wire.Probe{Token: 7}
	for _, row := range []struct {
		name      string
		responder string
		secret    []byte
		at        netip.Addr
		want      bool
	}{
		{"the agent", "h2", secretOf("web"), h2, true},
		{"another agent of the session", "h3", secretOf("web"), h2, false},
		{"an agent of another session", "h2", secretOf("db"), h2, false},
		{"a host without a key", "h2", nil, h2, false},
		{"relayed to another address", "h2", secretOf("web"), netip.MustParseAddr("192.0.2.3"), false},
	} {
		t.Run(row.name, func(t *testing.T) {
			var keys Keyring
			if row.secret != nil {
				keys.Set(row.responder, [][]byte{row.secret, secretOf("other")})
			}
			question := peer.message(probe)
			answered := probe
			answered.Answer = true
			answer, _ := keys.seal(answered.Append(nil), question, row.at)
			if got := peer.genuine(answer); got != row.want {
				t.Errorf("genuine %t", got)
			}
			if !(Peer{}).genuine(answer) {
				t.Error("an answer to a peer without a key does not count")
			}
			p := &Prober{tests: map[source.Path]*test{}, sizes: map[source.Path]*sizeTest{}}
			one := newTest(source.Path{Address: h2, Encoding: proof}, peer)
			one.token = probe.Token
			p.tests[one.path] = one
			p.answered(channel{}, h2, answered, answer)
			if got := one.result(); !row.want && got != Foreign {
				t.Errorf("result %s", got)
			}
			select {
			case <-one.decided:
				if !row.want {
					t.Error("the address is proven")
				}
			default:
				if row.want {
					t.Error("the address is not proven")
				}
			}
		})
	}
}

// TestForgedUnreachableProvesNothing: anyone can send an ICMP port unreachable.
func TestForgedUnreachableProvesNothing(t *testing.T) {
	p := &Prober{tests: map[source.Path]*test{}, sizes: map[source.Path]*sizeTest{}}
	for _, e := range []wire.Encoding{proof, wire.UDPOption} {
		one := newTest(source.Path{Address: h2, Encoding: e}, peerWith(secretOf("web"), "h2"))
		p.tests[one.path] = one
		for range 3 {
			p.unreachable(channel{}, h2, wire.Probe{})
			p.unreachable(channel{marked: true, encoding: e}, h2, wire.Probe{})
		}
		if got := one.result(); got != Unanswered {
			t.Errorf("%v: %s", e, got)
		}
		select {
		case <-one.decided:
			t.Errorf("%v passed", e)
		default:
		}
	}
}

// TestProofEnds: a proof holds for ProofLife without an answer, and ends at once when another
// host answers.
func TestProofEnds(t *testing.T) {
	start := time.Now()
	proven := func() *path {
		p := &path{Path: Path{Path: source.Path{Address: h2, Encoding: proof}, State: Pending}}
		p.take(Passed, start, refreshLeast)
		return p
	}
	p := proven()
	for at := 10 * time.Second; at < ProofLife; at += time.Second {
		if p.take(Unanswered, start.Add(at), refreshLeast); p.State != Passed {
			t.Fatalf("%s after %v", p.State, at)
		}
	}
	if p.take(Unanswered, start.Add(ProofLife), refreshLeast); p.State != Unanswered {
		t.Errorf("%s after %v", p.State, ProofLife)
	}
	p = proven()
	if p.take(Foreign, start.Add(10*time.Second), refreshLeast); p.State != Foreign {
		t.Errorf("%s after the answer of another host", p.State)
	}
}

// TestExpect: what is proven depends on the agent, and no marked probe is sent before.
func TestExpect(t *testing.T) {
	p := &Prober{source: &fakeSource{}, most: source.DefaultPaths, paths: map[source.Path]*path{}, tests: map[source.Path]*test{}, wake: make(chan struct{}, 1)}
	p.Expect([]Peer{peerWith(secretOf("web"), "h2"), peerWith(secretOf("db"), "h3")})
	key, marked := source.Path{Address: h2, Encoding: proof}, source.Path{Address: h2, Encoding: wire.UDPOption}
	if len(p.paths) != 2 || !p.blocked(marked) || p.blocked(key) || p.Proven(h2, "h2") {
		t.Fatalf("%+v", p.paths)
	}
	p.paths[key].take(Passed, time.Now(), refreshLeast)
	if p.blocked(marked) || !p.Proven(h2, "h2") || p.Proven(h2, "h3") {
		t.Error("h2 has not proven its address, or h3 has")
	}
	if proofs := p.Proofs(); len(proofs) != 1 || proofs[0].Agent != "h2" || len(p.Paths()) != 1 {
		t.Errorf("%+v, paths %+v", proofs, p.Paths())
	}
	other := peerWith(secretOf("web"), "h2")
	other.Encodings = wire.EncodingList{wire.Shim, wire.UDPOption, wire.Native}
	if p.Expect([]Peer{peerWith(secretOf("web"), "h2"), other}); len(p.Paths()) != 2 {
		t.Errorf("paths in the encodings of two sessions: %+v", p.Paths())
	}
	p.Expect([]Peer{peerWith(secretOf("db"), "h2")})
	if !p.Proven(h2, "h2") {
		t.Error("another session of the same agents ends the proof")
	}
	p.Expect([]Peer{peerWith(secretOf("db"), "h3")})
	if p.Proven(h2, "h2") || p.Proven(h2, "h3") {
		t.Error("the proof of one agent holds for another")
	}
	p.Expect(nil)
	if len(p.Proofs()) != 0 {
		t.Error("proofs without peers remain")
	}
}

// TestFloodTakesNoAnswerFromPeers: questions without a valid seal do not use up the answers to those with one, from
// whatever address.
func TestFloodTakesNoAnswerFromPeers(t *testing.T) {
	var keys Keyring
	keys.Set("h2", [][]byte{secretOf("web")})
	allowed, now := newAllowances(), time.Now()
	third, h1 := netip.MustParseAddr("198.51.100.9"), netip.MustParseAddr("192.0.2.1")
	forged := peerWith(secretOf("other"), "h2").message(wire.Probe{Token: 1})
	flood := 0
	for n := range 30_000 {
		from := third
		if n%2 == 1 { // some in the name of the peer
			from = h1
		}
		if allowed.answer(&keys, forged, from, h2, now) != nil {
			flood++
		}
	}
	if flood > 2*answersPerSource {
		t.Errorf("%d of a flood are answered", flood)
	}
	peer := peerWith(secretOf("web"), "h2")
	for n := range 300 {
		if answer := allowed.answer(&keys, peer.message(wire.Probe{Token: uint64(n)}), h1, h2, now); !peer.genuine(answer) {
			t.Fatalf("question %d: answer %x", n, answer)
		}
	}
}

// FuzzKeyring: no question that is not sealed gets a sealed answer.
func FuzzKeyring(f *testing.F) {
	var keys Keyring
	keys.Set("h2", [][]byte{secretOf("web")})
	peer := peerWith(secretOf("web"), "h2")
	f.Add(peer.message(wire.Probe{Token: 1}))
	f.Add(wire.Probe{Token: 1}.Append(nil))
	f.Fuzz(func(t *testing.T, question []byte) {
		answer := wire.Probe{Answer: true, Token: 1}.Append(nil)
		if sealed, _ := keys.seal(answer, question, h2); len(sealed) != len(answer) && !peer.Key.Verify(question, h2, "h2") {
			t.Errorf("%x is sealed", question)
		}
	})
}
