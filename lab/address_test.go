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
		{"owner without Pillion", "answers no path probe", func(*serviceBed) {}},
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

// TestOverlappingAddresses: two networks use the same private addresses. The agent that has
// reported the address for longer keeps it, whose packets are marked as before; where its
// packets go to another host with that address, none is.
func TestOverlappingAddresses(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, proving)
	b.running("office", "--from", "a", "--to", "b", "--to", "c", "--trace=-1s", "--interval", "200ms", "--lease", "2s")
	send := func(host string, port uint16) {
		t.Helper()
		flow := b.open("a", host, netip.AddrPortFrom(starHosts[host], port))
		flow.send(talk, 5000)
		flow.receive(talk)
	}
	send("b", 9000)
	before := b.arrived("b").Offered
	b.claim("c", "10.77.2.1/32") // that of b
	b.reaches(1, "SELECT count(*) FROM events WHERE kind = 'address-conflict' AND about = 'c' AND peer = 'b'")
	if said := b.pillion("agents", "show", "c", "-o", "json"); !containsAll(said, `"10.77.2.1"`, `"b"`) {
		t.Errorf("agent c is %s", said)
	}
	send("b", 9001)
	if after := b.arrived("b").Offered; before != talk || after != 2*talk {
		t.Errorf("%d packets were marked before the conflict, %d in all, want %d and %d", before, after, talk, 2*talk)
	}
	b.reaches(2*talk, "SELECT sum(packets) FROM flows WHERE session = 'office' AND agent = 'b'")
}

// TestServerAddressIsReserved: packets to the host of the server are marked only for sessions
// that select its agent by its name.
func TestServerAddressIsReserved(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, strings.Replace(proving, "agents: [a, b, c]", "agents: [a, b, noc]", 1))
	b.running("all", "--from", "a", "--to", "*", "--trace=-1s", "--lease", "2s")
	b.limited("all", "of noc is not marked: it is the address of the server; select noc by its name to measure it")
	if counters := b.task("all", "a", "source"); counters["addresses_reserved"] == 0 || counters["addresses_proven"] == 0 {
		t.Errorf("counters %v", counters)
	}
	b.pillion("session", "stop", "all")
	b.becomes("all", "ended")
	b.running("named", "--from", "a", "--to", "noc", "--trace=-1s", "--lease", "2s")
	eventually(t, "the address to be proven", func() bool {
		counters := b.task("named", "a", "source")
		return counters["addresses_proven"] > 0 && counters["addresses_reserved"] == 0
	})
}
