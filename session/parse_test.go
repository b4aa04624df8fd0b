package session

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"pillion.dev/wire"
)

const fullYAML = `
name: web
sources: [edge, role=db]
destinations: ["*"]
both: true
modules: [loss]
encoding: shim
family: ipv4
filters:
  - proto=tcp dport=443
sampling: {every: 10, min_gap: 100us}
sampling_for:
  h1: {random: 3}
interval: 500ms
granularity: host
records: true
device: {h1: eth0}
lease: 4s
stamp_every: 1
trace: -1s
hops: "off"
hops_gap: 1s
flow: src,dst
flows: 2048
idle: 30s
start: 2026-03-01T08:00:00Z
duration: 1h30m
cron: "0 8 * * 1-5"
time_zone: Europe/Berlin
routers: [r1]
points:
  - {name: router, agents: [r2]}
`

func TestParseSpec(t *testing.T) {
	spec, err := ParseSpec([]byte(fullYAML))
	if err != nil {
		t.Fatal(err)
	}
	want := Spec{
		Name: "web", Sources: []string{"edge", "role=db"}, Destinations: []string{"*"}, Both: true,
		Modules: []string{"loss"}, Encoding: "shim", Family: "ipv4", Filters: parseFilters("proto=tcp dport=443"),
		Marking: wire.Marking{
			StampEvery: 1, HopsGap: Duration(time.Second), Flow: pairFields, Idle: Duration(30 * time.Second),
			Sampling: Sampling{Every: 10, MinGap: Duration(100 * time.Microsecond)},
		},
		SamplingFor: map[string]Sampling{"h1": {Random: 3}},
		Interval:    Duration(500 * time.Millisecond), Granularity: "host", Records: true,
		Device: map[string]string{"h1": "eth0"}, Lease: Duration(4 * time.Second), Trace: Duration(-time.Second),
		Hops: "off", Flows: 2048,
		Start: time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC), Duration: Duration(90 * time.Minute),
		Cron: "0 8 * * 1-5", TimeZone: "Europe/Berlin", Routers: []string{"r1"}, Points: []PointRequest{{Name: "router", Agents: []string{"r2"}}},
	}
	if !reflect.DeepEqual(spec, want) {
		t.Errorf("got %+v\nwant %+v", spec, want)
	}
	if p := spec.Validate(); len(p) > 0 {
		t.Errorf("problems: %v", p)
	}
	text, err := yaml.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ParseSpec(text); err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("YAML there and back: %v\n%s\n%+v", err, text, again)
	}
	if text, err = json.Marshal(spec); err != nil {
		t.Fatal(err)
	}
	if again, err := ParseSpec(text); err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("JSON is YAML: %v\n%s\n%+v", err, text, again)
	}
	var again Spec
	if err := json.Unmarshal(text, &again); err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("JSON there and back: %v\n%s\n%+v", err, text, again)
	}
}

func TestParseSpecRefuses(t *testing.T) {
	for _, row := range []struct{ name, text, says string }{
		{"empty", "", "document is empty"},
		{"unknown key", "name: a\nsauces: [b]\n", `line 2: unknown field "sauces"`},
		{"unknown key inside", "name: a\nsampling:\n  evry: 2\n", `line 3: unknown field "evry"`},
		{"key twice", "name: a\nname: b\n", "line 2"},
		{"number without a unit", "name: a\ninterval: 5\n", "500ms"},
		{"no duration", "name: a\nlease: soon\n", `"soon" is not a duration`},
		{"unknown field of flows", "name: a\nflow: src,dst,port\n", `no field "port"`},
		{"list for a word", "name: [a]\n", "line 1"},
		{"broken", "name: [a\n", "line 1"},
		{"two documents", "name: a\n---\nname: b\n", "more than one document"},
		{"negative count", "sampling: {every: -1}\n", "line 1"},
		{"tag without a list", "sources: !x\ny: #\n", ""},
		{"too long", "#" + strings.Repeat("x", specMax), "limit"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := ParseSpec([]byte(row.text))
			if !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), row.says) {
				t.Errorf("got %v, want %q", err, row.says)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("error has several lines: %q", err)
			}
		})
	}
}

func FuzzParseSpec(f *testing.F) {
	f.Add([]byte(fullYAML))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("name: !!binary x"))
	f.Add([]byte(`{"name":"a","sources":["*"],"destinations":["*"],"cron":"* * * * *","duration":"1m"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		spec, err := ParseSpec(text)
		if err != nil || len(spec.Validate()) > 0 {
			return
		}
		again, err := yaml.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseSpec(again); err != nil {
			t.Fatalf("%v\n%s", err, again)
		}
		hosts := []Host{{Name: "h1", Addresses: []string{"10.0.0.1"}}, {Name: "h2", Addresses: []string{"10.0.0.2"}}}
		pairs, _, _ := Resolve(spec, hosts)
		NewPlan(spec, pairs, hosts)
		Upcoming(spec, cronReference, cronReference.AddDate(0, 1, 0), 10)
	})
}
