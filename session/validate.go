package session

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"pillion.dev/wire"
)

// Problem is an error in a field of a specification.
type Problem struct {
	// Field by its name in YAML and JSON, such as filters[1].
	Field   string `json:"field"`
	Message string `json:"message"`
}

// String returns the problem in one line.
func (p Problem) String() string { return p.Field + ": " + p.Message }

// Limits of a specification.
const (
	selectorsMax = 1000
	hostsMax     = 1000
)

var modules = []string{wire.Delay.String(), wire.Loss.String()}

// problems collects problems.
type problems []Problem

func (p *problems) add(field, format string, a ...any) {
	*p = append(*p, Problem{field, fmt.Sprintf(format, a...)})
}

// Validate returns all problems of a specification, completed or not, that do not depend
// on the agents; for those see Resolve.
func (s Spec) Validate() []Problem {
	s = s.Complete()
	var p problems
	if !ValidName(s.Name) {
		p.add("name", "invalid session name %q: %s", s.Name, nameRule)
	}
	p.selectors("sources", s.Sources)
	p.selectors("destinations", s.Destinations)
	p.points(s)
	p.marking(s)
	p.filters(s)
	p.sampling("sampling", s.Sampling)
	p.hosts("sampling_for", len(s.SamplingFor))
	for _, agent := range slices.Sorted(maps.Keys(s.SamplingFor)) {
		field := "sampling_for[" + agent + "]"
		if !ValidName(agent) {
			p.add(field, "invalid agent name %q: %s", agent, nameRule)
		}
		p.sampling(field, s.SamplingFor[agent])
	}
	p.rows(s)
	p.hosts("device", len(s.Device))
	for _, agent := range slices.Sorted(maps.Keys(s.Device)) {
		field := "device[" + agent + "]"
		if !ValidName(agent) {
			p.add(field, "invalid agent name %q: %s", agent, nameRule)
		}
		for _, d := range strings.Split(s.Device[agent], ",") {
			if !devicePattern.MatchString(d) || d == "." || d == ".." {
				p.add(field, "invalid interface name %q", d)
			}
		}
	}
	p.setting("lease", s.Lease.String())
	if s.Trace >= 0 {
		p.setting("trace", s.Trace.String())
	}
	p.schedule(s)
	return p
}

// setting checks the value of a field against Settings.
func (p *problems) setting(field, value string) {
	if err := setting(field[strings.LastIndex(field, ".")+1:]).Check(value); err != nil {
		p.add(field, "%v", err)
	}
}

func (p *problems) hosts(field string, n int) {
	if n > hostsMax {
		p.add(field, "%d agents, limit %d", n, hostsMax)
	}
}

func (p *problems) selectors(field string, selectors []string) {
	if len(selectors) == 0 {
		p.add(field, "name at least one agent or label, or * for all agents")
	}
	if len(selectors) > selectorsMax {
		p.add(field, "%d selectors, limit %d", len(selectors), selectorsMax)
		return
	}
	for i, text := range selectors {
		at := fmt.Sprintf("%s[%d]", field, i)
		if key, value, _ := strings.Cut(text, "="); text != "*" && !ValidLabel(key, value) {
			p.add(at, "%q is not an agent name, a label (key=value or key) or *", text)
		}
		if slices.Contains(selectors[:i], text) {
			p.add(at, "duplicate %q", text)
		}
	}
}

// marking checks modules, encoding and family.
func (p *problems) marking(s Spec) {
	for i, name := range s.Modules {
		at := fmt.Sprintf("modules[%d]", i)
		if !slices.Contains(modules, name) {
			p.add(at, "unknown module %q; valid: %s", name, strings.Join(modules, ", "))
		}
		if slices.Contains(s.Modules[:i], name) {
			p.add(at, "duplicate %q", name)
		}
	}
	if _, err := wire.ParseEncodings(s.Encoding); err != nil {
		p.add("encoding", "%v; valid: %s", err, wire.EncodingNames())
	}
	p.setting("stamp_every", strconv.FormatUint(uint64(s.StampEvery), 10))
	p.setting("authentication", s.Authentication)
	p.sparse(s)
	p.setting("family", s.Family)
	if s.Family == IPv4 && !s.encodes(wire.ClassIPv4) {
		p.add("encoding", "%s does not mark IPv4 packets, but the family is ipv4: nothing would be marked", s.Encoding)
	}
}

// sparse checks what sparse marks do not go with.
func (p *problems) sparse(s Spec) {
	if !s.SparseMarks {
		return
	}
	if len(s.Modules) < 2 {
		p.add("sparse_marks", "sparse marks require the modules delay and loss")
	}
	sampled := s.samplingOf("") != Sampling{}
	for agent := range s.SamplingFor {
		sampled = sampled || s.samplingOf(agent) != Sampling{}
	}
	if sampled {
		p.add("sparse_marks", "sparse marks cannot be combined with sampling: packets that are not sampled would count as part of the flow")
	}
}

func (p *problems) filters(s Spec) {
	if len(s.Filters) > RulesMax {
		p.add("filters", "%d filters, limit %d", len(s.Filters), RulesMax)
		return
	}
	for i, filter := range s.Filters {
		if is4, bound := filter.Family(); bound && !s.marks(is4) {
			p.add(fmt.Sprintf("filters[%d]", i), "%q matches no packet: family %s with encoding %s does not mark such addresses",
				filter, s.Family, s.Encoding)
		}
	}
}

func (p *problems) sampling(field string, s Sampling) {
	if s.Every != 0 && s.Random != 0 {
		p.add(field+".random", "sample either by count (every) or at random, not both")
	}
	p.setting(field+".min_gap", s.MinGap.String())
}

// rows checks interval and granularity.
func (p *problems) rows(s Spec) {
	p.setting("interval", s.Interval.String())
	p.setting("granularity", s.Granularity)
}

func (p *problems) schedule(s Spec) {
	if s.Duration != 0 {
		p.setting("duration", s.Duration.String())
	}
	if y := s.Start.Year(); !s.Start.IsZero() && (y < 1970 || y > 2200) {
		p.add("start", "%s is outside the years 1970 to 2200", s.Start.Format(time.RFC3339))
	}
	if s.TimeZone != "" {
		if _, err := loadZone(s.TimeZone); err != nil {
			p.add("time_zone", "%v", err)
		}
	}
	if s.Cron == "" {
		if s.TimeZone != "" {
			p.add("time_zone", "applies only with a cron schedule")
		}
		return
	}
	if s.Duration == 0 {
		p.add("duration", "required with a cron schedule: otherwise the first run would never end")
	}
	line, err := parseCron(s.Cron, time.UTC)
	if err != nil {
		p.add("cron", "%v", err)
	} else if line.Next(cronReference).IsZero() {
		p.add("cron", "%q never matches", s.Cron)
	}
}
