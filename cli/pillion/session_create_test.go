package pillion

import (
	"reflect"
	"testing"
	"time"

	"pillion.dev/session"
	"pillion.dev/wire"
)

// TestGivenFlags: flags change the fields that they name, and nothing else; entries of maps are added.
func TestGivenFlags(t *testing.T) {
	line := &cli{}
	parser, err := newParser(t.Context(), line)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.Parse([]string{"session", "create", "--every", "10", "--no-both", "--device", "south1=eth1", "--device", "north1=eth2"})
	if err != nil {
		t.Fatal(err)
	}
	spec := session.Spec{
		Name: "web", Sources: []string{"north1"}, Both: true, Interval: session.Duration(5 * time.Second), Marking: wire.Marking{Sampling: wire.Sampling{Every: 2, MinGap: 7}},
		Device: map[string]string{"north1": "eth0", "west1": "eth0"},
	}
	want := spec
	want.Both, want.Sampling.Every = false, 10
	want.Device = map[string]string{"north1": "eth2", "south1": "eth1", "west1": "eth0"}
	if err := line.Session.Create.apply(parsed, &spec); err != nil || !reflect.DeepEqual(spec, want) {
		t.Errorf("got %+v, %v, want %+v", spec, err, want)
	}
}
