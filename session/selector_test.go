package session

import (
	"slices"
	"strings"
	"testing"
)

func lab() []Host {
	return []Host{
		{Name: "h1", Connected: true, Addresses: []string{"10.0.0.1", "2001:db8::1"}, Labels: map[string]string{"edge": "", "site": "a"}, Capabilities: Capabilities()},
		{Name: "h2", Connected: true, Addresses: []string{"10.0.0.2"}, Labels: map[string]string{"site": "b"}, Capabilities: Capabilities()},
		{Name: "h3", Addresses: []string{"10.0.0.3"}, Labels: map[string]string{"site": "b"}, Capabilities: Capabilities()},
	}
}

func pairText(pairs []Pair) string {
	var text []string
	for _, p := range pairs {
		text = append(text, p.Source+">"+p.Destination)
	}
	return strings.Join(text, " ")
}

func TestResolve(t *testing.T) {
	for _, row := range []struct {
		name                  string
		sources, destinations []string
		both                  bool
		pairs                 string
		warning, problem      string
	}{
		{name: "names", sources: []string{"h1"}, destinations: []string{"h2"}, pairs: "h1>h2"},
		{name: "both", sources: []string{"h1"}, destinations: []string{"h2"}, both: true, pairs: "h1>h2 h2>h1"},
		{name: "mesh", sources: []string{"*"}, destinations: []string{"*"}, both: true, pairs: "h1>h2 h1>h3 h2>h1 h2>h3 h3>h1 h3>h2"},
		{name: "mesh of a label", sources: []string{"site=b"}, destinations: []string{"site=b"}, pairs: "h2>h3 h3>h2"},
		{name: "key of a label", sources: []string{"edge"}, destinations: []string{"site"}, pairs: "h1>h2 h1>h3"},
		{name: "fits twice", sources: []string{"h1", "edge", "site=a"}, destinations: []string{"h2"}, pairs: "h1>h2"},
		{name: "away", sources: []string{"h1"}, destinations: []string{"h3"}, pairs: "h1>h3", warning: "h3 is not connected"},
		{name: "unknown name", sources: []string{"h9"}, destinations: []string{"h2"}, problem: "sources[0]: no agent or label"},
		{name: "label of no host", sources: []string{"site=c"}, destinations: []string{"h2"}, warning: "no agent matches site=c yet"},
		{name: "itself", sources: []string{"h1"}, destinations: []string{"h1"}, problem: "the same agent"},
	} {
		t.Run(row.name, func(t *testing.T) {
			pairs, warnings, problems := Resolve(Spec{Sources: row.sources, Destinations: row.destinations, Both: row.both}, lab())
			if got := pairText(pairs); got != row.pairs {
				t.Errorf("pairs %q, want %q", got, row.pairs)
			}
			if !strings.Contains(strings.Join(warnings, "\n"), row.warning) || row.warning == "" && len(warnings) > 0 {
				t.Errorf("warnings %q, want %q", warnings, row.warning)
			}
			if row.problem == "" && len(problems) > 0 || row.problem != "" && (len(problems) == 0 || !strings.Contains(problems[0].String(), row.problem)) {
				t.Errorf("problems %v, want %q", problems, row.problem)
			}
		})
	}
}

func TestResolveWarnsOfUnusedSettings(t *testing.T) {
	spec := good()
	spec.SamplingFor = map[string]Sampling{"h2": {Every: 2}}
	spec.Device = map[string]string{"h3": "eth0"}
	_, warnings, _ := Resolve(spec, lab())
	want := []string{"device[h3]: h3 is not part of the session", "sampling_for[h2]: h2 is not a source"}
	if !slices.Equal(warnings, want) {
		t.Errorf("got %q, want %q", warnings, want)
	}
}

func TestDistinct(t *testing.T) {
	hosts := lab()
	hosts[0].Addresses = append(hosts[0].Addresses, "172.17.0.1", "10.0.0.3")
	hosts[1].Addresses = append(hosts[1].Addresses, "172.17.0.1")
	addresses, warnings := Distinct(hosts)
	if len(addresses["h1"]) != 3 || len(addresses["h2"]) != 1 {
		t.Errorf("the shared address is not left out: %v", addresses)
	}
	if len(addresses["h3"]) != 0 {
		t.Errorf("the host that is away keeps its address: %v", addresses)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "172.17.0.1 is ignored: h1 and h2 share it") {
		t.Errorf("warnings %q", warnings)
	}
}
