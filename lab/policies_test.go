package lab_test

import (
	"fmt"
	"slices"
	"testing"

	"pillion.dev/lab/emulator"
)

// TestSessionsDiffer: sessions with other sampling, modules, encodings, authentication and fields of flows share the
// interfaces of two hosts, each for packets of its own. The figures of each equal the truth of its packets.
func TestSessionsDiffer(t *testing.T) {
	b := service(t, twoHosts)
	sessions := []struct {
		name    string
		options []string
		every   uint64
		delays  bool
	}{
		{"whole", []string{"--encoding", "native", "--stamp-every", "1"}, 1, true},
		{"sampled", []string{"--encoding", "udp-option", "--every", "4"}, 4, true},
		{"losses", []string{"--encoding", "native", "--modules", "loss"}, 1, false},
		{"content", []string{"--encoding", "ioam-e2e", "--hash", "2"}, 0, true},
		{"hosts", []string{"--encoding", "native", "--flow", "src,dst"}, 1, true},
	}
	for i, s := range sessions {
		authentication := "off"
		if i%2 == 1 {
			authentication = "on"
		}
		b.running(s.name, append([]string{"--from", "a", "--to", "b", "--authentication", authentication, "--filter", fmt.Sprintf("dport=%d", 9000+i)}, s.options...)...)
	}
	offered := b.spray(secondIPv6, len(sessions), 1280, 20000)
	truth := b.settled("a-b", "a", offered)
	for i, s := range sessions {
		marked, whole := toPorts(truth, uint16(9000+i))
		if s.every > 0 && (marked.Offered*s.every > whole.Offered+s.every || marked.Offered*s.every+s.every < whole.Offered) {
			t.Errorf("session %s: %d of %d packets were marked, want one in %d", s.name, marked.Offered, whole.Offered, s.every)
		}
		b.agrees(marked, "session = '"+s.name+"'")
		if delays := b.number("SELECT sum(delay_count) FROM flows WHERE session = '%s'", s.name); (delays > 0) != s.delays {
			t.Errorf("session %s has %d delays", s.name, delays)
		}
	}
}

// toPorts returns the sums of the marked packets to some ports, and of all.
func toPorts(truth emulator.Direction, ports ...uint16) (marked, whole emulator.Tally) {
	for _, flow := range truth.Flows {
		if !slices.Contains(ports, flow.DestinationPort) {
			continue
		}
		for _, sum := range []*emulator.Tally{&marked, &whole} {
			if sum == &whole || flow.Marked {
				sum.Offered += flow.Offered
				sum.Delivered += flow.Delivered
				sum.Lost += flow.Lost
				sum.Duplicated += flow.Duplicated
				sum.Reordered += flow.Reordered
			}
		}
	}
	return marked, whole
}

// TestSessionAggregates: a session that tells flows apart by their addresses alone numbers the
// packets of all ports as one flow, at both ends.
func TestSessionAggregates(t *testing.T) {
	b := service(t, twoHosts)
	b.running("pair", "--from", "a", "--to", "b", "--authentication", "off", "--encoding", "native", "--flow", "src,dst")
	offered := b.spray(secondIPv6, 4, 1280, 20000)
	var marked emulator.Tally
	for _, flow := range b.settled("a-b", "a", offered).Flows {
		if flow.Marked {
			marked.Offered += flow.Offered
			marked.Delivered += flow.Delivered
			marked.Lost += flow.Lost
			marked.Duplicated += flow.Duplicated
		}
	}
	b.agrees(marked, "session = 'pair'", "packets", "expected", "lost", "duplicated")
	if ports := b.number("SELECT count(*) FROM flows WHERE session = 'pair' AND dport <> 0"); ports > 0 {
		t.Errorf("%d rows have ports", ports)
	}
}
