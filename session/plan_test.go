package session

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

func planOf(t *testing.T, spec Spec, hosts []Host) Plan {
	t.Helper()
	if p := spec.Validate(); len(p) > 0 {
		t.Fatalf("problems: %v", p)
	}
	pairs, _, problems := Resolve(spec, hosts)
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	return NewPlan(spec, pairs, hosts)
}

func TestPlanOrder(t *testing.T) {
	spec := Spec{Name: "mesh", Sources: []string{"*"}, Destinations: []string{"*"}}
	plan := planOf(t, spec, lab())
	order := func(steps []Step) (text []string) {
		for _, s := range steps {
			text = append(text, string(s.Action)+" "+s.Agent)
		}
		return text
	}
	want := []string{"start-destination h1", "start-destination h2", "start-destination h3", "start-source h1", "start-source h2", "start-source h3"}
	if got := order(plan.Steps); !slices.Equal(got, want) {
		t.Errorf("start %q", got)
	}
}

func TestPlanTasks(t *testing.T) {
	spec := good()
	spec.Both, spec.Filters = true, parseFilters("proto=tcp")
	spec.SamplingFor = map[string]Sampling{"h2": {Every: 10}}
	spec.Device = map[string]string{"h1": "eth1"}
	a := planOf(t, spec, lab()).Assignments
	h2 := []Peer{{Agent: "h2", Addresses: []string{"10.0.0.2"}}}
	want := Assignment{
		Destinations: []DestinationTask{{Session: "web", Device: "eth1", Peers: h2, Filters: spec.Filters, Interval: defaultDuration("interval"), Granularity: ByFlow, Authenticated: true}},
		Sources: []SourceTask{{Session: "web", Device: "eth1", Addresses: []string{"10.0.0.1", "2001:db8::1"}, Peers: h2, Filters: spec.Filters,
			Modules: []string{"delay", "loss"}, Encoding: wire.DefaultEncodings().String(), Marking: wire.Marking{StampEvery: 16}, Authenticated: true, Family: "any", Lease: defaultDuration("lease"), Interval: defaultDuration("interval")}},
		Traces: []TraceTask{{Session: "web", Peer: "h2", Address: "10.0.0.2", Protocol: "udp", Every: defaultDuration("trace")}},
	}
	if !reflect.DeepEqual(a["h1"], want) {
		t.Errorf("got %+v\nwant %+v", a["h1"], want)
	}
	if s := a["h2"].Sources[0]; s.Sampling.Every != 10 || len(s.Peers[0].Addresses) != 2 {
		t.Errorf("h2 has %+v", s)
	}
	if len(a["h2"].Traces) != 2 {
		t.Errorf("h2 does not trace one path of each family: %+v", a["h2"].Traces)
	}
}

func TestPlanFamilies(t *testing.T) {
	for _, row := range []struct{ name, family, encoding, addresses string }{
		{"any", "any", "udp", "10.0.0.1 2001:db8::1"},
		{"ipv4", "ipv4", "udp", "10.0.0.1"},
		{"ipv6", "ipv6", "udp", "2001:db8::1"},
		{"native", "any", "native", "2001:db8::1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			hosts := lab()
			hosts[1].Addresses = append(hosts[1].Addresses, "2001:db8::2")
			spec := Spec{Name: "x", Sources: []string{"h2"}, Destinations: []string{"h1"}, Family: row.family, Encoding: row.encoding}
			if got := strings.Join(planOf(t, spec, hosts).Assignments["h2"].Sources[0].Peers[0].Addresses, " "); got != row.addresses {
				t.Errorf("marks to %q, want %q", got, row.addresses)
			}
		})
	}
}

// A source without the address of a peer would mark everything.
func TestPlanWithoutAddress(t *testing.T) {
	hosts := lab()
	hosts[1].Addresses = nil
	plan := planOf(t, good(), hosts)
	if len(plan.Assignments) != 0 || len(plan.Steps) != 0 {
		t.Errorf("got tasks %+v", plan.Assignments)
	}
	if len(plan.Warnings) != 1 || !strings.Contains(plan.Warnings[0], "h2 has no usable address") {
		t.Errorf("warnings %q", plan.Warnings)
	}
}

// ports are filters of that many ports.
func ports(first, n int) []fivetuple.Filter {
	filters := make([]fivetuple.Filter, n)
	for i := range filters {
		filters[i].Dport = uint16(first + i)
	}
	return filters
}

