package lab_test

import (
	"net/netip"
	"strings"
	"testing"
)

// claim gives a host an address that another one has, as an attacker would, or overlapping
// private networks.
func (b *serviceBed) claim(host, address string) {
	b.t.Helper()
	b.exec(host, "ip", "address", "add", address, "dev", "r")
	eventually(b.t, host+" to report "+address, func() bool {
		return strings.Contains(b.pillion("agents", "show", host, "-o", "json"), address)
	})
}

// limit waits until a task of a session has a limit with these words.
func (b *serviceBed) limited(session, words string) {
	b.t.Helper()
	eventually(b.t, "session "+session+" to say "+words, func() bool {
		return strings.Contains(b.pillion("session", "show", session, "-o", "json"), words)
	})
}

// proving is star, whose agents prove addresses; of paths they test nothing, so that no probe
// is among the marked packets.
var proving = strings.Replace(star, "agents: [a, b, c]", `agents: [a, b, c], agent_options: ["--path-validation", "addresses"]`, 1)

// TestClaimedAddressIsNotMarked: an agent claims the address of a host that has none. Sources
// send no marked packet there, not even a probe, while those to its own address are marked
// and read. Nothing changes if the owner answers path probes, but has no key.
func TestClaimedAddressIsNotMarked(t *testing.T) {
	t.Parallel() // it mostly waits
	for _, row := range []struct {
		name, words string
		owner       func(*serviceBed)
	}{
		{"owner without Pillion", "not reachable: ", func(*serviceBed) {}},
		{"owner answers without the key", "not as the agent c", func(b *serviceBed) { b.probe("d", "destination", "r") }},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			b := service(t, proving)
			row.owner(b)
			b.claim("c", "10.77.4.1/32")
			b.running("claimed", "--from", "a", "--to", "c", "--trace=-1s", "--interval", "200ms", "--lease", "2s")
			b.limited("claimed", row.words)
			b.carry("a", "d", starHosts["d"], 4<<20).finish()
			for port, host := range map[uint16]string{9000: "d", 9001: "c"} {
				flow := b.open("a", host, netip.AddrPortFrom(starHosts[host], port))
				flow.send(talk, 5000)
				flow.receive(talk)
			}
			if marked := b.arrived("d"); marked.Offered != 0 {
				t.Errorf("%d packets to the claimed address were marked", marked.Offered)
			}
			if marked := b.arrived("c"); marked.Offered != talk {
				t.Errorf("%d packets to the proven address were marked, want %d", marked.Offered, talk)
			}
			b.reaches(talk, "SELECT sum(packets) FROM flows WHERE session = 'claimed'")
			if counters := b.task("claimed", "a", "source"); counters["addresses_proven"] == 0 || counters["addresses_unproven"] == 0 {
				t.Errorf("counters %v", counters)
			}
			b.reaches(1, "SELECT count(*) FROM events WHERE kind = 'address-unproven' AND session = 'claimed'")
		})
	}
}
