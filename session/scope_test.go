package session

import (
	"fmt"
	"strings"
	"testing"
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
