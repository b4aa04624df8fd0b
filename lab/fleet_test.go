package lab

import (
	"os"
	"strings"
	"testing"
)

// TestFleetSpec: the example is valid, and errors name what is wrong.
func TestFleetSpec(t *testing.T) {
	text, err := os.ReadFile("fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := ParseSpec(text)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(spec.Service.Fleet.on("n1"), " "); got != "hub-n1 server-n1" {
		t.Errorf("on n1: %s", got)
	}
	if got := strings.Join(spec.Service.Fleet.on("s"), " "); got != "leaf-s" {
		t.Errorf("on s: %s", got)
	}
	if got := strings.Join(spec.Service.Fleet.on("zk"), " "); got != "coordination" {
		t.Errorf("on zk: %s", got)
	}
	for change, want := range map[string]string{
		"    hubs: [n1, n2, n3]>    hubs: [n1, n2, n9]":                     `"n9" is no host`,
		"    servers: [n1, n2, n3]>    servers: [n1, n1]":                   "listed twice in servers",
		"    leaves: {s: [a]}>    leaves: {s: [x]}":                         `"x" is no host`,
		"    coordination: zk>    coordination: \"\"":                       "coordination are required",
		"    shards: [[c1, c2], [c3, c4]]>    shards: [[c1, c2], [c2, c4]]": "listed twice in shards",
		"service:>service:\n  server: n1":                                   "either a server or a fleet",
	} {
		from, to, _ := strings.Cut(change, ">")
		if _, err := ParseSpec([]byte(strings.Replace(string(text), from, to, 1))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", to, err, want)
		}
	}
}
