package session

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pillion.dev/wire"
)

// Problem is a fault of a specification, at one of its fields.
type Problem struct {
	// Field by its name in YAML and JSON, such as filters[1].
	Field   string `json:"field"`
	Message string `json:"message"`
}

// String is the problem in one line.
func (p Problem) String() string { return p.Field + ": " + p.Message }

// Bounds of what one specification may hold.
const (
	selectorsMax = 1000
	hostsMax     = 1000
	durationMax  = Duration(10 * 366 * 24 * time.Hour)
)

// problems gathers what is wrong.
type problems []Problem

func (p *problems) add(field, format string, a ...any) {
	*p = append(*p, Problem{field, fmt.Sprintf(format, a...)})
}

// Validate finds everything that is wrong with a specification, completed or not.
// It knows no agents, see Resolve.
func (s Spec) Validate() []Problem {
	s = s.Complete()
	var p problems
	if !ValidName(s.Name) {
		p.add("name", "%q cannot be a session's name: %s", s.Name, nameRule)
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
			p.add(field, "%q cannot be an agent's name: %s", agent, nameRule)
		}
		p.sampling(field, s.SamplingFor[agent])
	}
	p.rows(s)
	p.hosts("device", len(s.Device))
	for _, agent := range slices.Sorted(maps.Keys(s.Device)) {
		field := "device[" + agent + "]"
		if !ValidName(agent) {
			p.add(field, "%q cannot be an agent's name: %s", agent, nameRule)
		}
		if d := s.Device[agent]; !devicePattern.MatchString(d) || d == "." || d == ".." {
			p.add(field, "%q cannot be an interface's name", d)
		}
	}
	p.within("lease", s.Lease, Duration(2*time.Second), Duration(5*time.Minute))
	if s.Trace >= 0 && s.Trace < Duration(5*time.Second) {
		p.add("trace", "%v is too often; trace at most every 5s, or never with a negative time", s.Trace)
	}
	p.schedule(s)
	return p
}

func (p *problems) within(field string, d, least, most Duration) {
	if d < least || d > most {
		p.add(field, "%v is not from %v to %v", d, least, most)
	}
}

func (p *problems) hosts(field string, n int) {
	if n > hostsMax {
		p.add(field, "%d agents, at most %d", n, hostsMax)
	}
}

func (p *problems) selectors(field string, selectors []string) {
	if len(selectors) == 0 {
		p.add(field, "name at least one agent or label, or * for all agents")
	}
	if len(selectors) > selectorsMax {
		p.add(field, "%d selectors, at most %d", len(selectors), selectorsMax)
		return
	}
	for i, text := range selectors {
		at := fmt.Sprintf("%s[%d]", field, i)
		if key, value, _ := strings.Cut(text, "="); text != "*" && !ValidLabel(key, value) {
			p.add(at, "%q is neither an agent's name nor a label (key=value, or key) nor *", text)
		}
		if slices.Contains(selectors[:i], text) {
			p.add(at, "%q is there twice", text)
		}
	}
}

// marking checks modules, encoding and family.
func (p *problems) marking(s Spec) {
	for i, name := range s.Modules {
		at := fmt.Sprintf("modules[%d]", i)
		if name != wire.Delay.String() && name != wire.Loss.String() {
			p.add(at, "there is no module %q; there are delay and loss", name)
		}
		if slices.Contains(s.Modules[:i], name) {
			p.add(at, "%q is there twice", name)
		}
	}
	encoding, err := wire.ParseEncoding(s.Encoding)
	if err != nil {
		p.add("encoding", "unknown encoding %q; valid: %s", s.Encoding, wire.EncodingNames())
	}
	if !slices.Contains([]string{IPv4, IPv6, AnyFamily}, s.Family) {
		p.add("family", "there is no family %q; there are ipv4, ipv6 and any", s.Family)
	}
	if s.Family == IPv4 && err == nil && encoding.Version() != 4 {
		p.add("encoding", "%v leaves IPv4 packets unmarked, and the family is ipv4: nothing would be marked", encoding)
	}
}

func (p *problems) filters(s Spec) {
	if len(s.Filters) > RulesMax {
		p.add("filters", "%d filters, at most %d", len(s.Filters), RulesMax)
		return
	}
	for i, filter := range s.Filters {
		if is4, bound := filter.Family(); bound && !s.marks(is4) {
			p.add(fmt.Sprintf("filters[%d]", i), "%q can match no packet: family %s with encoding %s leaves those addresses alone",
				filter, s.Family, s.Encoding)
		}
	}
}

func (p *problems) sampling(field string, s Sampling) {
	if s.Every != 0 && s.Random != 0 {
		p.add(field+".random", "sample either by count (every) or at random, not both")
	}
	if s.MinGap < 0 || s.MinGap > Duration(time.Hour) {
		p.add(field+".min_gap", "%v is not from 0s to 1h", s.MinGap)
	}
}

// rows checks interval and granularity.
func (p *problems) rows(s Spec) {
	p.within("interval", s.Interval, Duration(100*time.Millisecond), Duration(time.Hour))
	if !slices.Contains([]string{ByFlow, ByHostPort, ByHost}, s.Granularity) {
		p.add("granularity", "there is no granularity %q; there are flow, host-port and host", s.Granularity)
	}
}

func (p *problems) schedule(s Spec) {
	if s.Duration < 0 || s.Duration > durationMax || s.Duration > 0 && s.Duration < Duration(time.Second) {
		p.add("duration", "%v is not from 1s to ten years", s.Duration)
	}
	if y := s.Start.Year(); !s.Start.IsZero() && (y < 1970 || y > 2200) {
		p.add("start", "%s is not between the years 1970 and 2200", s.Start.Format(time.RFC3339))
	}
	if s.TimeZone != "" {
		if _, err := loadZone(s.TimeZone); err != nil {
			p.add("time_zone", "%v", err)
		}
	}
	if s.Cron == "" {
		if s.TimeZone != "" {
			p.add("time_zone", "it is for a cron line, and there is none")
		}
		return
	}
	if s.Duration == 0 {
		p.add("duration", "a cron line needs one, or the first run would never end")
	}
	line, err := parseCron(s.Cron, time.UTC)
	if err != nil {
		p.add("cron", "%v", err)
	} else if line.Next(cronReference).IsZero() {
		p.add("cron", "%q fits no time", s.Cron)
	}
}
