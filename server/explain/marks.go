package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pillion.dev/internal/quantity"
	"pillion.dev/server/control"
	"pillion.dev/session"
)

const (
	// settleTime is how long rows may take from hosts to the archive.
	settleTime = 10 * time.Second
	// countTime is how long packets of a session are counted; in less than countMin, that there were none says nothing: paths may
	// still be validated.
	countTime = time.Minute
	countMin  = 10 * time.Second
)

// Counts are packets of a session in one direction.
type Counts struct {
	// Sent are the numbered packets that the source says it sent; Received and Lost are what the destination counted.
	Sent, Received, Lost uint64
	// Period is how long they were counted. In one that is Young, that there were none says nothing.
	Period time.Duration
	Young  bool
}

// Count sets the period in which packets of a session that has run since a time are to be counted: the last one that is complete,
// or, of a session that has just begun, the whole.
func (c *Counts) Count(started, now time.Time) (from, until time.Time) {
	from, until = now.Add(-countTime-settleTime), now.Add(-settleTime)
	if started.After(from) {
		from = started
	}
	if c.Young = until.Sub(from) < countMin; c.Young {
		from, until = started, now
	}
	c.Period = until.Sub(from)
	return from, until
}

// judgeSession reports whether a session measures the direction, or could.
func (e *Evidence) judgeSession(r *report) {
	create := "pillion session create --from " + e.Source.Name + " --to " + e.Destination.Name
	s := e.Session
	if s == nil {
		e.judgePlan(r, create)
		return
	}
	one := s.Resting()
	switch name := s.Spec.Name; {
	case s.State == control.Degraded:
		one.Check = session.Check{Name: session.CheckSession, Level: session.LevelWarning, Found: "session " + name + " measures it, and is degraded", Advice: "pillion session show " + name}
	case e.Measured():
		one.Check, one.Since = session.Check{Name: session.CheckSession, Level: session.LevelOK, Found: "session " + name + " measures it"}, s.Started
	}
	one.Where = r.where
	r.found = append(r.found, one)
}

// judgePlan reports whether a session could measure the direction.
func (e *Evidence) judgePlan(r *report, create string) {
	if e.Plan == nil {
		r.add(session.CheckSession, session.LevelWarning, "no session measures it", "an operator can create one")
		return
	}
	for _, p := range e.Plan.Problems {
		r.add(session.CheckSession, session.LevelError, "not possible: "+p.Field+": "+p.Message, "correct what the problem names; docs/reference/session.md lists what cannot be combined")
	}
	for _, warning := range e.Plan.Warnings {
		r.add(session.CheckSession, session.LevelWarning, warning, create+" --dry-run shows the plan")
	}
	if len(e.Plan.Problems) == 0 {
		r.add(session.CheckSession, session.LevelWarning, "no session measures it; one is possible", create+"; or for a test: pillion doctor "+e.Source.Name+" "+e.Destination.Name+" --measure")
	}
}

// judgeTasks repeats the reasons of the session that concern the direction.
func (e *Evidence) judgeTasks(r *report) {
	for _, one := range e.Session.Reasons {
		source := one.Agent == e.Source.Name && one.Name != "destination"
		destination := one.Agent == e.Destination.Name && slices.Contains([]string{"destination", "agent", "address", "tasks"}, one.Name)
		away := one.Name == "agent" && (source && e.Source.State != control.Connected || destination && e.Destination.State != control.Connected)
		if (source || destination) && !away { // that it is away is said of the agent
			one.Where = r.where
			r.found = append(r.found, one)
		}
	}
}

// counters returns the sums of the counters of all tasks of the source.
func (e *Evidence) counters() map[string]uint64 {
	sum := map[string]uint64{}
	if e.Session == nil {
		return sum
	}
	for _, t := range e.Session.Tasks {
		if t.Agent == e.Source.Name && t.Role == "source" {
			for name, n := range t.Counters {
				sum[name] += n
			}
		}
	}
	return sum
}

