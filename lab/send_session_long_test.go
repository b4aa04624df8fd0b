//go:build long

package lab_test

import "testing"

// TestLongSentPacketsInRouter: each packet of a session's sender has its times inside the router on
// the way. They add up, and are part of the packet's one-way delay.
func TestLongSentPacketsInRouter(t *testing.T) {
	t.Parallel() // it mostly waits
	const packets = 60
	b := service(t, throughRouter)
	b.running("s", "--from", "a", "--to", "b", "--trace=-1s", "--filter", "src=10.77.1.1 dst=10.77.2.2 dport=9000", "--records", "--stamp-every", "1",
		"--point", "send:every=500ms,count=30,gap=2ms,port=9000,delay=5s,duration=1s,packets=true", "--point", "router:packets=true@r")
	b.reaches(packets, "SELECT count(*) FROM send_packets WHERE fate = 'sent'")
	b.reaches(packets, "SELECT count(*) FROM router_packets WHERE agent = 'r' AND input = 'a' AND output = 'b'")
	b.reaches(packets, "SELECT count(*) FROM packets")
	const joined = "send_packets s JOIN router_packets r USING (session, src, dst, sport, dport, train, number)"
	b.reaches(packets, "SELECT count(*) FROM "+joined)
	b.reaches(0, "SELECT sum(abs(transit_ns - input_queuing_ns - processing_ns - output_queuing_ns)) FROM router_packets")
	// Marks are numbered in the order in which packets are sent, without loss.
	b.reaches(packets, "SELECT count(*) FROM "+joined+" JOIN packets p ON p.sequence - (SELECT min(sequence) FROM packets) = s.train * 30 + s.number "+
		"WHERE coalesce(r.transit_ns, r.processing_ns + r.output_queuing_ns) BETWEEN 1 AND p.delay_ns")
}
