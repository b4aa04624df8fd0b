package experiment

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The roles of hosts in a session, which a pin can name.
const (
	RoleSource      = "source"
	RoleDestination = "destination"
)

// checker collects the mistakes of a file.
type checker struct {
	spec     *Spec
	mistakes []Mistake
}

func (c *checker) report(field, format string, values ...any) {
	c.mistakes = append(c.mistakes, Mistake{field, fmt.Errorf(format, values...)})
}

// isName accepts names that can be part of a column, of a path and of a substitution.
func isName(text string) bool {
	if text == "" || len(text) > 48 {
		return false
	}
	for i, r := range text {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || !(r >= '0' && r <= '9' || r == '_' || r == '-')) {
			return false
		}
	}
	return true
}

// Column is the name of a factor's or measure's column in a stream: lowercase, without
// hyphens.
func Column(kind, name string) string {
	return kind + "_" + strings.ToLower(strings.ReplaceAll(name, "-", "_"))
}

// checkColumns refuses names that would share a column.
func (c *checker) checkColumns(field string, names []string) {
	taken := map[string]string{}
	for _, name := range names {
		column := Column(strings.TrimSuffix(field, "s"), name)
		if other, is := taken[column]; is && other != name {
			c.report(field+"."+name, "has the column %s in streams, as %s has; rename one of them", column, other)
		}
		taken[column] = name
	}
}

func (c *checker) check() {
	s := c.spec
	if !isName(s.Experiment) || strings.ToLower(s.Experiment) != s.Experiment {
		c.report("experiment", "%q is not a name: lowercase letters, digits and hyphens, at most 48", s.Experiment)
	}
	c.checkFactors()
	c.checkSetup()
	c.checkTreatments()
	c.checkRun()
	c.checkMeasures()
	c.checkResponse()
	c.checkColumns("factors", c.spec.Factors.names())
	c.checkColumns("measures", c.spec.Measures.names())
	c.checkDesign()
	c.checkStop()
	if len(c.mistakes) == 0 {
		c.checkCells()
	}
}

func (c *checker) checkFactors() {
	s := c.spec
	if len(s.Factors) == 0 {
		c.report("factors", "an experiment needs at least one factor")
	}
	cells := 1
	for i, f := range s.Factors {
		field := "factors." + f.Name
		switch {
		case !isName(f.Name):
			c.report("factors", "%q is not a name: a letter, then letters, digits, _ and -", f.Name)
		case slices.Contains(ownNames, f.Name):
			c.report(field, "%q is a name of the runner's own; use another", f.Name)
		case s.Factors.find(f.Name) != i:
			c.report(field, "is given twice")
		}
		if len(f.Levels) == 0 {
			c.report(field, "a factor needs at least one level")
		}
		seen := map[string]bool{}
		for _, l := range f.Levels {
			if l.Name == "" || strings.ContainsAny(l.Name, " ,=\t\n") {
				c.report(field, "%q is not a level: spaces, commas and = are not allowed", l.Name)
			}
			if seen[l.Name] {
				c.report(field, "level %s is given twice", l.Name)
			}
			seen[l.Name] = true
			for name := range l.Parameters {
				if !isName(name) {
					c.report(field, "level %s: %q is not a name of a parameter", l.Name, name)
				}
			}
		}
		if cells = cells * max(1, len(f.Levels)); cells > mostCells {
			c.report("factors", "more than %d cells", mostCells)
			return
		}
	}
	for i, w := range s.Exclude {
		if len(w) == 0 {
			c.report(fmt.Sprintf("exclude[%d]", i), "excludes every cell")
		}
		if err := w.check(s.Factors); err != nil {
			c.report(fmt.Sprintf("exclude[%d]", i), "%w", err)
		}
	}
}

func (c *checker) checkSetup() {
	s := c.spec.Setup
	if s == nil {
		return
	}
	if strings.TrimSpace(s.Start) == "" {
		c.report("setup.start", "is required")
	}
	if s.Timeout < 0 || time.Duration(s.Timeout) > longest {
		c.report("setup.timeout", "%s is not between 0 and 7d", s.Timeout)
	}
	c.checkHost("setup.on", s.On)
	for name, text := range map[string]string{"start": s.Start, "stop": s.Stop} {
		if _, err := c.spec.SetupValues().Replace(text); err != nil {
			c.report("setup."+name, "%w", err)
		}
	}
}

