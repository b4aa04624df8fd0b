package lab_test

import (
	"encoding/json"
	"net"
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

// TestEstimateWithReceiver: a receiver on another host tells when packets arrived, to those who know its token,
// and is still there for the next sender.
func TestEstimateWithReceiver(t *testing.T) {
	t.Parallel()
	b := up(t, narrowed("200mbit"))
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort(secondIPv6.String(), "8478")
	b.start("b", agentPath, "receive", "--dev", "a", "--listen", address, "--token-file", token)
	eventually(t, "the receiver listens", func() bool {
		return b.Do("b", func() error {
			c, err := net.Dial("tcp", address)
			if err == nil {
				c.Close()
			}
			return err
		}) == nil
	})
	words := []string{"capacity", "--dev", "b", "--to", secondIPv4.String(), "--pairs", "30", "--trains", "1", "--count", "20", "--every", "2ms", "--receiver", address}
	if said, err := b.Exec(t.Context(), "a", append([]string{agentPath, "estimate"}, words...)...); err == nil || !strings.Contains(err.Error()+string(said), "token") {
		t.Errorf("without the token: %v: %s", err, said)
	}
	for range 2 {
		r, trains := b.estimate(append(words, "--token-file", token)...)
		if s := r.Summary; s.Packets != 30*2+20 || s.Capacity.Samples+s.Capacity.Lossy+s.Capacity.Reordered != 30 || len(trains) != 31 || s.Capacity.Rate.Value <= 0 {
			t.Errorf("%+v, %d trains", r, len(trains))
		}
	}
}
