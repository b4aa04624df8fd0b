package runner

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pillion.dev/session"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

func TestTaskSetsTimeStamps(t *testing.T) {
	task := sourceTask{SourceTask: session.SourceTask{Modules: []string{"delay", "loss"}, Encoding: "native", Marking: wire.Marking{StampEvery: 1, SparseMarks: true}}}
	policy, err := policyOf(task.Policy())
	if err != nil || policy.StampEvery != 1 || !policy.SparseMarks || policy.Modules != 3 {
		t.Errorf("policy %+v, %v", policy, err)
	}
	settings, err := settingsOf([]sourceTask{task})
	if err != nil || settings.StampEvery != 1 || !settings.SparseMarks || !settings.StartEmpty {
		t.Errorf("settings %+v, %v", settings, err)
	}
}

// TestUnitedChoice: what packets that two sessions measure carry, and what each is told.
func TestUnitedChoice(t *testing.T) {
	host := fivetuple.Filter{Dst: netip.MustParsePrefix("192.0.2.2/32")}
	port := host
	port.Dport = 80
	claim := func(name, modules string, every uint32, filters ...fivetuple.Filter) session.Claim {
		return session.Claim{Session: name, Policy: session.Policy{Modules: modules, Encoding: "native", Marking: wire.Marking{Sampling: wire.Sampling{Every: every}}}, Filters: filters}
	}
	c, err := united([]session.Claim{claim("a", "delay,loss", 100, host), claim("b", "loss", 2, port), claim("away", "delay", 1)})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.policies) != 4 || len(c.rules) != 2 || c.rules[0].Filter != port || c.policies[c.rules[0].Policy].Sampling.Every != 2 || c.policies[c.rules[1].Policy].Sampling.Every != 100 {
		t.Fatalf("policies %+v, rules %+v", c.policies, c.rules)
	}
	if a, b := c.of["a"], c.of["b"]; len(a) != 2 || len(b) != 1 || b[0] != c.rules[0].Policy || len(c.of["away"]) != 0 {
		t.Errorf("policies of sessions: %v", c.of)
	}
	for name, want := range map[string]string{
		"a": "are marked by the sampling of both: one in 2 packets", "b": "carry the modules delay,loss", "away": "",
	} {
		if got := c.limits[name]; !strings.HasSuffix(got, want) || want == "" && got != "" {
			t.Errorf("session %s: %q, want %q", name, got, want)
		}
	}
}

// TestHostOfManyAddresses: of a host with more addresses than a source has rules, packets from the
// first ones are marked, above all from those that it uses, and the limit says how many are left out.
func TestHostOfManyAddresses(t *testing.T) {
	peers := []session.Peer{{Agent: "b", Addresses: []string{"127.0.0.1", "127.0.0.2"}}}
	own := func(count int) (addresses []string) {
		for i := range count - 1 {
			addresses = append(addresses, fmt.Sprintf("10.60.%d.%d", i/250, i%250+1))
		}
		return append(addresses, "127.0.0.1") // by which it reaches the peer
	}
	for _, row := range []struct {
		name    string
		own     int
		filters []fivetuple.Filter
		rules   int
		limit   string
	}{
		{"all fit", 64, nil, 64, ""},
		{"one too many", 65, nil, 64, "packets from 1 of 65 addresses of this host are not marked: "},
		{"services of a cluster", 2000, nil, 64, "packets from 1936 of 2000 addresses of this host are not marked: "},
		{"two filters", 33, []fivetuple.Filter{{Dport: 1}, {Dport: 2}}, 64, "packets from 1 of 33 addresses of this host are not marked: "},
		{"a filter names one", 2000, []fivetuple.Filter{{Src: netip.MustParsePrefix("10.60.7.7/32")}}, 1, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			task := sourceTask{SourceTask: session.SourceTask{Session: "s", Addresses: own(row.own), Peers: peers, Encoding: "native", Filters: row.filters}}
			var err error
			if task.rules, task.limit, err = from(task.SourceTask); err != nil {
				t.Fatal(err)
			}
			if len(task.rules) != row.rules || !strings.HasPrefix(task.limit, row.limit) || row.limit == "" && task.limit != "" {
				t.Errorf("%d rules, limit %q; want %d, %q", len(task.rules), task.limit, row.rules, row.limit)
			}
			if row.limit != "" && task.rules[0].Src.Addr().String() != "127.0.0.1" {
				t.Errorf("the first rule is %v", task.rules[0])
			}
			task.peers = map[netip.Addr]string{netip.MustParseAddr("127.0.0.1"): "b", netip.MustParseAddr("127.0.0.2"): "b"}
			s := &deviceSource{tasks: []sourceTask{task}, now: present}
			c, err := s.choice(session.Pulse{Alive: map[string][]string{"s": {"b"}}})
			if err != nil || len(c.of["s"]) != 1 {
				t.Errorf("policies %v: %v", c.of, err)
			}
		})
	}
	// Rules that are too many are an error of the task, whoever made them.
	task := sourceTask{SourceTask: session.SourceTask{Session: "s", Encoding: "native"}, peers: map[netip.Addr]string{netip.MustParseAddr("127.0.0.1"): "b"}}
	for i := range 65 {
		task.rules = append(task.rules, fivetuple.Filter{Dport: uint16(i + 1)})
	}
	s := &deviceSource{tasks: []sourceTask{task}, now: present}
	if _, err := s.choice(session.Pulse{Alive: map[string][]string{"s": {"b"}}}); err == nil {
		t.Error("65 rules are chosen")
	}
}
