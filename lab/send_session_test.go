package lab_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestSessionSends: the packets of a session's sender are the ones that its source marks and
// its destination counts, and what exceeds the policy of the host is refused with the reason.
func TestSessionSends(t *testing.T) {
	t.Parallel() // it mostly waits
	const packets = 50
	b := service(t, twoHosts)
	traffic := "every=100ms,count=10,gap=1ms,port=9000,duration=500ms,packets=true"
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
		return containsAll(b.pillion("session", "show", "much"), "refused by the policy of this host: default of sending.rate", "20 Mbit/s exceed the limit of 10 Mbit/s")
	})
}

// TestRecordsNameSentPackets: by hand, too, the records of a router name the packets of the
// sender, whatever carries them.
func TestRecordsNameSentPackets(t *testing.T) {
	t.Parallel() // it mostly waits
	b := up(t, plainRouter)
	path := b.path("records.csv")
	profile := b.profile(t, "--records", path)
	for _, row := range []struct{ to, protocol string }{
		{"10.77.2.2", "udp"}, {"fd77:0:0:2::2", "udp"}, {"10.77.2.2", "tcp"}, {"fd77:0:0:2::2", "icmp"},
	} {
		b.exec("a", agentPath, "send", "train", "--dev", "r", "--to", row.to, "--proto", row.protocol, "--count", "20", "--size", "120")
	}
	profile.end()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(strings.TrimSpace(line), ","); strings.HasPrefix(cells[6], "10.77.1.") || strings.HasPrefix(cells[6], "fd77:0:0:1:") {
			named[cells[7]+" "+cells[8]+" "+cells[15]+" "+cells[16]]++
		}
	}
	for _, packets := range []string{"10.77.2.2 udp", "fd77:0:0:2::2 udp", "10.77.2.2 tcp", "fd77:0:0:2::2 icmpv6"} {
		for number := range 20 {
			if key := fmt.Sprintf("%s 0 %d", packets, number); named[key] != 1 {
				t.Errorf("%s: %d records", key, named[key])
			}
		}
	}
}
