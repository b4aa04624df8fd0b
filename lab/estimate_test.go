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
	text := strings.NewReplacer("eth0", "b", "192.0.2.2", secondIPv4.String(), "eth1", "a --receive-netns b --lab "+b.Spec.Name).Replace(ofClass(t, "docs/howto/estimate.md", "estimate"))
	// Shorter than by default.
	short := map[string]string{"capacity": " --pairs 30 --trains 3", "available": " --streams 2 --packets 40 --chirps 20 --every 1ms"}
	for command := range strings.Lines(text) {
		what := strings.Fields(command)[2]
		said := b.exec("a", "bash", "-c", strings.Replace(strings.TrimSpace(command), "pillion-agent", agentPath, 1)+short[what])
		if !strings.Contains(said, "packets by mechanism") && !strings.Contains(said, `"packets_sent"`) {
			t.Errorf("%s\n%s", command, said)
		}
	}
	hops := strings.NewReplacer("eth0", "b", "192.0.2.2", secondIPv4.String(), "pillion-agent", agentPath).Replace(ofClass(t, "docs/howto/estimate.md", "estimate-hops"))
	if said := b.exec("a", "bash", "-c", strings.TrimSpace(hops)+" --every 1ms"); !strings.Contains(said, secondIPv4.String()) {
		t.Errorf("%s\n%s", hops, said)
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

// TestEstimatedAvailableAccount: streams and chirps are all sent, received and reported.
func TestEstimatedAvailableAccount(t *testing.T) {
	t.Parallel()
	b := up(t, narrowed("200mbit"))
	words := []string{"available", "--dev", "b", "--to", secondIPv4.String(), "--receive-dev", "a", "--receive-netns", "b", "--max-rate", "50M", "--every", "1ms"}
	for method, row := range map[string]struct {
		options []string
		trains  int
	}{
		"slops": {[]string{"--streams", "3", "--packets", "40", "--resolution", "0.5"}, 3},
		"chirp": {[]string{"--chirps", "22", "--packets", "20"}, 22},
	} {
		rows := filepath.Join(t.TempDir(), "rows")
		r, trains := b.estimate(append(append(words, "--method", method, "--oml", "file:"+rows), row.options...)...)
		text, err := os.ReadFile(rows)
		if err != nil || !strings.Contains(string(text), "\t"+method+"\t") || r.Summary.Unsent != 0 || len(trains) < row.trains || len(trains)%row.trains != 0 {
			t.Errorf("%s: %+v, %d trains, %v:\n%s", method, r, len(trains), err, text)
		}
	}
}

// TestEstimatedHops: each router on the path is named, and the destination ends it.
func TestEstimatedHops(t *testing.T) {
	t.Parallel()
	b := up(t, plainRouter)
	for to, routers := range map[string][]string{
		"10.77.2.2": {"10.77.1.2", "10.77.2.2"}, "fd77:0:0:2::2": {"fd77:0:0:1::2", "fd77:0:0:2::2"},
	} {
		// Linux limits ICMP errors to 6 at once, at first.
		said := b.exec("a", agentPath, "estimate", "hops", "--dev", "r", "--to", to, "--sizes", "3", "--repeats", "1", "--json")
		var last struct {
			Summary struct {
				Hops []struct {
					Router  string
					Sent    int
					Samples int
					Valid   bool
				}
			}
		}
		if err := json.Unmarshal([]byte(said), &last); err != nil || len(last.Summary.Hops) != len(routers) {
			t.Fatalf("%v: %s", err, said)
		}
		for i, h := range last.Summary.Hops {
			if h.Router != routers[i] || h.Sent != 3 || h.Samples != 3 || h.Valid {
				t.Errorf("hop %d: %+v, want %s", i+1, h, routers[i])
			}
		}
	}
}
