package control

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/session"
)

func (b *testbed) eventWords(kind string) (words []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.events {
		if e.Kind == kind {
			words = append(words, e.Agent+" "+e.Peer+": "+e.Message)
		}
	}
	return words
}

// TestClaimedLabelSelectsNoAgent: an agent that labels itself is in no session by that label
// until an operator approves it.
func TestClaimedLabelSelectsNoAgent(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2", "h3")
		b.on("h3", func(h *host) { h.labels = map[string]string{"site": "office", "edge": ""} })
		b.pass(time.Second)
		b.create(session.Spec{Name: "office", Sources: []string{"h1"}, Destinations: []string{"site=office", "site=a"}, Trace: -1})
		s := b.state("office", Running)
		paired := func() bool {
			s, _ = b.control.Session("office")
			return slices.Contains(s.Pairs, session.Pair{Source: "h1", Destination: "h3"})
		}
		// The join token has given it site=a, which is how it is selected.
		if err := b.control.Approve("h3", nil, nil, []string{"site"}); err != nil {
			t.Fatal(err)
		}
		b.until("h3 has left", func() bool { return !paired() })
		b.pass(5 * time.Second)
		if paired() {
			t.Errorf("pairs %v", s.Pairs)
		}
		a, err := b.control.Agent("h3")
		if err != nil || a.ClaimedLabels["site"] != "office" || len(a.Labels) != 0 {
			t.Errorf("%+v, %v", a, err)
		}
		if words := b.eventWords("label-unapproved"); len(words) == 0 || !strings.Contains(words[0], "approve h3 edge= site=office") {
			t.Errorf("events %q", words)
		}
		if err := b.control.Approve("h3", map[string]string{"site": "office"}, nil, nil); err != nil {
			t.Fatal(err)
		}
		b.until("h3 is paired", paired)
		if a, _ := b.control.Agent("h3"); len(a.ClaimedLabels) != 1 || a.Labels["site"] != "office" {
			t.Errorf("%+v", a)
		}
		if err := b.control.Approve("h3", nil, nil, []string{"rack"}); !errors.Is(err, ErrInvalid) {
			t.Errorf("withdrawing what is not approved: %v", err)
		}
		if err := b.control.Approve("h3", nil, []string{"10.0.0.0/33"}, nil); !errors.Is(err, ErrInvalid) {
			t.Errorf("no prefix: %v", err)
		}
	})
}

// TestOriginOfLabels: an approval covers only what the agent claims, hides a label of the join
// token as long as it lasts, and does not end what an operator has set.
func TestOriginOfLabels(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1") // with site=a from its join token
		b.on("h1", func(h *host) { h.labels = map[string]string{"site": "berlin", "role": "edge"} })
		b.pass(time.Second)
		if words := b.eventWords("label-unapproved"); len(words) != 1 || !strings.Contains(words[0], "it would replace site=a, which is of the join token") {
			t.Errorf("events %q", words)
		}
		site := func(want string) {
			t.Helper()
			if a, _ := b.control.Agent("h1"); a.Labels["site"] != want {
				t.Errorf("site=%s, want %s", a.Labels["site"], want)
			}
		}
		approve := func(labels map[string]string, withdraw ...string) {
			t.Helper()
			if err := b.control.Approve("h1", labels, nil, withdraw); err != nil {
				t.Fatal(err)
			}
		}
		site("a")
		if err := b.control.Approve("h1", map[string]string{"zone": "9"}, nil, nil); !errors.Is(err, ErrInvalid) ||
			!strings.Contains(err.Error(), "does not claim zone=9 (it claims role=edge, site=berlin)") {
			t.Errorf("a label that it does not claim: %v", err)
		}
		approve(map[string]string{"site": "berlin", "role": "edge"})
		site("berlin")
		approve(nil, "site")
		site("a")
		if err := b.control.SetLabels("h1", map[string]string{"role": "core"}); err != nil {
			t.Fatal(err)
		}
		approve(nil, "role")
		words := b.eventWords("agent-approved")
		if last := words[len(words)-1]; !strings.Contains(last, "role=core remains: it is set by an operator") {
			t.Errorf("events %q", words)
		}
		approve(nil, "site")
		site("")
	})
}

