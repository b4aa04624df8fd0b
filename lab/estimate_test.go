package lab_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// narrowed is two hosts with a link that serializes frames of a at a rate.
func narrowed(rate string) string {
	return "hosts: {a: {}, b: {}}\nlinks:\n  - ends: [a, b]\n    emulate: {seed: 3, rate: " + rate + ", queue: 10000, from: {b: {rate: 0}}}\n"
}

// estimated is the last line of an estimate.
type estimated struct {
	Summary struct {
		Direction   string
		Layer       string
		Packets     int `json:"packets_sent"`
		Unsent      int `json:"trains_unsent"`
		Assumptions []struct {
			Assumption string
			Holds      bool
			Detail     string
		}
		Capacity struct {
			Valid     bool
			Rate      struct{ Value, Low, High float64 }
			Samples   int
			Lossy     int
			Reordered int
		}
	}
}

func (b *bed) estimate(words ...string) (result estimated, trains []string) {
	b.t.Helper()
	said := b.exec("a", append(append([]string{agentPath, "estimate"}, words...), "--lab", b.Spec.Name, "--json")...)
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &result); err != nil {
		b.t.Fatalf("%v: %s", err, lines[len(lines)-1])
	}
	return result, lines[:len(lines)-1]
}

// TestDocumentedEstimates runs the documented commands over a link between two hosts.
func TestDocumentedEstimates(t *testing.T) {
	t.Parallel()
	b := up(t, narrowed("200mbit"))
	text := strings.NewReplacer("eth0", "b", "192.0.2.2", secondIPv4.String(), "eth1", "a --receive-netns b --pairs 30 --trains 3 --lab "+b.Spec.Name).Replace(ofClass(t, "docs/agent.md", "estimate"))
	for command := range strings.Lines(text) {
		said := b.exec("a", "bash", "-c", strings.Replace(command, "pillion-agent", agentPath, 1))
		if !strings.Contains(said, "separate arrivals") {
			t.Errorf("%s\n%s", command, said)
		}
	}
}

// TestEstimatedCapacityAccount: each packet of pairs and trains is sent, received and reported, over
// IPv4 and IPv6, received on the far interface or as a reply.
func TestEstimatedCapacityAccount(t *testing.T) {
	t.Parallel()
	b := up(t, narrowed("200mbit"))
	for _, to := range []string{secondIPv4.String(), secondIPv6.String()} {
		for name, far := range map[string][]string{
			"forward":    {"--receive-dev", "a", "--receive-netns", "b"},
			"round trip": {"--replies"},
		} {
			rows := filepath.Join(t.TempDir(), "rows")
			words := append([]string{"capacity", "--dev", "b", "--to", to, "--pairs", "25", "--trains", "2", "--count", "20", "--every", "2ms", "--oml", "file:" + rows}, far...)
			r, trains := b.estimate(words...)
			s := r.Summary
			if s.Direction != name || s.Packets != 25*2+2*20 || s.Unsent != 0 || s.Capacity.Samples+s.Capacity.Lossy+s.Capacity.Reordered != 25 || len(trains) != 27 || s.Capacity.Rate.Value <= 0 {
				t.Errorf("%s to %s: %+v, %d trains", name, to, r, len(trains))
			}
			if text, err := os.ReadFile(rows); err != nil || !strings.Contains(string(text), "\tframe\t"+name) {
				t.Errorf("%v:\n%s", err, text)
			}
		}
	}
}
