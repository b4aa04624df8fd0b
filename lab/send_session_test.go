package lab_test

import (
	"strings"
	"testing"
)

// TestSessionSends: the packets of a session's sender are the ones that its source marks and
// its destination counts, and what exceeds the policy of the host is refused with the reason.
func TestSessionSends(t *testing.T) {
	t.Parallel() // it mostly waits
	const packets = 100
	b := service(t, twoHosts)
	traffic := "every=100ms,count=10,gap=1ms,port=9000,duration=1s,packets=true"
	b.running("s", "--from", "a", "--to", "b", "--trace=-1s", "--filter", "dport=9000", "--point", "send:"+traffic)
	b.reaches(packets, "SELECT sum(scheduled) FROM send WHERE agent = 'a' AND session = 's' AND destination = 'b'")
	b.reaches(0, "SELECT sum(failed + late_dropped + cancelled) FROM send")
	b.reaches(packets, "SELECT sum(sent) FROM send")
	b.reaches(packets, "SELECT count(DISTINCT train * 10 + number) FROM send_packets WHERE session = 's' AND destination = 'b' AND fate = 'sent'")
	truth := b.settled("a-b", "a", packets).Marked
	if truth.Offered != packets {
		t.Errorf("%d packets were marked, want %d", truth.Offered, packets)
	}
	b.reaches(int64(truth.Delivered+truth.Duplicated), "SELECT sum(packets) FROM flows WHERE session = 's' AND dport = 9000")
	if lost := b.number("SELECT sum(lost) FROM flows WHERE session = 's'"); lost > int64(truth.Lost) {
		t.Errorf("%d packets lost, want at most %d", lost, truth.Lost)
	}

	b.pillion("session", "create", "--name", "much", "--from", "a", "--to", "b", "--trace=-1s", "--filter", "dport=9000",
		"--point", "send:max_rate=20M")
	eventually(t, "the session to show the reason", func() bool {
		return strings.Contains(b.pillion("session", "show", "much"), "refused by the policy of this host: 20000000 bit/s exceed the limit of 10000000 bit/s")
	})
}
