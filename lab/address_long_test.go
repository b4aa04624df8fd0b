//go:build long

package lab_test

import (
	"net/netip"
	"strings"
	"testing"
)

// TestLongServerAddressIsReserved: packets to the host of the server are marked only for sessions
// that select its agent by its name.
func TestLongServerAddressIsReserved(t *testing.T) {
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

// TestLongOverlappingAddresses: two networks use the same private addresses. The agent that has
// reported the address for longer keeps it, whose packets are marked as before; where its
// packets go to another host with that address, none is.
func TestLongOverlappingAddresses(t *testing.T) {
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