func TestConflict(t *testing.T) {
	many := make([]Host, 70)
	for i := range many {
		many[i] = Host{Name: fmt.Sprintf("h%d", i+1), Connected: true, Addresses: []string{fmt.Sprintf("10.0.0.%d", i+1)}}
	}
	named := func(name string, change func(*Spec)) Spec {
		spec := good()
		spec.Name = name
		change(&spec)
		return spec
	}
	equal := func(*Spec) {}
	for _, row := range []struct {
		name       string
		first, new func(*Spec)
		says       string
	}{
		{"alike", equal, equal, ""},
		{"other peers and filters", equal, func(s *Spec) { s.Destinations, s.Filters = []string{"h3"}, parseFilters("proto=udp") }, ""},
		{"other interval and lease", equal, func(s *Spec) { s.Interval, s.Lease = 2e9, 2e9 }, ""},
		{"other modules", equal, func(s *Spec) { s.Modules = []string{"loss"} }, ""},
		{"other order of modules", equal, func(s *Spec) { s.Modules = []string{"loss", "delay"} }, ""},
		{"other encoding", equal, func(s *Spec) { s.Encoding = "shim" }, "h1: conflict with session first: different encoding for the same packets (existing: udp-option,tcp-option,native,udp, rule"},
		{"other family", equal, func(s *Spec) { s.Family = "ipv4" }, ""},
		{"other time stamps", equal, func(s *Spec) { s.StampEvery = 1 }, "different stamp_every for the same packets (existing: 16, rule"},
		{"other marks", equal, func(s *Spec) { s.SparseMarks = true }, "different sparse_marks for the same packets (existing: false, rule"},
		{"other sampling", equal, func(s *Spec) { s.Sampling.Every = 3 }, ""},
		{"one of one is all", equal, func(s *Spec) { s.Sampling.Every = 1 }, ""},
		{"one device is not known", func(s *Spec) { s.Device = map[string]string{"h1": "eth0"} }, func(s *Spec) { s.Encoding = "shim" }, "encoding"},
		{"other devices", func(s *Spec) { s.Device = map[string]string{"h1": "eth0"} },
			func(s *Spec) { s.Encoding, s.Device = "shim", map[string]string{"h1": "eth1"} }, ""},
		{"destinations do not", equal, func(s *Spec) { s.Sources, s.Encoding = []string{"h3"}, "shim" }, ""},
		{"but for filters that do not fit", func(s *Spec) { s.Filters = ports(1, 40) }, func(s *Spec) { s.Sources, s.Filters = []string{"h3"}, ports(1001, 25) },
			"h2: conflict with session first: they have 65 different filters; a destination supports 64"},
		{"filters that fit", func(s *Spec) { s.Filters = ports(1, 40) }, func(s *Spec) { s.Sources, s.Filters = []string{"h3"}, ports(1001, 24) }, ""},
		{"filters on other devices", func(s *Spec) { s.Filters, s.Device = ports(1, 40), map[string]string{"h2": "eth0"} },
			func(s *Spec) {
				s.Sources, s.Filters, s.Device = []string{"h3"}, ports(1001, 25), map[string]string{"h2": "eth1"}
			}, ""},
		{"many addresses, the same filters", equal, func(s *Spec) { s.Destinations = []string{"*"} }, ""},
		{"too many rules together", func(s *Spec) { s.Destinations, s.Filters = names32(2), parseFilters("proto=tcp") },
			func(s *Spec) { s.Destinations, s.Filters = names32(2), parseFilters("proto=udp", "proto=icmp") }, "session first: their filters differ"},
		{"the same rules count once", func(s *Spec) { s.Destinations, s.Filters = names32(2), parseFilters("proto=tcp") },
			func(s *Spec) { s.Destinations, s.Filters = names32(2), parseFilters("proto=udp", "proto=tcp") }, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			running := []Plan{planOf(t, named("first", row.first), many)}
			next := planOf(t, named("new", row.new), many)
			err := Conflict(append(running, next), next)
			if row.says == "" && err != nil || row.says != "" && (!errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), row.says)) {
				t.Errorf("got %v, want %q", err, row.says)
			}
		})
	}
}

// names32 returns 32 hosts from that number on.
func names32(first int) (hosts []string) {
	for i := range 32 {
		hosts = append(hosts, fmt.Sprintf("h%d", first+i))
	}
	return hosts
}

func TestCosts(t *testing.T) {
	spec := good()
	spec.Records = true
	text := strings.Join(Costs(spec, []Pair{{"h1", "h2"}, {"h2", "h1"}}), "\n")
	for _, want := range []string{"56 bytes in each marked IPv4 packet (delay and loss, encoding udp)", "32 bytes in each marked IPv6", "200 rows per second", "one row in packets", "2 path traces every 1m"} {
		if !strings.Contains(text, want) {
			t.Errorf("costs %q do not mention %q", text, want)
		}
	}
	spec.Granularity, spec.Family, spec.Trace = ByHost, IPv6, -1
	if text = strings.Join(Costs(spec, nil), "\n"); strings.Contains(text, "IPv4") || strings.Contains(text, "traced") {
		t.Errorf("costs %q", text)
	}
}

// parseFilters reads valid filters.
func parseFilters(texts ...string) []fivetuple.Filter {
	filters := make([]fivetuple.Filter, len(texts))
	for i, text := range texts {
		if err := filters[i].UnmarshalText([]byte(text)); err != nil {
			panic(err)
		}
	}
	return filters
}
