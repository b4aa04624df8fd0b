package session

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pillion.dev/wire/fivetuple"
)

func TestFlowSettings(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*Spec)
		want   string // problems, by field; empty: none
	}{
		{"by address", func(s *Spec) { s.Flow = pairFields }, ""},
		{"by service", func(s *Spec) {
			s.Flow, s.Flows, s.Idle = pairFields|fivetuple.Protocol|fivetuple.Dport, 1<<20, Duration(10*time.Second)
		}, ""},
		{"all fields", func(s *Spec) { s.Flow, s.SparseMarks = fivetuple.All, true }, ""},
		{"without the source", func(s *Spec) { s.Flow = fivetuple.Dst | fivetuple.Protocol }, "flow: add src and dst"},
		{"sparse", func(s *Spec) { s.Flow, s.SparseMarks = pairFields, true }, "flow: sparse marks require flows by all fields"},
		{"hops", func(s *Spec) { s.Flow, s.Hops = pairFields, HopsIOAM }, "flow: packets in which routers write"},
		{"standard encoding", func(s *Spec) { s.Flow, s.Encoding = pairFields, "native,ioam-e2e" }, "flow: ioam-e2e marks do not name the fields of flows"},
		{"few flows", func(s *Spec) { s.Flows = 1023 }, "flows: 1023 is out of range: use 1024 to 1048576"},
		{"short", func(s *Spec) { s.Idle = Duration(time.Second) }, "idle: 1s is out of range: use 10s to 1h"},
	} {
		t.Run(row.name, func(t *testing.T) {
			spec := good()
			row.change(&spec)
			problems := spec.Validate()
			if row.want == "" && len(problems) > 0 || row.want != "" && (len(problems) != 1 || !strings.HasPrefix(problems[0].String(), row.want)) {
				t.Errorf("problems %v, want %q", problems, row.want)
			}
		})
	}
}

// Both ends have the same fields, and no end a value that is its own default.
func TestFlowTablesOfTasks(t *testing.T) {
	for _, row := range []struct {
		name                string
		change              func(*Spec)
		source, destination FlowTable
	}{
		{"defaults", func(*Spec) {}, FlowTable{}, FlowTable{}},
		{"the defaults, given", func(s *Spec) { s.Flow, s.Idle = fivetuple.All, Duration(time.Minute) }, FlowTable{}, FlowTable{}},
		{"all", func(s *Spec) { s.Flow, s.Flows, s.Idle = pairFields, 5000, Duration(20*time.Second) },
			FlowTable{pairFields, 5000, Duration(20 * time.Second)}, FlowTable{pairFields, 5000, Duration(40 * time.Second)}},
	} {
		t.Run(row.name, func(t *testing.T) {
			hosts := lab()
			spec := good()
			row.change(&spec)
			plan := planOf(t, spec, hosts)
			for agent, a := range plan.Assignments {
				Restrict(&a, agent, hosts)
				for _, task := range a.Sources {
					if got := (FlowTable{task.Flow, task.Flows, task.Idle}); got != row.source {
						t.Errorf("source %s has %+v", agent, got)
					}
				}
				for _, task := range a.Destinations {
					if task.FlowTable != row.destination {
						t.Errorf("destination %s has %+v", agent, task.FlowTable)
					}
				}
			}
		})
	}
}

// What numbers packets together is the same in all sessions whose packets it numbers.
func TestFlowConflicts(t *testing.T) {
	byHost := func(filters ...string) func(*Spec) {
		return func(s *Spec) { s.Flow, s.Filters = pairFields, parseFilters(filters...) }
	}
	elsewhere := func(change func(*Spec)) func(*Spec) {
		return func(s *Spec) {
			change(s)
			s.Device = map[string]string{"h2": "eth9"}
		}
	}
	onFirst := func(change func(*Spec)) func(*Spec) {
		return func(s *Spec) {
			change(s)
			s.Device = map[string]string{"h2": "eth8"}
		}
	}
	for _, row := range []struct {
		name       string
		first, new func(*Spec)
		want       string
	}{
		{"alike", byHost(), byHost(), ""},
		{"alike, other sampling", byHost("proto=tcp"), func(s *Spec) { byHost("proto=tcp")(s); s.Sampling.Every = 7 }, ""},
		{"other sizes", func(s *Spec) { s.Flows, s.Idle = 2000, Duration(20*time.Second) }, filtered(), ""},
		{"other fields of the same packets", onFirst(filtered()), elsewhere(byHost()), "different flow for the same packets (existing: src,dst,proto,sport,dport, rule"},
		{"other fields of other packets", onFirst(filtered("proto=udp")), elsewhere(byHost("proto=tcp")), ""},
		{"other filters of the same packets", onFirst(byHost()), elsewhere(byHost("proto=tcp")), "different filters for the same packets"},
		{"other filters of other packets", onFirst(byHost("proto=udp")), elsewhere(byHost("proto=tcp")), ""},
		{"other fields at the destination", filtered("proto=udp"), byHost("proto=tcp"), ""},
		{"other filters at the destination", byHost("proto=udp"), byHost("proto=tcp"), `different filters of flows by src,dst on the same interface of a destination (existing: "proto=udp"; new: "proto=tcp")`},
	} {
		t.Run(row.name, func(t *testing.T) {
			first, next := twoPlans(t, row.first, row.new)
			err := Conflict([]Plan{first}, next)
			if row.want == "" && err != nil || row.want != "" && (!errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}
