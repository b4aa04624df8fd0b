package runner

import (
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/internal/netns"
	"pillion.dev/measure"
	"pillion.dev/probe/flow"
	"pillion.dev/probe/source"
	"pillion.dev/session"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// TestFlowTableFollowsTasks: a destination keeps flows for the longest time that a session asks
// for, in the table that it began with, and says if a session asks for a larger one.
func TestFlowTableFollowsTasks(t *testing.T) {
	r := newRoad(t)
	small, large := task("s", true, time.Second), task("large", false, time.Second)
	small.Flows, small.Idle = 2048, session.Duration(20*time.Second)
	large.Flows, large.Idle = 40000, session.Duration(time.Hour)
	d := r.open(present, small)
	follow := func(tasks ...session.DestinationTask) {
		t.Helper()
		err := netns.Do(r.to, func() error {
			placed, _ := place(session.Assignment{Destinations: tasks})
			return d.follow(placed["in"].destinations)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	has := func(idle time.Duration, limited ...string) {
		t.Helper()
		if want := (reads{records: true, fields: flow.All, flows: 2048, idle: idle}); d.reads != want {
			t.Errorf("the program has %+v, want %+v", d.reads, want)
		}
		for _, state := range d.states() {
			if limit := strings.Contains(state.Limit, "has room for 2048 flows"); limit != slices.Contains(limited, state.Session) {
				t.Errorf("session %s: limit %q", state.Session, state.Limit)
			}
		}
	}
	d.start()
	r.marks()
	has(20 * time.Second)
	r.send(30)
	follow(small, large)
	has(time.Hour, "large")
	r.send(20)
	follow(small)
	has(20 * time.Second)
	r.send(10)
	if err := netns.Do(r.to, d.close); err != nil {
		t.Fatal(err)
	}
	r.holds("s", r.offered, true)
	r.holds("large", 20, false)
}

// TestAggregatesAreRows: with fewer fields, the rows of a session are about aggregates, whatever
// ports its filters name.
func TestAggregatesAreRows(t *testing.T) {
	r := newRoad(t)
	read := task("s", false, time.Second)
	port := uint16(r.out.LocalAddr().(*net.UDPAddr).Port)
	read.Flow, read.Filters = fivetuple.Src|fivetuple.Dst|fivetuple.Dport, []fivetuple.Filter{{Protocol: 17, HasProtocol: true, Sport: port, Dport: 9000}}
	d := r.open(present, read)
	if d.reads.fields != flow.Src|flow.Dst|flow.Dport {
		t.Errorf("flows by %v", d.reads.fields)
	}
	keys := map[string]uint64{}
	at := places(&measure.Flows)
	d.sink = func(schema *measure.Schema, sample measure.Sample) {
		if schema.Name == measure.Flows.Name {
			text := sample[at["src"]].Text() + " " + sample[at["dst"]].Text() + " " + sample[at["proto"]].Text()
			keys[text] = sample[at["sport"]].Uint64()<<16 | sample[at["dport"]].Uint64()
		}
	}
	d.start()
	r.marksBy(read.Fields())
	r.send(30)
	if err := netns.Do(r.to, d.close); err != nil {
		t.Fatal(err)
	}
	if want := map[string]uint64{sourceAddress + " " + destinationAddress + " ": 9000}; !maps.Equal(keys, want) {
		t.Errorf("rows of %v, want %v", keys, want)
	}
}

// marksBy starts a source that numbers flows by some fields.
func (r *road) marksBy(fields flow.Fields) {
	r.t.Helper()
	var marking *Source
	err := netns.Do(r.from, func() (err error) {
		marking, err = OpenSource(LocalSource{Device: "out", Lease: source.Forever, Settings: source.Settings{
			Policy: source.Policy{Modules: wire.Delay | wire.Loss, Encodings: wire.EncodingList{wire.UDP}, Marking: wire.Marking{Flow: fields}},
		}})
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := netns.Do(r.from, marking.Close); err != nil {
			r.t.Error(err)
		}
	})
}
