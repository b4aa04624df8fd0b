package policy

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pillion.dev/internal/test/section"
	"pillion.dev/session"
)

// TestTasks: what a policy refuses, with the line of the file and units.
func TestTasks(t *testing.T) {
	source := session.SourceTask{Session: "web", Encoding: "udp-option,native", Device: "eth0"}
	transit := source
	transit.Transit = []string{"10.1.0.0/16"}
	for _, row := range []struct {
		name, file string
		refuse     func(*Policy) error
		want       string // empty: allowed
	}{
		{"default source", "", func(p *Policy) error { return p.Source(source) }, ""},
		{"default destination", "", func(p *Policy) error { return p.Destination(session.DestinationTask{}) }, ""},
		{"default profile", "", func(p *Policy) error { return p.Point(session.PointTask{Point: "router"}) }, ""},
		{"marking", "\nmarking: {allowed: false}", func(p *Policy) error { return p.Source(source) }, ":2: marking.allowed: "},
		{"encoding", "encodings: [native]", func(p *Policy) error { return p.Source(source) }, ":1: encodings: udp-option is not one of native"},
		{"every packet", "marking:\n  every: 10", func(p *Policy) error { return p.Source(source) },
			":2: marking.every: the session marks 1 in 1 packets, this host at most 1 in 10"},
		{"sampled by count", "marking: {every: 10}", func(p *Policy) error {
			task := source
			task.Sampling.Every = 10
			return p.Source(task)
		}, ""},
		{"rate", "marking: {packets_per_second: 1000}", func(p *Policy) error { return p.Source(source) },
			"marking.packets_per_second: the session has a min_gap of 0s, this host marks at most 1000 packets/s: at least 1ms is needed"},
		{"rate that is kept", "marking: {packets_per_second: 1000}", func(p *Policy) error {
			task := source
			task.Sampling.MinGap = session.Duration(time.Millisecond)
			return p.Source(task)
		}, ""},
		{"device", "devices: [wlan*]", func(p *Policy) error { return p.Source(source) }, ":1: devices: eth0 is not one of wlan*"},
		{"transit by default", "", func(p *Policy) error { return p.Source(transit) }, "policy.yaml: transit: packets that this host forwards are not measured: 10.1.0.0/16"},
		{"transit", "transit: [10.0.0.0/8]", func(p *Policy) error { return p.Source(transit) }, ""},
		{"transit of others", "transit: [10.1.2.0/24, 10.2.0.0/16]", func(p *Policy) error { return p.Source(transit) }, ":1: transit: 10.1.0.0/16 is not in 10.1.2.0/24, 10.2.0.0/16"},
		{"transit of a destination", "", func(p *Policy) error { return p.Destination(session.DestinationTask{Transit: []string{"10.1.0.0/16"}}) }, "policy.yaml: transit: "},
		{"device by the route", "devices: [wlan*]", func(p *Policy) error { return p.Device("eth0") }, "devices: eth0"},
		{"no device", "devices: []", func(p *Policy) error { return p.Device("eth0") }, "not one of none"},
		{"decapsulation", "decapsulation: false", func(p *Policy) error { return p.Destination(session.DestinationTask{}) }, ":1: decapsulation: "},
		{"profile", "router_profiles: false", func(p *Policy) error { return p.Point(session.PointTask{Point: "router"}) }, ":1: router_profiles: "},
		{"capture", "capture: false", func(p *Policy) error { return p.Captures() }, ":1: capture: "},
		{"trace", "prefixes: [10.0.0.0/8]", func(p *Policy) error { return p.Trace(session.TraceTask{Address: "192.0.2.1"}) }, ":1: prefixes: "},
		{"trace to this host", "", func(p *Policy) error { return p.Trace(session.TraceTask{Peer: "b", Address: "127.0.0.1"}) }, "127.0.0.1 of b is not the unicast address of another host"},
		{"trace to this host by IPv6", "prefixes: ['::/0']", func(p *Policy) error { return p.Trace(session.TraceTask{Address: "::1"}) }, "not the unicast address"},
		{"trace to this host, mapped", "", func(p *Policy) error { return p.Trace(session.TraceTask{Address: "::ffff:127.0.0.1"}) }, "not the unicast address"},
		{"trace to no host", "", func(p *Policy) error { return p.Trace(session.TraceTask{Address: "0.0.0.0"}) }, "not the unicast address"},
		{"trace to many hosts", "", func(p *Policy) error { return p.Trace(session.TraceTask{Address: "ff02::1"}) }, "not the unicast address"},
		{"trace to all hosts", "", func(p *Policy) error { return p.Trace(session.TraceTask{Address: "255.255.255.255"}) }, "not the unicast address"},
		{"trace within", "prefixes: [10.0.0.0/8]", func(p *Policy) error { return p.Trace(session.TraceTask{Address: "10.0.2.1"}) }, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := row.refuse(policyOf(t, row.file))
			if (err == nil) != (row.want == "") || err != nil && (!errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

// TestPermitTransit: hosts behind a peer.
func TestPermitTransit(t *testing.T) {
	peers := []session.Peer{{Agent: "edge", Addresses: []string{"10.0.0.1"}, Prefixes: []string{"10.1.0.0/16", "2001:db8:a::/48"}}, {Agent: "host", Addresses: []string{"10.0.0.2"}}}
	for _, row := range []struct{ file, want, refused string }{
		{"", "host", "transit: packets that this host forwards are not measured: 10.1.0.0/16, 2001:db8:a::/48"},
		{"transit: [10.0.0.0/8]", "host", ":1: transit: 2001:db8:a::/48 is not in 10.0.0.0/8"},
		{"transit: [10.0.0.0/8, '2001:db8::/32']", "edge host", ""},
		{"transit: [10.0.0.0/8, '2001:db8::/32']\nprefixes: [10.0.0.0/8]", "host", ":2: prefixes: 2001:db8:a::/48 behind edge is not in 10.0.0.0/8"},
	} {
		permitted, err := policyOf(t, row.file).Permit(peers)
		var names []string
		for _, p := range permitted {
			names = append(names, p.Agent)
		}
		if got := strings.Join(names, " "); got != row.want || (err == nil) != (row.refused == "") || err != nil && !strings.Contains(err.Error(), row.refused) {
			t.Errorf("%q: %q, %v", row.file, got, err)
		}
	}
}

// TestPermit: peers by name and address; the others remain.
func TestPermit(t *testing.T) {
	peers := []session.Peer{{Agent: "office-1", Addresses: []string{"10.0.0.1", "192.0.2.1"}}, {Agent: "lab", Addresses: []string{"10.0.0.2"}}}
	for _, row := range []struct{ file, want, refused string }{
		{"", "office-1 10.0.0.1 192.0.2.1, lab 10.0.0.2", ""},
		{"peers: [office-*]", "office-1 10.0.0.1 192.0.2.1", ":1: peers: lab is not one of office-*"},
		{"peers: []", "", "not one of none; likewise"},
		{"prefixes: [10.0.0.1/32]", "office-1 10.0.0.1", ":1: prefixes: no address of lab is in 10.0.0.1/32"},
	} {
		permitted, err := policyOf(t, row.file).Permit(peers)
		var words []string
		for _, p := range permitted {
			words = append(words, p.Agent+" "+strings.Join(p.Addresses, " "))
		}
		if got := strings.Join(words, ", "); got != row.want || (err == nil) != (row.refused == "") || err != nil && !strings.Contains(err.Error(), row.refused) {
			t.Errorf("%q: %q, %v", row.file, got, err)
		}
	}
}

// TestOwnership: a file that others can write is not read.
func TestOwnership(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	for _, row := range []struct {
		mode  os.FileMode
		owner int
		want  string
	}{{0o644, 0, ""}, {0o600, 0, ""}, {0o664, 0, "0664"}, {0o646, 0, "0646"}, {0o644, 1234, "user 1234 owns it"}} {
		if os.Geteuid() != 0 && row.owner != 0 {
			continue
		}
		if err := os.WriteFile(path, []byte("capture: false"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Chmod(path, row.mode), os.Chown(path, row.owner, -1)); err != nil && os.Geteuid() == 0 {
			t.Fatal(err)
		}
		_, err := Open(path)
		if (err == nil) != (row.want == "") || err != nil && (!errors.Is(err, ErrPolicy) || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("mode %o, owner %d: %v", row.mode, row.owner, err)
		}
		_ = os.Chown(path, 0, -1)
	}
	if _, err := Open(filepath.Dir(path)); !errors.Is(err, ErrPolicy) {
		t.Errorf("a folder: %v", err)
	}
}

var update = flag.Bool("update", false, "write the keys of the policy into docs/howto/policy.md")

// TestReference compares the reference in docs/howto/policy.md with the code; -update writes it.
func TestReference(t *testing.T) {
	want := "| key | default | meaning |\n|---|---|---|\n"
	for _, key := range Keys() {
		want += fmt.Sprintf("| `%s` | %s | %s |\n", key.Name, key.Default, key.Doc)
	}
	section.Check(t, "../../docs/howto/policy.md", "<!-- keys of the policy, written by go test ./agent/policy -update -->\n", "<!-- end -->\n", want, *update)
	if n := len(Default().Settings()); n != len(Keys()) {
		t.Errorf("%d settings, %d keys", n, len(Keys()))
	}
}

// FuzzParse: no file makes the parser fail, and what it accepts can be asked.
func FuzzParse(f *testing.F) {
	f.Add([]byte("peers: [a*]\nprefixes: [10.0.0.0/8]\nmarking: {every: 2}\nsending: {rate: 1M}"))
	f.Add([]byte("devices: []\n---\n"))
	f.Fuzz(func(_ *testing.T, text []byte) {
		p, err := parse(text)
		if err != nil {
			return
		}
		_ = p.Source(session.SourceTask{Encoding: "native", Device: "eth0"})
		_, _ = p.Permit([]session.Peer{{Agent: "a", Addresses: []string{"10.0.0.1", "x"}}})
	})
}
