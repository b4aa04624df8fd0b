package experiment

import (
	"slices"
	"testing"
	"time"
)

// TestNoteChanges: what changes is noted once, what always differs never.
func TestNoteChanges(t *testing.T) {
	s, err := Parse([]byte("experiment: e\nfactors: {mode: [a]}\nrun: {command: 'true'}\nmeasures: {rate: {field: rate}}\nstop: {blocks: 1}\n"))
	if err != nil {
		t.Fatal(err)
	}
	environment := func(governor, load string, hosts map[string]map[string]string) map[string]any {
		return map[string]any{"governor": governor, "load_before": load, "hosts": hosts, HostDifferences: []string{"governor: x of a"}}
	}
	folder := t.TempDir()
	before := map[string]map[string]string{"a": {"kernel": "6.1"}, "b": {"kernel": "6.1", "smt": "on"}}
	if err := Create(folder, s, nil, environment("performance", "0.1", before), time.Now()); err != nil {
		t.Fatal(err)
	}
	rows := []struct {
		name string
		now  map[string]any
		want []string
	}{
		{"nothing", environment("performance", "0.2", before), nil},
		{"governor", environment("powersave", "0.2", before), []string{`seen after 2 complete blocks: governor: "performance", now "powersave"`}},
		{"known", environment("powersave", "0.3", before), nil},
		{"unreachable host", environment("performance", "0", map[string]map[string]string{"a": {"kernel": "6.1"}, "b": {"incomplete": "no route"}}), nil},
		{"kernel of a host", environment("performance", "0", map[string]map[string]string{"a": {"kernel": "6.8"}, "b": before["b"]}),
			[]string{`seen after 2 complete blocks: hosts.a.kernel: "6.1", now "6.8"`}},
	}
	var all []string
	for _, row := range rows { // each builds on the one before
		got, err := NoteChanges(folder, row.now, 2)
		if err != nil || !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, %v, want %q", row.name, got, err, row.want)
		}
		all = append(all, row.want...)
	}
	hosts, changes := EnvironmentFindings(folder)
	if !slices.Equal(hosts, []string{"governor: x of a"}) || !slices.Equal(changes, all) {
		t.Errorf("found %q and %q, want %q", hosts, changes, all)
	}
	if err := Compare(folder, s); err != nil {
		t.Errorf("the design is another one: %v", err)
	}
}
