package session

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pillion.dev/wire"
)

func TestScope(t *testing.T) {
	hosts := []Host{{Name: "c", Labels: map[string]string{"customer": "two"}}, {Name: "b", Labels: map[string]string{"customer": "one"}},
		{Name: "a", Labels: map[string]string{"customer": "one"}}, {Name: "customer", Labels: map[string]string{"customer": ""}}}
	for _, test := range []struct{ scope, want string }{
		{"customer=one", "[a b] [{[a b] [a b]}]"},
		{"customer=one c", "[a b c] [{[a b c] [a b c]}]"},
		{"a:customer=two", "[] [{[a] [c]}]"},
		{"b a:c c:*", "[b] [{[a] [c]} {[c] [a b c customer]} {[b] [b]}]"},
		{"customer", "[customer] [{[customer] [customer]}]"}, // an agent, not the key of a label
		{"customer=three absent", "[] []"},
		{"absent:a", "[] [{[] [a]}]"},
		{"*", "[a b c customer] [{[a b c customer] [a b c customer]}]"},
	} {
		scope := Scope(strings.Fields(test.scope))
		if err := scope.Check(); err != nil {
			t.Errorf("%s: %v", test.scope, err)
		}
		if agents, links := scope.Resolve(hosts); fmt.Sprint(agents, links) != test.want {
			t.Errorf("%s: got %v %v, want %s", test.scope, agents, links, test.want)
		}
	}
	for name, parts := range map[string][]string{
		"none": {}, "empty": {""}, "empty end": {"a:"}, "no source": {":a"}, "three": {"a:b:c"}, "no value": {"site="}, "no key": {"=x"},
		"capital": {"North"}, "quote": {"a' OR 1=1"}, "many": strings.Fields(strings.Repeat("a ", 101)), "long": {strings.Repeat("a", 301)},
	} {
		if err := Scope(parts).Check(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestHowOnly: what names hosts, devices, addresses or users is left out, whatever fields there will be.
func TestHowOnly(t *testing.T) {
	all := Spec{Name: "s", Interval: Duration(time.Second), Marking: wire.Marking{SparseMarks: true}, Modules: []string{"delay"}, Cron: "0 9 * * *"}
	of := reflect.ValueOf(&all).Elem()
	for i := range of.NumField() {
		switch v := of.Field(i); v.Interface().(type) {
		case []string:
			if of.Type().Field(i).Name != "Modules" {
				v.Set(reflect.ValueOf([]string{"rival"}))
			}
		case map[string]string:
			v.Set(reflect.ValueOf(map[string]string{"rival": "rival"}))
		}
	}
	all.SamplingFor, all.Points = map[string]Sampling{"rival": {}}, []PointRequest{{Name: "router", Agents: []string{"rival"}}}
	how := all.HowOnly()
	if text := fmt.Sprintf("%+v", how); strings.Contains(text, "rival") || !strings.Contains(text, "delay") {
		t.Errorf("it has %s", text)
	}
	if how.Interval != all.Interval || !how.SparseMarks || how.Cron != all.Cron || how.Filters != nil {
		t.Errorf("it has %+v", how)
	}
}

func FuzzScope(f *testing.F) {
	for _, text := range []string{"a", "customer=one", "a:b", "*:site=x", ":", "=", "a:b:c"} {
		f.Add(text)
	}
	hosts := []Host{{Name: "a", Labels: map[string]string{"site": "x"}}, {Name: "b"}}
	f.Fuzz(func(t *testing.T, text string) {
		scope := Scope{text}
		if scope.Check() != nil {
			return
		}
		agents, links := scope.Resolve(hosts)
		if len(agents) > len(hosts) || len(links) > 1 {
			t.Errorf("%q selects %v, %v", text, agents, links)
		}
	})
}
