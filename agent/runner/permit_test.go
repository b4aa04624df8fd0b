package runner

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pillion.dev/agent/policy"
	"pillion.dev/session"
)

// TestHostThatIsNoDestination: with decapsulation off no mark is read, whatever its encoding,
// and path probes are not answered; the host can still be a source.
func TestHostThatIsNoDestination(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte("decapsulation: false\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	allowed, err := policy.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	r := New(Options{Policy: allowed, Log: slog.New(slog.DiscardHandler)})
	peers := []session.Peer{{Agent: "h2", Addresses: []string{"192.0.2.2"}}}
	states := r.Apply(session.Assignment{
		Destinations: []session.DestinationTask{{Session: "web", Device: "lo", Peers: peers}, {Session: "db", Peers: peers}},
	}, nil)
	if len(states) != 2 || len(r.destinations) != 0 {
		t.Fatalf("%d destinations, states %+v", len(r.destinations), states)
	}
	for _, state := range states {
		if want := "refused by the policy of this host: " + path + ":1: decapsulation: this host reads and removes no marks"; state.Running || state.Error != want {
			t.Errorf("%+v, want %q", state, want)
		}
	}
	r.assignment = session.Assignment{Sources: []session.SourceTask{{Session: "web", Encoding: "native", Device: "eth0", Peers: peers, Family: "any"}}}
	if devices := r.placed(); len(devices["eth0"].sources) != 1 {
		t.Errorf("devices %+v, faults %+v", devices, r.faults)
	}
}

// TestPolicyPrecedesEverything: what the policy refuses is never placed on an interface, and is
// an error of its task; the rest of the assignment remains.
func TestPolicyPrecedesEverything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte("peers: [h2]\nencodings: [native]\nrouter_profiles: false\ndevices: [eth*]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	allowed, err := policy.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	r := New(Options{Policy: allowed, Log: slog.New(slog.DiscardHandler)})
	h2, h3 := session.Peer{Agent: "h2", Addresses: []string{"192.0.2.2"}}, session.Peer{Agent: "h3", Addresses: []string{"192.0.2.3"}}
	r.assignment = session.Assignment{
		Sources: []session.SourceTask{
			{Session: "web", Encoding: "native", Device: "eth0", Peers: []session.Peer{h2, h3}, Family: "any"},
			{Session: "udp", Encoding: "udp", Device: "eth0", Peers: []session.Peer{h2}, Family: "any"},
			{Session: "wlan", Encoding: "native", Device: "wlan0", Peers: []session.Peer{h2}, Family: "any"},
		},
		Destinations: []session.DestinationTask{{Session: "foreign", Device: "eth0", Peers: []session.Peer{h3}}},
		Points:       []session.PointTask{{Session: "web", Point: "router"}, {Session: "web", Point: "other"}},
	}
	devices := r.placed()
	if len(devices) != 1 || len(devices["eth0"].sources) != 1 || len(devices["eth0"].sources[0].peers) != 1 || len(devices["eth0"].destinations) != 0 {
		t.Errorf("devices %+v", devices)
	}
	if len(r.allowed) != 1 || r.allowed[0].Point != "other" {
		t.Errorf("points %+v", r.allowed)
	}
	got := ""
	for _, f := range r.faults {
		got += f.Role + " of " + f.Session + ": " + strings.ReplaceAll(f.Error, path, "FILE") + "\n"
	}
	for _, want := range []string{
		"source of web: refused by the policy of this host: FILE:1: peers: h3 is not one of h2\n",
		"source of udp: refused by the policy of this host: FILE:2: encodings: udp is not one of native: use another encoding for the session\n",
		"source of wlan: refused by the policy of this host: FILE:4: devices: wlan0 is not one of eth*\n",
		"destination of foreign: refused by the policy of this host: FILE:1: peers: h3 is not one of h2\n",
		"router of web: refused by the policy of this host: FILE:3: router_profiles: this host is not profiled as a router\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("missing %q in\n%s", want, got)
		}
	}
}
