package session

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pillion.dev/measure/module"
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
	p.settings(s)
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
	p.flows(s)
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
	p.transit(s)
	p.waypoints(s)
	if s.Trace >= 0 {
		p.setting("trace", s.Trace.String())
	}
	p.hops(s)
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
	p.modules(s)
	if _, err := wire.ParseEncodings(s.Encoding); err != nil {
		p.add("encoding", "%v; valid: %s", err, wire.EncodingNames())
	}
	p.carries(s)
	p.sparse(s)
	p.blocks(s)
	if s.Family == IPv4 && !s.encodes(wire.ClassIPv4) {
		p.add("encoding", "%s does not mark IPv4 packets, but the family is ipv4: nothing would be marked", s.Encoding)
	}
}

// carries checks that the encodings carry what the modules need.
func (p *problems) carries(s Spec) {
	list, err := wire.ParseEncodings(s.Encoding)
	if err != nil {
		return // a problem of its own
	}
	set, _ := Marked(s.Modules)
	for _, need := range []struct {
		module wire.Module
		what   string
	}{{wire.Delay, "one-way delay"}, {wire.Loss, "loss"}} {
		if set&need.module != 0 && !slices.ContainsFunc(list, func(e wire.Encoding) bool { return e.Carries().Allows(need.module) }) {
			p.add("encoding", "%s carries no %s, which the module %v requires: add native to the list", list, need.what, need.module)
		}
	}
	_, others := Marked(s.Modules)
	for _, name := range others {
		if d := module.Find(name); d != nil && d.Built() {
			p.carrier(s, d, list)
		}
	}
	for _, e := range list {
		if s.SparseMarks && e.Carries()&wire.CarriesSparse == 0 {
			p.add("sparse_marks", "%v marks cannot be sparse: remove %v from the encodings", e, e)
		}
	}
}

// carrier checks that the encodings carry what a module needs, in packets of the family.
func (p *problems) carrier(s Spec, d *module.Descriptor, list wire.EncodingList) {
	able := slices.DeleteFunc(wire.EncodingList(wire.Encodings()), func(e wire.Encoding) bool {
		return !slices.Contains(strings.Split(e.Carries().String(), ","), d.Carrier)
	})
	has := func(e wire.Encoding) bool { return slices.Contains(able, e) }
	four := func(e wire.Encoding) bool { return has(e) && e.Applies(wire.ClassIPv4) }
	switch {
	case !slices.ContainsFunc(list, has):
		p.add("encoding", "marks in %s carry no %s, which the module %s requires: add %s to the list", list, d.Carrier, d.Name, able)
	case s.Family == IPv4 && !slices.ContainsFunc(list, four):
		p.add("family", "the module %s requires marks in %s, which are in IPv6 packets: set the family to ipv6 or any", d.Name, able)
	}
}

// sparse checks what sparse marks do not go with.
func (p *problems) sparse(s Spec) {
	if !s.SparseMarks {
		return
	}
	if set, _ := Marked(s.Modules); set != wire.Delay|wire.Loss {
		p.add("sparse_marks", "sparse marks require the modules delay and loss")
	}
	if s.samples() {
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

// hashSeedMax is the maximum length of Sampling.HashSeed, bytes.
const hashSeedMax = 64

func (p *problems) sampling(field string, s Sampling) {
	if s.Every != 0 && s.Random != 0 {
		p.add(field+".random", "sample either by count (every) or at random, not both")
	}
	if s.Hash != 0 && (s.Every != 0 || s.Random != 0) {
		p.add(field+".hash", "sample either by content (hash) or by count or at random, not both")
	}
	if s.HashSeed != "" && s.Hash == 0 {
		p.add(field+".hash_seed", "a seed requires sampling by content (hash)")
	}
	if len(s.HashSeed) > hashSeedMax {
		p.add(field+".hash_seed", "%d bytes, limit %d", len(s.HashSeed), hashSeedMax)
	}
	p.setting(field+".min_gap", s.MinGap.String())
}

// rows checks interval and granularity.
func (p *problems) rows(s Spec) {
	p.setting("interval", s.Interval.String())
	p.setting("granularity", s.Granularity)
}

// hops checks how paths are measured.
func (p *problems) hops(s Spec) {
	if s.Hops != HopsIOAM {
		return
	}
	if !s.marks(false) {
		p.add("hops", "routers write into marked IPv6 packets only, but family %s with encoding %s marks none: use traceroute", s.Family, s.Encoding)
	}
	if !slices.Contains(s.Modules, module.Delay.Name) {
		p.add("hops", "the first hop begins at the time of the source, which the module delay puts into marks: add delay to modules")
	}
	if s.SparseMarks {
		p.add("hops", "sparse marks cannot be combined with delays of hops: the packets that routers write into carry marks of another form")
	}
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
	line, err := parseCron(s.Cron)
	if err != nil {
		p.add("cron", "%v", err)
	} else if line.Next(cronReference).IsZero() {
		p.add("cron", "%q never matches", s.Cron)
	}
}