func (c *checker) checkTreatments() {
	s := c.spec
	for _, factor := range slices.Sorted(maps.Keys(s.Treatments)) {
		i := s.Factors.find(factor)
		if i < 0 {
			c.report("treatments."+factor, "no factor %q; the factors are %s", factor, strings.Join(s.Factors.names(), ", "))
			continue
		}
		for _, level := range slices.Sorted(maps.Keys(s.Treatments[factor])) {
			field := "treatments." + factor + "." + level
			if _, ok := s.Factors[i].level(level); !ok {
				c.report(field, "factor %s has no level %q; it has %s", factor, level, strings.Join(s.Factors[i].names(), ", "))
			}
			c.checkTreatment(field, s.Treatments[factor][level])
		}
	}
}

func (c *checker) checkTreatment(field string, t Treatment) {
	if t.Session != nil && t.Command != "" {
		c.report(field, "has a session and a command; give the command to a factor of its own")
	}
	if t.Ready != "" && t.Command == "" {
		c.report(field+".ready", "there is no command that could print it")
	}
	if t.Session != nil && c.spec.Lab == "" && len(c.spec.Hosts) == 0 {
		c.report(field+".session", "needs hosts: a lab, or hosts with agents or ssh")
	}
	if t.Expect != nil && t.Expect.Bare && c.spec.Lab == "" && len(c.spec.Hosts) == 0 {
		c.report(field+".expect", "bare needs hosts: a lab, or hosts with ssh")
	}
	c.checkHost(field+".on", t.On)
}

func (c *checker) checkHost(field, name string) {
	host, known := c.spec.Hosts[name]
	switch {
	case name == "" || c.spec.Lab != "":
	case !known:
		c.report(field, "no host %q under hosts", name)
	case host.SSH == "" && !host.Local && !strings.HasPrefix(field, "environment"):
		c.report(field, "commands cannot run on host %q: it has no ssh and is not local", name)
	}
}

func (c *checker) checkRun() {
	r := c.spec.Run
	if strings.TrimSpace(r.Command) == "" {
		c.report("run.command", "is required")
	}
	switch r.Format {
	case formatJSON, formatCSV, formatIperf3:
	default:
		c.report("run.format", "%q is not one of json, csv, iperf3", r.Format)
	}
	if r.Intervals != "" && r.Format != formatJSON {
		c.report("run.intervals", "only an output in json has such a field")
	}
	for name, d := range map[string]Duration{"warmup": r.Warmup, "settle": *r.Settle, "timeout": r.Timeout, "duration": r.Duration} {
		if d < 0 || time.Duration(d) > longest {
			c.report("run."+name, "%s is not between 0 and 7d", d)
		}
	}
	if r.Attempts < 1 || r.Attempts > 1000 {
		c.report("run.attempts", "%d is not between 1 and 1000", r.Attempts)
	}
	c.checkHost("run.on", r.On)
	for name, cpu := range c.spec.Environment.Pin {
		if cpu < 0 || cpu > 8191 {
			c.report("environment.pin."+name, "there is no processor %d", cpu)
		}
		if name != "run" && name != RoleSource && name != RoleDestination {
			c.checkHost("environment.pin."+name, name)
		}
	}
	if l := c.spec.Environment.Require.LoadBelow; l < 0 {
		c.report("environment.require.load_below", "%g is negative", l)
	}
	for name, h := range c.spec.Hosts {
		if h.SSH != "" && h.Local {
			c.report("hosts."+name, "is local and has ssh")
		}
		if strings.HasPrefix(h.SSH, "-") {
			c.report("hosts."+name+".ssh", "%q begins with a hyphen", h.SSH)
		}
	}
}

func (c *checker) checkMeasures() {
	s := c.spec
	if len(s.Measures) == 0 {
		c.report("measures", "an experiment needs at least one measure")
	}
	for _, m := range s.Measures {
		field := "measures." + m.Name
		if !isName(m.Name) {
			c.report("measures", "%q is not a name: a letter, then letters, digits, _ and -", m.Name)
			continue
		}
		if m.Field == "" {
			c.report(field+".field", "is required")
		}
		if m.Better != "" && m.Better != "higher" && m.Better != "lower" {
			c.report(field+".better", "%q is not higher or lower", m.Better)
		}
		if _, err := summaryOf(m.Summary); err != nil {
			c.report(field+".summary", "%w", err)
		}
		if m.Summary == "" && slices.Contains(strings.Split(m.Field, "."), "*") {
			c.report(field+".summary", "is required, since * collects a list: mean or p99, for example")
		}
	}
}