// TestApprovedAddressNeedsNoProof: sources learn which addresses an operator has approved, and
// whether a session names their agent.
func TestApprovedAddressNeedsNoProof(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2", "h3")
		if err := b.control.Approve("h2", nil, []string{"10.0.0.0/24"}, nil); err != nil {
			t.Fatal(err)
		}
		b.create(session.Spec{Name: "web", Sources: []string{"h1"}, Destinations: []string{"h2", "site=a"}, Trace: -1})
		b.state("web", Running)
		peersOf := func() []session.Peer {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.hosts["h1"].applied.Sources[0].Peers
		}
		if p := peersOf(); len(p) != 2 || !slices.Equal(p[0].Approved, p[0].Addresses) || len(p[0].Approved) != 1 || !p[0].Named ||
			p[1].Approved != nil || p[1].Named {
			t.Errorf("%+v", p)
		}
		if err := b.control.Approve("h2", nil, nil, []string{"10.0.0.0/24"}); err != nil {
			t.Fatal(err)
		}
		b.until("the approval is withdrawn", func() bool { return peersOf()[0].Approved == nil })
	})
}

// TestIncumbentKeepsItsAddress: an agent that begins to report the address of another one
// neither gets it nor takes it away, whether the other one is connected or not for a short
// time. An event names both.
func TestIncumbentKeepsItsAddress(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2", "h3")
		b.create(session.Spec{Name: "web", Sources: []string{"h1"}, Destinations: []string{"h2", "h3"}, Trace: -1, Lease: session.Duration(2 * time.Second)})
		b.state("web", Running)
		b.on("h3", func(h *host) { h.address = "10.0.0.2" }) // that of h2
		to := func(agent string) string {
			peer, err := b.control.Peer(agent)
			if err != nil {
				t.Error(err)
			}
			return strings.Join(peer.Addresses, " ")
		}
		b.until("the conflict is seen", func() bool { return b.control.AddressConflicts() == 1 })
		check := func(when string) {
			t.Helper()
			if to("h2") != "10.0.0.2" || to("h3") != "" {
				t.Errorf("%s: h2 has %q, h3 has %q", when, to("h2"), to("h3"))
			}
		}
		check("both are connected")
		words := b.eventWords("address-conflict")
		if len(words) != 1 || !strings.HasPrefix(words[0], "h3 h2: h3 reports 10.0.0.2, which h2 has had since") {
			t.Errorf("events %q", words)
		}
		if a, _ := b.control.Agent("h3"); len(a.AddressConflicts) != 1 || a.AddressConflicts[0] != (AddressConflict{"10.0.0.2", "h2"}) {
			t.Errorf("%+v", a.AddressConflicts)
		}
		b.on("h2", func(h *host) { h.connected = false })
		b.pass(time.Minute)
		check("the incumbent is away for a minute")
		b.stop()
		b.boot()
		b.pass(time.Minute)
		check("the server has restarted")
		b.pass(absentFor)
		if to("h3") != "10.0.0.2" || to("h2") != "" {
			t.Errorf("the incumbent is away for long: h2 has %q, h3 has %q", to("h2"), to("h3"))
		}
		b.on("h2", func(h *host) { h.connected = true })
		b.until("h2 is back", func() bool { return to("h2") == "10.0.0.2" })
		b.on("h3", func(h *host) { h.address = "10.0.0.3" })
		b.until("the conflict is over", func() bool { return b.control.AddressConflicts() == 0 })
		if to("h3") != "10.0.0.3" {
			t.Errorf("h3 has %q", to("h3"))
		}
	})
}
