package lab_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDocumentedSending runs the documented commands between two hosts.
func TestDocumentedSending(t *testing.T) {
	b := up(t, perfect)
	text := strings.NewReplacer("eth0", "b", "192.0.2.2", secondIPv4.String()).Replace(ofClass(t, "docs/howto/send.md", "send"))
	for command := range strings.Lines(text) {
		said := b.exec("a", "bash", "-c", strings.Replace(command, "pillion-agent", agentPath, 1))
		if !strings.Contains(said, "late-dropped 0 + cancelled 0 + failed 0") && !strings.Contains(said, `"late_dropped":0,"cancelled":0,"failed":0`) {
			t.Errorf("%s\n%s", command, said)
		}
	}
}

// TestDocumentedBenchmarks runs the documented commands between two hosts, with short trials.
func TestDocumentedBenchmarks(t *testing.T) {
	t.Parallel() // it mostly waits
	b := up(t, "hosts: {a: {}, b: {}}\nlinks:\n  - ends: [a, b]\n")
	text := strings.NewReplacer("eth1", "b", "eth2", "a", "198.19.0.2", secondIPv4.String(), "--receive-netns far", "--receive-netns b --lab "+b.Spec.Name,
		"--max-rate 200M", "--max-rate 20M", "--max-rate 130M", "--max-rate 20M", "--max-frames 1000", "--max-frames 50").
		Replace(ofClass(t, "docs/howto/benchmark.md", "benchmark"))
	for command := range strings.Lines(text) {
		short := " --duration 50ms --wait 50ms --json"
		said := b.exec("a", "bash", "-c", strings.Replace(strings.TrimSpace(command), "pillion-agent", agentPath, 1)+short)
		if !strings.Contains(said, `{"result":{"benchmark":`) || !strings.Contains(said, `{"summary":{"benchmark":`) {
			t.Errorf("%s\n%s", command, said)
		}
	}
}

// TestSentPacketsAreMarked: what the sender sends through an interface with a source is an
// in-line measurement at the far end.
func TestSentPacketsAreMarked(t *testing.T) {
	t.Parallel() // it mostly waits
	const packets = 2000
	for name, row := range map[string]struct{ to, encoding string }{
		"IPv6": {"[" + secondIPv6.String() + "]:9000", "udp-option"}, "IPv4": {secondIPv4.String() + ":9000", "udp-option"},
		"destination options": {"[" + secondIPv6.String() + "]:9000", "native"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := up(t, "hosts: {a: {}, b: {}}\nlinks:\n  - ends: [a, b]\n    emulate: {seed: 3, delay: 2ms, loss: 1%}\n")
			d := b.probe("b", "destination", "a")
			s := b.probe("a", "source", "b", "--encoding="+row.encoding, "--filter", "dport=9000")
			said := b.exec("a", agentPath, "send", "train", "--dev", "b", "--to", row.to, "--count", "2000", "--gap", "100us", "--json")
			var last struct{ Summary struct{ Scheduled, Sent int } }
			lines := strings.Split(strings.TrimSpace(said), "\n")
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Summary.Sent != packets {
				t.Fatalf("%v, %+v: %s", err, last, lines[len(lines)-1])
			}
			truth := b.settled("a-b", "a", packets)
			marked, read := both(s, d)
			if marked.Marked != packets || read.Packets != truth.Total.Delivered || read.Lost > truth.Total.Lost || read.Lost == 0 {
				t.Errorf("lost %d of %d: %+v, %+v", truth.Total.Lost, truth.Total.Offered, marked, read)
			}
		})
	}
}

// TestSenderKilled: a killed sender leaves nothing behind that sends, and the next one works.
func TestSenderKilled(t *testing.T) {
	t.Parallel() // it mostly waits
	b := up(t, perfect)
	words := []string{agentPath, "send", "train", "--dev", "b", "--to", secondIPv4.String(), "--gap", "1ms"}
	sender := b.start("a", append(words, "--count", "100000")...)
	eventually(t, "the sender sends", func() bool { return b.truth("a-b", "a").Total.Offered > 100 })
	if err := sender.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = sender.Wait() // it was killed
	sent := b.quiet("a-b", "a").Total.Offered
	if said := b.exec("a", append(words, "--count", "50")...); !strings.Contains(said, "= sent 50 +") {
		t.Error(said)
	}
	if now := b.quiet("a-b", "a").Total.Offered; now != sent+50 {
		t.Errorf("%d packets on the link, then %d", sent, now)
	}
}

// TestRouterReplies: a packet whose TTL ends at a router has a round-trip time to it.
func TestRouterReplies(t *testing.T) {
	b := up(t, plainRouter)
	for _, to := range []string{"10.77.2.2", "fd77:0:0:2::2"} {
		said := b.exec("a", agentPath, "send", "train", "--dev", "r", "--to", to, "--ttl", "1", "--count", "3", "--replies", "--json")
		if !strings.Contains(said, `"reply":"time-exceeded","reply_from":"`) {
			t.Errorf("%s:\n%s", to, said)
		}
	}
}

// TestSentRows: each packet is a row at a collector.
func TestSentRows(t *testing.T) {
	b := up(t, perfect)
	path := filepath.Join(t.TempDir(), "rows")
	b.exec("a", agentPath, "send", "train", "--dev", "b", "--to", secondIPv4.String(), "--proto", "icmp", "--replies", "--oml", "file:"+path)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\tsent\t"); n != 50 || strings.Count(string(text), "\techo-reply\t"+secondIPv4.String()) != 50 {
		t.Errorf("%d rows:\n%s", n, text)
	}
}