func (c *checker) checkMeasure(field, name string) {
	if _, ok := c.spec.Measures.find(name); !ok {
		c.report(field, "no measure %q; the measures are %s", name, strings.Join(c.spec.Measures.names(), ", "))
	}
}

func (c *checker) checkResponse() {
	s := c.spec
	if s.Response != nil {
		c.checkMeasure("response.log_ratio", s.Response.LogRatio)
		if len(s.Response.To) == 0 {
			c.report("response.to", "names no level, such as {mark: none}")
		} else if err := s.Response.base().check(s.Factors); err != nil {
			c.report("response.to", "%w", err)
		}
	}
	for i, t := range s.Targets {
		field := fmt.Sprintf("targets[%d]", i)
		if len(t.Where) == 0 {
			c.report(field+".where", "is required: a selection of cells, such as mark=both every=1,10")
		} else if err := t.Where.check(s.Factors); err != nil {
			c.report(field+".where", "%w", err)
		}
		if t.Measure == "" {
			c.report(field+".measure", "is required without a response")
		} else {
			c.checkMeasure(field+".measure", t.Measure)
		}
		switch t.Of {
		case OfMean:
		case OfRatio:
			if s.Response == nil {
				c.report(field+".of", "a ratio needs a response, which says what it is relative to")
			}
		default:
			c.report(field+".of", "%q is not ratio or mean", t.Of)
		}
		given := 0
		for _, bound := range []*float64{t.AtLeast, t.AtMost} {
			if bound != nil {
				given++
				if t.Of == OfRatio && !(*bound > 0) {
					c.report(field, "a ratio of %g is not positive", *bound)
				}
			}
		}
		if t.Within != nil {
			given++
			if t.Of != OfRatio {
				c.report(field+".within", "needs a response, which says what is to be equal, and a ratio to it")
			}
		}
		if given != 1 {
			c.report(field, "give one of at_least, at_most and within")
		}
	}
}

func (c *checker) checkDesign() {
	if o := c.spec.Design.Order; o != "random" {
		c.report("design.order", "%q: only random is supported, because drift misleads a fixed order and a periodic disturbance a rotation", o)
	}
	if b := c.spec.Design.Blocks; b != "complete" {
		c.report("design.blocks", "%q: only complete is supported", b)
	}
}

func (c *checker) checkStop() {
	s := c.spec
	if s.Stop.Budget < 0 {
		c.report("stop.budget", "%s is negative", s.Stop.Budget)
	}
	if s.Stop.Blocks != 0 {
		if s.Stop.Blocks < 1 || s.Stop.Blocks > 100000 {
			c.report("stop.blocks", "%d is not between 1 and 100000", s.Stop.Blocks)
		}
		if s.Stop.Effect != "" || s.Stop.HalfWidth != 0 || s.Stop.Pilot != 0 || s.Stop.Most != 0 {
			c.report("stop", "give either a number of blocks, or effect and half_width")
		}
		return
	}
	if s.Stop.Effect == "" || s.Stop.HalfWidth == 0 {
		c.report("stop", "give effect and half_width, such as {effect: mark, half_width: 2%%}, or a number of blocks")
		return
	}
	i := s.Factors.find(s.Stop.Effect)
	switch {
	case i < 0:
		c.report("stop.effect", "no factor %q; the factors are %s", s.Stop.Effect, strings.Join(s.Factors.names(), ", "))
	case s.Response == nil:
		c.report("stop.effect", "needs a response, whose width it is")
	case s.Response.To[s.Stop.Effect] == "":
		c.report("stop.effect", "the response is not relative to a level of %s", s.Stop.Effect)
	case len(s.Factors[i].Levels) < 2:
		c.report("stop.effect", "factor %s has one level only", s.Stop.Effect)
	}
	if s.Stop.Pilot < 3 || s.Stop.Pilot > s.Stop.Most {
		c.report("stop.pilot", "%d is not between 3 and most, %d", s.Stop.Pilot, s.Stop.Most)
	}
	if s.Stop.Most > 100000 {
		c.report("stop.most", "%d is more than 100000", s.Stop.Most)
	}
}
