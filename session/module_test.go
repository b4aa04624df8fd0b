package session

import (
	"slices"
	"strings"
	"testing"

	"pillion.dev/measure/module"
	"pillion.dev/wire"
)

// testModule registers a module that is not part of the program.
func testModule(t *testing.T, requires ...string) *module.Descriptor {
	t.Helper()
	d := module.Register(module.Descriptor{
		Name: "test-hops", Doc: "routers that a packet passed", ID: module.LastID, Bytes: 1, Requires: requires,
		Columns: module.Distribution("hops", "", "routers that a packet passed", 0),
	})
	t.Cleanup(d.Unregister)
	return d
}

func TestMarked(t *testing.T) {
	for _, row := range []struct {
		modules string
		set     wire.Module
		others  []string
	}{
		{"delay,loss", wire.Delay | wire.Loss, nil},
		{"loss", wire.Loss, nil},
		{"delay,hops,loss,x", wire.Delay | wire.Loss, []string{"hops", "x"}},
	} {
		if set, others := Marked(strings.Split(row.modules, ",")); set != row.set || !slices.Equal(others, row.others) {
			t.Errorf("%s: %v and %v", row.modules, set, others)
		}
	}
}

// TestModulesAreListed checks that a registered module is known wherever modules are named.
func TestModulesAreListed(t *testing.T) {
	if slices.Contains(setting("modules").Choices, "test-hops") || slices.Contains(Capabilities(), "test-hops") {
		t.Fatal("known before it is registered")
	}
	testModule(t)
	o := setting("modules")
	if at := slices.Index(o.Choices, "test-hops"); at < 0 || o.ChoiceDocs[at] != "routers that a packet passed" {
		t.Errorf("choices %v, %v", o.Choices, o.ChoiceDocs)
	}
	if !slices.Contains(Capabilities(), "test-hops") {
		t.Errorf("capabilities %v", Capabilities())
	}
	spec := good()
	spec.Modules = []string{"test-hops", "loss"}
	if faults := spec.Validate(); faults != nil {
		t.Error(faults)
	}
	costs := strings.Join(Costs(spec, []Pair{{Source: "h1", Destination: "h2"}}), "\n")
	if !strings.Contains(costs, "4 bytes in each mark, before padding, and one row in test_hops each 1s for each flow") {
		t.Errorf("costs:\n%s", costs)
	}
}

func TestModuleProblems(t *testing.T) {
	for _, row := range []struct {
		name     string
		modules  []string
		both     bool
		requires []string
		want     string // empty: none
	}{
		{"none named", nil, false, nil, ""},
		{"alone", []string{"test-hops"}, false, nil, "modules: add delay or loss: test-hops is measured in their marks"},
		{"unknown", []string{"delay", "jitter"}, false, nil, `modules[1]: unknown module "jitter"; valid: delay, loss, round-trip, segments, test-hops`},
		{"twice", []string{"delay", "delay"}, false, nil, `modules[1]: duplicate "delay"`},
		{"one direction", []string{"loss", "test-hops"}, false, []string{"both"}, "both: the module test-hops measures packets of both directions: set both"},
		{"both directions", []string{"loss", "test-hops"}, true, []string{"both"}, ""},
		{"without another module", []string{"loss", "test-hops"}, false, []string{"delay"}, "modules[1]: test-hops requires the module delay"},
		{"with it", []string{"delay", "test-hops"}, false, []string{"delay"}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			testModule(t, row.requires...)
			spec := good()
			spec.Modules, spec.Both = row.modules, row.both
			var got []string
			for _, p := range spec.Validate() {
				got = append(got, p.String())
			}
			if text := strings.Join(got, "\n"); text != row.want {
				t.Errorf("got %q, want %q", text, row.want)
			}
		})
	}
}

// An agent that lacks a module is assigned the marks without it, and so are its peers.
func TestModulesOfEarlierAgents(t *testing.T) {
	testModule(t)
	knows := Capabilities()
	lacks := slices.DeleteFunc(slices.Clone(knows), func(name string) bool { return name == "test-hops" })
	for _, row := range []struct {
		name        string
		h1, h2      []string
		marks, read bool
		warning     string
	}{
		{"both know it", knows, knows, true, true, ""},
		{"source lacks it", lacks, knows, false, true, "h1 marks without test-hops: the version of the agent on h1 does not support it"},
		{"destination lacks it", knows, lacks, false, false, "h1 marks without test-hops: the version of the agent on h2 does not support it"},
	} {
		t.Run(row.name, func(t *testing.T) {
			hosts := lab()
			hosts[0].Capabilities, hosts[1].Capabilities = row.h1, row.h2
			spec := good()
			spec.Modules = []string{"delay", "loss", "test-hops"}
			plan := planOf(t, spec, hosts)
			if warnings := strings.Join(plan.Warnings, "\n"); !strings.Contains(warnings, row.warning) {
				t.Errorf("warnings %q, want %q", warnings, row.warning)
			}
			source, destination := plan.Assignments["h1"], plan.Assignments["h2"]
			Restrict(&source, "h1", hosts)
			Restrict(&destination, "h2", hosts)
			if got := slices.Contains(source.Sources[0].Modules, "test-hops"); got != row.marks {
				t.Errorf("source has modules %v", source.Sources[0].Modules)
			}
			if got := slices.Contains(destination.Destinations[0].Modules, "test-hops"); got != row.read {
				t.Errorf("destination has modules %v", destination.Destinations[0].Modules)
			}
		})
	}
}

// TestModuleEncodings: a list of encodings without room for the options of modules is invalid,
// one with others, too, has a warning.
func TestModuleEncodings(t *testing.T) {
	testModule(t)
	for _, row := range []struct{ name, encoding, family, problem, warning string }{
		{"all carry it", "native,udp", "", "", ""},
		{"some do", "", "", "", "packets marked in udp-option,tcp-option have no test-hops: set encoding to native,udp to measure it in all marks"},
		{"none does", "udp-option", IPv4, "encoding: no mark in udp-option carries the data of test-hops; add one of native,", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			spec := good()
			spec.Modules, spec.Encoding, spec.Family = []string{"delay", "loss", "test-hops"}, row.encoding, row.family
			problems := spec.Validate()
			if row.problem != "" {
				if len(problems) != 1 || !strings.HasPrefix(problems[0].String(), row.problem) {
					t.Errorf("%v, want %q", problems, row.problem)
				}
				return
			}
			if problems != nil {
				t.Fatal(problems)
			}
			if warnings := strings.Join(planOf(t, spec, lab()).Warnings, "; "); warnings != row.warning {
				t.Errorf("warnings %q, want %q", warnings, row.warning)
			}
		})
	}
}
