package session

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/wire"
)

func good() Spec {
	return Spec{Name: "web", Sources: []string{"h1"}, Destinations: []string{"h2"}}
}

func TestValidate(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*Spec)
		fields []string
	}{
		{"nothing wrong", func(*Spec) {}, nil},
		{"no name", func(s *Spec) { s.Name = "" }, []string{"name"}},
		{"name is a path", func(s *Spec) { s.Name = "../etc" }, []string{"name"}},
		{"no agents", func(s *Spec) { s.Sources, s.Destinations = nil, nil }, []string{"sources", "destinations"}},
		{"bad selector", func(s *Spec) { s.Sources = []string{"h1", "a b", "h1", ""} }, []string{"sources[1]", "sources[2]", "sources[3]"}},
		{"bad module", func(s *Spec) { s.Modules = []string{"delay", "jitter", "delay"} }, []string{"modules[2]", "modules[1]"}},
		{"bad words", func(s *Spec) { s.Encoding, s.Family, s.Granularity = "gre", "ipx", "port" }, []string{"encoding", "family", "granularity"}},
		{"native leaves ipv4", func(s *Spec) { s.Encoding, s.Family = "native", "ipv4" }, []string{"encoding"}},
		{"native with any", func(s *Spec) { s.Encoding = "native" }, nil},
		{"filter of the other family", func(s *Spec) { s.Family, s.Filters = "ipv6", parseFilters("dst=10.0.0.0/8") }, []string{"filters[0]"}},
		{"both samplings", func(s *Spec) { s.Sampling = Sampling{Every: 2, Random: 2} }, []string{"sampling.random"}},
		{"by content and by count", func(s *Spec) { s.Sampling = Sampling{Every: 2, Hash: 2} }, []string{"sampling.hash"}},
		{"by content", func(s *Spec) { s.Sampling = Sampling{Hash: 2, HashSeed: "any text"} }, nil},
		{"seed without content", func(s *Spec) { s.Sampling = Sampling{Every: 2, HashSeed: "x"} }, []string{"sampling.hash_seed"}},
		{"long seed", func(s *Spec) { s.Sampling = Sampling{Hash: 2, HashSeed: strings.Repeat("x", 65)} }, []string{"sampling.hash_seed"}},
		{"sparse marks of a sample by content", func(s *Spec) { s.SparseMarks, s.Sampling = true, Sampling{Hash: 2} }, []string{"sparse_marks"}},
		{"both samplings of one", func(s *Spec) {
			s.SamplingFor = map[string]Sampling{"h1": {Every: 2, Random: 2}, "H": {MinGap: -1}}
		}, []string{"sampling_for[H]", "sampling_for[H].min_gap", "sampling_for[h1].random"}},
		{"interval too short", func(s *Spec) { s.Interval = Duration(99 * time.Millisecond) }, []string{"interval"}},
		{"interval too long", func(s *Spec) { s.Interval = Duration(time.Hour + 1) }, []string{"interval"}},
		{"bad device", func(s *Spec) {
			s.Device = map[string]string{"h1": "../x", "h2": "averyveryverylongname", "h3": "eth0.1", "h4": ".."}
		}, []string{"device[h1]", "device[h2]", "device[h4]"}},
		{"bad router", func(s *Spec) { s.Routers = []string{"r1", "r 1", "r1"} }, []string{"routers[1]", "routers[2]"}},
		{"time stamps", func(s *Spec) { s.StampEvery = 5000 }, []string{"stamp_every"}},
		{"sparse marks", func(s *Spec) { s.SparseMarks = true }, nil},
		{"sparse marks in an encoding of a standard", func(s *Spec) { s.SparseMarks, s.Encoding = true, "ioam-e2e" }, []string{"sparse_marks"}},
		{"an encoding of a standard", func(s *Spec) { s.Encoding = "ioam-e2e" }, nil},
		{"sparse marks of one module", func(s *Spec) { s.SparseMarks, s.Modules = true, []string{"loss"} }, []string{"sparse_marks"}},
		{"sparse marks of a sample", func(s *Spec) { s.SparseMarks, s.Sampling = true, Sampling{Random: 2} }, []string{"sparse_marks"}},
		{"sparse marks of all", func(s *Spec) { s.SparseMarks, s.Sampling = true, Sampling{Every: 1} }, nil},
		{"sparse marks of one source's sample", func(s *Spec) {
			s.SparseMarks, s.SamplingFor = true, map[string]Sampling{"h1": {Every: 2}}
		}, []string{"sparse_marks"}},
		{"lease", func(s *Spec) { s.Lease = Duration(time.Second) }, []string{"lease"}},
		{"trace too often", func(s *Spec) { s.Trace = Duration(time.Second) }, []string{"trace"}},
		{"hops unknown", func(s *Spec) { s.Hops = "some" }, []string{"hops"}},
		{"hops in packets", func(s *Spec) { s.Hops, s.HopsGap = "ioam", Duration(10*time.Millisecond) }, nil},
		{"hops too often", func(s *Spec) { s.HopsGap = Duration(time.Millisecond) }, []string{"hops_gap"}},
		{"hops without delay", func(s *Spec) { s.Hops, s.Modules = "ioam", []string{"loss"} }, []string{"hops"}},
		{"hops with sparse marks", func(s *Spec) { s.Hops, s.SparseMarks = "ioam", true }, []string{"hops"}},
		{"hops in IPv4 packets", func(s *Spec) { s.Hops, s.Family = "ioam", "ipv4" }, []string{"hops"}},
		{"trace never", func(s *Spec) { s.Trace = -1 }, nil},
		{"negative duration", func(s *Spec) { s.Duration = -1 }, []string{"duration"}},
		{"cron without duration", func(s *Spec) { s.Cron = "* * * * *" }, []string{"duration"}},
		{"cron with six fields", func(s *Spec) { s.Cron, s.Duration = "0 * * * * *", Duration(time.Second) }, []string{"cron"}},
		{"cron with a zone inside", func(s *Spec) { s.Cron, s.Duration = "CRON_TZ=UTC 0 * * * *", Duration(time.Second) }, []string{"cron"}},
		{"cron with only a zone", func(s *Spec) { s.Cron, s.Duration = "TZ=UTC", Duration(time.Second) }, []string{"cron"}},
		{"cron by word", func(s *Spec) { s.Cron, s.Duration = "@daily", Duration(time.Second) }, []string{"cron"}},
		{"cron of no day", func(s *Spec) { s.Cron, s.Duration = "0 0 31 2 *", Duration(time.Second) }, []string{"cron"}},
		{"cron of a leap day", func(s *Spec) { s.Cron, s.Duration = "0 0 29 2 *", Duration(time.Second) }, nil},
		{"no such zone", func(s *Spec) { s.Cron, s.Duration, s.TimeZone = "0 * * * *", Duration(time.Second), "Mars/Base" }, []string{"time_zone"}},
		{"zone as a path", func(s *Spec) { s.Cron, s.Duration, s.TimeZone = "0 * * * *", Duration(time.Second), "../../etc/passwd" }, []string{"time_zone"}},
		{"the server's zone", func(s *Spec) { s.Cron, s.Duration, s.TimeZone = "0 * * * *", Duration(time.Second), "Local" }, []string{"time_zone"}},
		{"zone without cron", func(s *Spec) { s.TimeZone = "UTC" }, []string{"time_zone"}},
		{"start long ago", func(s *Spec) { s.Start = time.Unix(-1e10, 0) }, []string{"start"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			spec := good()
			row.change(&spec)
			var fields []string
			problems := spec.Validate()
			for _, p := range problems {
				fields = append(fields, p.Field)
			}
			slices.Sort(fields)
			slices.Sort(row.fields)
			if !slices.Equal(fields, row.fields) {
				t.Errorf("got %v, want problems with %q", problems, row.fields)
			}
		})
	}
}

func TestCompleteDoesNotChangeTheSpec(t *testing.T) {
	spec := good()
	spec.Modules = []string{"loss", "delay"}
	done := spec.Complete()
	if spec.Modules[0] != "loss" || spec.Encoding != "" {
		t.Errorf("changed: %+v", spec)
	}
	if strings.Join(done.Modules, ",") != "delay,loss" || done.Encoding != wire.DefaultEncodings().String() || done.Lease != defaultDuration("lease") || done.TimeZone != "" {
		t.Errorf("completed to %+v", done)
	}
}
