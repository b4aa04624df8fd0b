package runner

import (
	"net/netip"
	"strings"
	"testing"

	"pillion.dev/session"
	"pillion.dev/wire/fivetuple"
)

func TestTaskSetsTimeStamps(t *testing.T) {
	task := sourceTask{SourceTask: session.SourceTask{Modules: []string{"delay", "loss"}, Encoding: "native", StampEvery: 1, SparseMarks: true}}
	policy, err := policyOf(task.Policy())
	if err != nil || policy.StampEvery != 1 || !policy.Sparse || policy.Modules != 3 {
		t.Errorf("policy %+v, %v", policy, err)
	}
	settings, err := settingsOf([]sourceTask{task})
	if err != nil || settings.StampEvery != 1 || !settings.Sparse || !settings.StartEmpty {
		t.Errorf("settings %+v, %v", settings, err)
	}
}

// TestUnitedChoice: what packets that two sessions measure carry, and what each is told.
func TestUnitedChoice(t *testing.T) {
	host := fivetuple.Filter{Dst: netip.MustParsePrefix("192.0.2.2/32")}
	port := host
	port.Dport = 80
	claim := func(name, modules string, every uint32, filters ...fivetuple.Filter) session.Claim {
		return session.Claim{Session: name, Policy: session.Policy{Modules: modules, Encoding: "native", Sampling: session.Sampling{Every: every}}, Filters: filters}
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