// judgeMarks reports whether marks of the session arrive.
func (e *Evidence) judgeMarks(r *report) {
	const use = "permit what the encoding needs there in firewalls and middleboxes, or use another one (--encoding); "
	name := e.Session.Spec.Name
	within, between := "in "+quantity.FormatDuration(e.Period.Round(time.Second)), " between "+e.Source.Name+" and "+e.Destination.Name
	counters := e.counters()
	failed := counters["paths_failed"]+counters["paths_altered"]+counters["paths_checksum"] > 0
	switch {
	case e.Received > 0:
		r.add(session.CheckMarks, session.LevelOK, fmt.Sprintf("%s arrived %s, %d lost", quantity.Count(e.Received, "marked packet"), within, e.Lost), "")
	case e.Young && !failed:
		age := e.Now.Sub(e.Session.Started).Round(time.Second)
		r.add(session.CheckMarks, session.LevelWarning, fmt.Sprintf("not judged yet: session %s has run for only %s, and counts are complete after %s",
			name, quantity.FormatDuration(age), quantity.FormatDuration(settleTime)),
			"run pillion doctor again in "+quantity.FormatDuration(max(time.Second, settleTime+countMin-age)))
	case e.Sent > 0:
		r.add(session.CheckMarks, session.LevelError, fmt.Sprintf("%s left %s, and no mark was read: they are lost, or the marks are removed%s", quantity.Count(e.Sent, "marked packet"), within, between),
			use+"docs/howto/troubleshooting.md")
	case failed:
		r.add(session.CheckMarks, session.LevelError, "path validation found that marked packets do not arrive, so none is marked"+between, use+"pillion session show "+name)
	case e.Limited:
		r.add(session.CheckMarks, session.LevelWarning, "no marked packet arrived "+within, "send traffic that the session selects")
	default:
		found := "no packet was marked " + within
		if reason, n := mostSkipped(counters); n > 0 {
			found += fmt.Sprintf("; most often because of %s (%d since the start)", reason, n)
		}
		filters := strings.Join(e.filters(), "; ")
		if filters != "" {
			filters = " (" + filters + ")"
		}
		r.add(session.CheckMarks, session.LevelWarning, found, "send traffic that the session selects"+filters+": it sends none itself; docs/howto/troubleshooting.md explains the counters of pillion session show "+name)
	}
}

func (e *Evidence) filters() (texts []string) {
	for _, filter := range e.Session.Spec.Filters {
		texts = append(texts, filter.String())
	}
	return texts
}

// mostSkipped is the reason why most packets were not marked.
func mostSkipped(counters map[string]uint64) (reason string, n uint64) {
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		if strings.HasPrefix(name, "skipped_") && counters[name] > n {
			reason, n = name, counters[name]
		}
	}
	return reason, n
}

// judgeRoom reports whether packets have room for marks, unless a limit of the source says so.
func (e *Evidence) judgeRoom(r *report) {
	const name = "room"
	limited := slices.ContainsFunc(r.found, func(one session.Reason) bool { return strings.Contains(one.Found, string(session.NoRoom)) })
	switch counters := e.counters(); {
	case limited || e.Limited:
	case e.Measured() && counters["skipped_mtu"] > 0:
		large := counters["skipped_mtu"]
		r.add(name, session.LevelWarning, fmt.Sprintf(string(session.NoRoom)+"%s of %d exceed the MTU with a mark, and stay unmarked", quantity.Count(large, "packet"), large+counters["marked"]),
			session.Advice(string(session.NoRoom)))
	case e.Measured():
		r.add(name, session.LevelOK, "each packet of the session had room for its mark", "")
	case e.Plan != nil:
		sizes := slices.DeleteFunc(slices.Clone(e.Plan.Costs), func(cost string) bool { return !strings.Contains(cost, "bytes in each marked") })
		if len(sizes) > 0 {
			r.add(name, session.LevelOK, strings.Join(sizes, "; ")+": packets that leave less below the path MTU stay unmarked", "")
		}
	}
}
