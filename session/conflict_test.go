package session

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// twoPlans returns the plans of two sessions.
func twoPlans(t *testing.T, first, second func(*Spec)) (Plan, Plan) {
	t.Helper()
	hosts := lab()
	plans := make([]Plan, 2)
	for i, change := range []func(*Spec){first, second} {
		spec := good()
		spec.Name = []string{"first", "new"}[i]
		change(&spec)
		plans[i] = planOf(t, spec, hosts)
	}
	return plans[0], plans[1]
}

func filtered(texts ...string) func(*Spec) {
	return func(s *Spec) { s.Filters = parseFilters(texts...) }
}

func TestConflictOnlyWhereRulesOverlap(t *testing.T) {
	both := func(changes ...func(*Spec)) func(*Spec) {
		return func(s *Spec) {
			for _, change := range changes {
				change(s)
			}
		}
	}
	shim := func(s *Spec) { s.Encoding = "shim" }
	const together = "use the same value, filters that do not overlap, or an interface for each"
	for _, row := range []struct {
		name       string
		first, new func(*Spec)
		want       string // empty: no conflict
	}{
		{"other encoding of other packets", filtered("proto=tcp"), both(shim, filtered("proto=udp")), ""},
		{"other encoding to another host", shim, func(s *Spec) { s.Destinations = []string{"h3"} }, ""},
		{"other encoding of the same packets", filtered("proto=tcp"), both(shim, filtered("dport=80")),
			"h1: conflict with session first: different encoding for the same packets (existing: udp-option,tcp-option,native,udp, rule src=10.0.0.1 dst=10.0.0.2 proto=tcp; " +
				"new: native,shim, rule src=10.0.0.1 dst=10.0.0.2 dport=80); " + together},
		{"other time stamps of other packets", filtered("dport=80"), both(func(s *Spec) { s.StampEvery = 1 }, filtered("dport=81")), ""},
		{"other time stamps of the same packets", filtered("dport=80"), both(func(s *Spec) { s.StampEvery = 1 }, filtered("sport=81")),
			"different stamp_every for the same packets (existing: 16, rule src=10.0.0.1 dst=10.0.0.2 dport=80; new: 1, rule src=10.0.0.1 dst=10.0.0.2 sport=81)"},
		{"sparse marks of the same packets", filtered(), func(s *Spec) { s.SparseMarks = true }, "different sparse_marks for the same packets"},
		{"authentication of the same packets", filtered(), func(s *Spec) { s.Authentication = Unauthenticated }, "different authentication for the same packets (existing: on, rule src=10.0.0.1 dst=10.0.0.2; new: off, rule src=10.0.0.1 dst=10.0.0.2)"},
		{"authentication of other packets", filtered("proto=tcp"), both(func(s *Spec) { s.Authentication = Unauthenticated }, filtered("proto=17")), ""},
		{"authentication of some of the packets", filtered("proto=tcp"), both(func(s *Spec) { s.Authentication = Unauthenticated }, filtered("dport=80")),
			"different authentication for the same packets (existing: on, rule src=10.0.0.1 dst=10.0.0.2 proto=tcp; new: off, rule src=10.0.0.1 dst=10.0.0.2 dport=80)"},
		{"authentication of packets of two devices", func(s *Spec) { s.Device = map[string]string{"h1": "eth0"} },
			func(s *Spec) { s.Authentication, s.Device = Unauthenticated, map[string]string{"h1": "eth1"} },
			"different authentication of the same packets of h1"},
		{"authentication of other packets of two devices", both(func(s *Spec) { s.Device = map[string]string{"h1": "eth0"} }, filtered("proto=tcp")),
			both(func(s *Spec) { s.Authentication, s.Device = Unauthenticated, map[string]string{"h1": "eth1"} }, filtered("proto=udp")), ""},
		{"authentication to another host", filtered(), func(s *Spec) { s.Authentication, s.Destinations = Unauthenticated, []string{"h3"} }, ""},
		{"other modules of the same packets", filtered(), func(s *Spec) { s.Modules = []string{"loss"} }, ""},
		{"other sampling of the same packets", filtered(), func(s *Spec) { s.Sampling.Every = 3 }, ""},
		{"other family", filtered(), func(s *Spec) { s.Family = IPv4 }, ""},
		{"other packets, too many rules", filtered("proto=tcp"), func(s *Spec) { s.Sampling.Every, s.Filters = 3, ports(1, 64) },
			"h1: conflict with session first: the sessions first, new mark differently and, combined with the addresses of sources and destinations, need more than the 64 rules"},
		{"alike, too many rules", filtered("proto=tcp"), filtered(portTexts(64)...), "need 65 rules"},
		{"alike", filtered("proto=tcp"), filtered(portTexts(63)...), ""},
		{"devices apart", func(s *Spec) { s.Device = map[string]string{"h1": "eth0,eth1"} }, both(shim, func(s *Spec) { s.Device = map[string]string{"h1": "eth2"} }), ""},
		{"one of several devices", func(s *Spec) { s.Device = map[string]string{"h1": "eth0,eth1"} },
			both(shim, func(s *Spec) { s.Device = map[string]string{"h1": "eth2,eth1"} }), "different encoding for the same packets"},
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

func portTexts(n int) (texts []string) {
	for _, filter := range ports(1, n) {
		texts = append(texts, filter.String())
	}
	return texts
}

// task is a source from 10.0.0.1 to 10.0.0.2.
func task(session string, change func(*SourceTask), filters ...string) SourceTask {
	t := SourceTask{Session: session, Addresses: []string{"10.0.0.1"}, Peers: []Peer{{Agent: "b", Addresses: []string{"10.0.0.2"}}},
		Modules: []string{"delay", "loss"}, Encoding: "shim", Filters: parseFilters(filters...)}
	change(&t)
	return t
}

func TestPolicies(t *testing.T) {
	same := func(*SourceTask) {}
	every := func(n uint32) func(*SourceTask) { return func(t *SourceTask) { t.Sampling.Every = n } }
	loss := func(t *SourceTask) { t.Modules = []string{"loss"} }
	delay := func(t *SourceTask) { t.Modules = []string{"delay"} }
	elsewhere := func(t *SourceTask) { t.Peers[0].Addresses = []string{"10.0.0.3"}; t.Encoding = "udp" }
	gap := func(t *SourceTask) { t.Sampling.MinGap = 5 }
	for _, row := range []struct {
		name  string
		tasks []SourceTask
		want  []string
	}{
		{"one", []SourceTask{task("a", same)}, []string{"to 2: delay,loss shim all packets"}},
		{"alike", []SourceTask{task("a", same), task("b", same)}, []string{"to 2: delay,loss shim all packets"}},
		{"apart", []SourceTask{task("a", every(3), "proto=tcp"), task("b", loss, "proto=udp")},
			[]string{"to 2 proto=tcp: delay,loss shim one in 3 packets", "to 2 proto=udp: loss shim all packets"}},
		{"to two hosts", []SourceTask{task("a", same), task("b", elsewhere)}, []string{"to 2: delay,loss shim all packets", "to 3: delay,loss udp all packets"}},
		{"modules are united", []SourceTask{task("a", loss), task("b", delay)}, []string{"to 2: delay,loss shim all packets"}},
		{"within another one", []SourceTask{task("a", every(100)), task("b", every(2), "dport=80")},
			[]string{"to 2 dport=80: delay,loss shim one in 2 packets", "to 2: delay,loss shim one in 100 packets"}},
		{"around another one", []SourceTask{task("a", every(2), "dport=80"), task("b", every(100))},
			[]string{"to 2 dport=80: delay,loss shim one in 2 packets", "to 2: delay,loss shim one in 100 packets"}},
		{"crossed", []SourceTask{task("a", loss, "proto=tcp"), task("b", delay, "dport=80")},
			[]string{"to 2 proto=tcp dport=80: delay,loss shim all packets", "to 2 proto=tcp: loss shim all packets", "to 2 dport=80: delay shim all packets"}},
		{"gaps", []SourceTask{task("a", every(9)), task("b", gap)}, []string{"to 2: delay,loss shim all packets"}},
		{"its own rules overlap", []SourceTask{task("a", same, "proto=tcp", "dport=80"), task("b", same, "sport=1", "proto=tcp")},
			[]string{"to 2 proto=tcp: delay,loss shim all packets", "to 2 dport=80: delay,loss shim all packets", "to 2 sport=1: delay,loss shim all packets"}},
		{"IPv6 filter for IPv4", []SourceTask{task("a", same, "src=2001:db8::1")}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			policies, rules, err := Policies(row.tasks)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, rule := range rules {
				p := policies[rule.Policy]
				filter := strings.TrimPrefix(rule.String(), "src=10.0.0.1 dst=10.0.0.")
				got = append(got, fmt.Sprintf("to %s: %s %s %s", filter, p.Modules, p.Encoding, p.Sampling))
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("got  %q\nwant %q", got, row.want)
			}
		})
	}
}

func TestPoliciesHaveLimits(t *testing.T) {
	var tasks []SourceTask
	for i := range wire.PoliciesMax + 1 {
		tasks = append(tasks, task(fmt.Sprintf("s%d", i), func(t *SourceTask) { t.Sampling.Every = uint32(i) + 2 }, fmt.Sprintf("dport=%d", i+1)))
	}
	if policies, rules, err := Policies(tasks[:wire.PoliciesMax]); err != nil || len(policies) != wire.PoliciesMax || len(rules) != wire.PoliciesMax {
		t.Errorf("%d policies, %d rules, %v", len(policies), len(rules), err)
	}
	_, _, err := Policies(tasks)
	if err == nil || !strings.Contains(err.Error(), "the sessions s0, s1, ") || !strings.Contains(err.Error(), "mark in 17 different ways; a source supports 16") {
		t.Errorf("got %v", err)
	}
	_, _, err = Policies([]SourceTask{task("many", func(*SourceTask) {}, portTexts(RulesMax+1)...)})
	if err == nil || !strings.Contains(err.Error(), "more than the 64 rules") {
		t.Errorf("got %v", err)
	}
}

// The first rule that matches a packet says what all tasks that want it ask together.
func TestPoliciesOfEveryPacket(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	filters := []string{"proto=tcp", "proto=udp", "dport=1", "dport=2", "sport=1", "proto=tcp dport=1", "dport=2 sport=1"}
	for range 300 {
		var tasks []SourceTask
		for i := range 1 + random.IntN(4) {
			var own []string
			for range random.IntN(3) {
				own = append(own, filters[random.IntN(len(filters))])
			}
			tasks = append(tasks, task(fmt.Sprint(i), func(t *SourceTask) {
				t.Modules = [][]string{{"delay"}, {"loss"}, {"delay", "loss"}}[random.IntN(3)]
				t.Sampling.Every = uint32(random.IntN(3)) * 10
			}, own...))
		}
		policies, rules, err := Policies(tasks)
		if err != nil {
			t.Fatal(err)
		}
		for bits := range 16 {
			k := fivetuple.Key{Src: tasks[0].own()[0].Addr(), Dst: tasks[0].peers()[0].Addr(), Protocol: []uint8{6, 17}[bits&1], Sport: uint16(bits >> 1 & 1), Dport: uint16(bits >> 2)}
			checkPolicy(t, tasks, policies, rules, k)
		}
	}
}

func checkPolicy(t *testing.T, tasks []SourceTask, policies []Policy, rules []Rule, k fivetuple.Key) {
	t.Helper()
	var modules []string
	every, matched := uint32(1000), false
	for _, task := range tasks {
		if slices.ContainsFunc(task.filters(), func(f fivetuple.Filter) bool { return f.Matches(k) }) {
			matched = true
			modules = append(modules, task.Modules...)
			every = min(every, max(task.Sampling.Every, 1))
		}
	}
	slices.Sort(modules)
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.Matches(k) })
	if i >= 0 != matched {
		t.Fatalf("%+v has rule %d; matched %t", k, i, matched)
	}
	if i < 0 {
		return
	}
	p := policies[rules[i].Policy]
	if p.Modules != strings.Join(slices.Compact(modules), ",") || max(p.Sampling.Every, 1) != every {
		t.Fatalf("%+v has %+v, want %v, one in %d", k, p, slices.Compact(modules), every)
	}
}
