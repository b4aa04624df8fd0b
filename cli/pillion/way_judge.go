package pillion

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"pillion.dev/api/pillionv1"
	"pillion.dev/internal/quantity"
	"pillion.dev/session"
)

const (
	levelOK, levelWarning, levelError = "ok", "warning", "error"

	stateConnected = "connected"
)

// clocksApart is by how much clocks may differ for marks with tags to be accepted.
const clocksApart = 17 * time.Second

// report collects the findings about one end, one direction or both ends.
type report struct {
	where string
	found []finding
}

func (r *report) add(name, level, found, advice string) {
	r.found = append(r.found, finding{r.where, &pillionv1.Check{Name: name, Level: level, Found: found, Advice: advice}})
}

// findings judges a way: both ends, their clocks, and both directions.
func (w *way) findings(now time.Time) []finding {
	var all []finding
	for i := range w.ends {
		r := &report{where: w.ends[i].Name}
		w.ends[i].judge(r, w.server, w.ends[1-i].Name, now)
		all = append(all, r.found...)
	}
	r := &report{where: w.ends[0].Name + " and " + w.ends[1].Name}
	w.judgeClocks(r)
	all = append(all, r.found...)
	for i, d := range []*direction{&w.there, &w.back} {
		r := &report{where: d.from + " > " + d.to}
		w.ends[i].judgeRoute(r, d.to)
		d.judgeSession(r)
		d.judgeMarks(r, now)
		d.judgeRoom(r)
		d.judgePaths(r)
		all = append(all, r.found...)
	}
	return all
}

// judge reports what concerns one end alone.
func (e *end) judge(r *report, server, peer string, now time.Time) {
	switch {
	case e.Site != "":
		r.add("agent", levelError, "aggregator of the site "+e.Site+", which runs no sessions", "name an agent of the site: "+e.Site+"/AGENT")
	case e.State == stateConnected:
		r.add("agent", levelOK, "connected, kernel "+e.Kernel, "")
	case e.State == "revoked":
		r.add("agent", levelError, "revoked", "pillion agents delete "+e.Name+", then join again with a join token")
	default:
		r.add("agent", levelError, e.State+", last seen "+lastSeen(e.Agent, now), startAdvice+"; permit TCP to ports 8470 and 8471 of the server")
	}
	switch {
	case e.Version == "" || server == "":
		r.add("version", levelWarning, cmp.Or(e.Version, "unknown"), "compare with pillion version once the agent is connected")
	case e.Version != server:
		r.add("version", levelWarning, e.Version+", the server has "+server, "update the older one; the checks of sessions name what an older agent cannot do")
	default:
		r.add("version", levelOK, e.Version+", as the server", "")
	}
	for _, c := range e.AddressConflicts {
		r.add("address "+c.Address, levelWarning, "agent "+c.Agent+" has it, so it is not measured here", "give each host addresses of its own, or approve it: pillion agents approve "+e.Name+" "+c.Address)
	}
	if s := e.Spool; s.GetDroppedRows() > 0 || s.GetDroppedBatches() > 0 || s.GetRejectedBatches() > 0 {
		r.add("spool", levelWarning, fmt.Sprintf("since the agent started %s were dropped, and %s rejected", quantity.Count(s.DroppedRows, "row"), countBatches(s.RejectedBatches)),
			"restore the connection to the server, or raise spool_bytes; pillion events says why batches are rejected")
	}
	e.judgeHost(r, peer)
}

func countBatches(n int64) string {
	if n == 1 {
		return "1 batch"
	}
	return fmt.Sprintf("%d batches", n)
}

// lastSeen is how long ago an agent reported.
func lastSeen(g *pillionv1.Agent, now time.Time) string {
	if g.Seen == nil {
		return "before the server started"
	}
	return quantity.FormatDuration(now.Sub(g.Seen.AsTime()).Round(time.Second)) + " ago"
}

// judgeHost counts the checks of a host that are ok, without those of the route to the peer, and repeats the others.
func (e *end) judgeHost(r *report, peer string) {
	passed := 0
	var rest []*pillionv1.Check
	for _, k := range e.checks {
		switch {
		case strings.HasPrefix(k.Name, routeCheck(peer)):
		case k.Level == levelOK:
			passed++
		default:
			rest = append(rest, k)
		}
	}
	if passed > 0 {
		r.add("host", levelOK, quantity.Count(passed, "check")+" passed", "")
	}
	for _, k := range rest {
		r.add(k.Name, k.Level, k.Found, k.Advice)
	}
}

// routeCheck begins the names of an agent's checks of the route to a peer.
func routeCheck(peer string) string { return "peer " + peer }

// judgeRoute repeats the checks of the route to the other end.
func (e *end) judgeRoute(r *report, peer string) {
	for _, k := range e.checks {
		if address, is := strings.CutPrefix(k.Name, routeCheck(peer)); is {
			r.add(strings.TrimSpace("route "+strings.TrimSpace(address)), k.Level, k.Found, k.Advice)
		}
	}
}

// judgeClocks compares the offset that was measured between two clocks with what their daemons say.
func (w *way) judgeClocks(r *report) {
	const advice = "apt install chrony on both hosts, and compare with chronyc tracking; loss and reordering do not depend on clocks up to 17 s"
	var unsynchronised []string
	claimed := int64(0)
	for _, e := range w.ends {
		if !e.Clock.GetSynchronised() {
			unsynchronised = append(unsynchronised, e.Name)
		}
		claimed += e.Clock.GetMaxErrorNs()
	}
	level, found := levelOK, "both synchronised, error bound of both together "+quantity.FormatNanos(claimed)
	if len(unsynchronised) > 0 {
		level, found = levelWarning, "not synchronised: "+strings.Join(unsynchronised, " and ")
	}
	if c := w.clock; c != nil && !math.IsNaN(c.OffsetBoundNs) {
		found += fmt.Sprintf("; offset of %s from %s %s ± %s by the minimum delays of both directions", c.Destination, c.Source,
			quantity.FormatNanos(int64(c.OffsetNs)), quantity.FormatNanos(int64(c.OffsetBoundNs)))
		switch off := math.Abs(c.OffsetNs) - c.OffsetBoundNs; {
		case off > float64(clocksApart):
			r.add("clocks", levelError, string(session.ClockApart)+found+": "+session.ClocksMatter, advice)
			return
		case level == levelOK && off > float64(claimed):
			r.add("clocks", levelWarning, found+": the clocks differ by more than their daemons say", "use a common time server; a path with unequal delays also looks so; --clock corrected subtracts the offset")
			return
		}
	} else if c != nil {
		found += "; only one direction was measured, so that the offset is unknown"
	}
	r.add("clocks", level, found, map[string]string{levelWarning: advice}[level])
}

// judgeSession reports whether a session measures the direction, or could.
func (d *direction) judgeSession(r *report) {
	if s := d.session; s != nil {
		level, advice := levelOK, ""
		found := "session " + s.Spec.GetName() + " measures it"
		if s.State == "degraded" {
			level, found = levelWarning, "session "+s.Spec.GetName()+" is degraded: "+s.Reason
			advice = "pillion session show " + s.Spec.GetName()
		}
		r.add("session", level, found, advice)
		return
	}
	for _, p := range d.plan.GetProblems() {
		r.add("session", levelError, "not possible: "+p.Field+": "+p.Message, "correct what the problem names; docs/reference/session.md lists what cannot be combined")
	}
	for _, warning := range d.plan.GetWarnings() {
		r.add("session", levelWarning, warning, "pillion session create --from "+d.from+" --to "+d.to+" --dry-run shows the plan")
	}
	if len(d.plan.GetProblems()) == 0 && len(d.plan.GetWarnings()) == 0 {
		r.add("session", levelOK, "possible; none measures it", "")
	}
}

// task is that of one end of the session; nil: it has none.
func (d *direction) task(agent, role string) *pillionv1.Task {
	for _, t := range d.session.GetTasks() {
		if t.Agent == agent && t.Role == role {
			return t
		}
	}
	return nil
}

// judgeMarks reports whether marks of the session arrive.
func (d *direction) judgeMarks(r *report, now time.Time) {
	if d.session == nil {
		r.add("marks", levelWarning, "not tested: no session measures this direction", "pillion doctor "+d.from+" "+d.to+" --measure")
		return
	}
	show := "pillion session show " + d.session.Spec.GetName()
	for _, role := range []string{"destination", "source"} {
		agent := map[string]string{"destination": d.to, "source": d.from}[role]
		switch t := d.task(agent, role); {
		case t == nil:
			r.add(role, levelError, agent+" has not reported the task yet", show)
		case !t.Running:
			r.add(role, levelError, agent+": "+cmp.Or(t.Error, t.Limit, "not running"), show+"; what a host refuses is in its policy")
		case t.Limit != "":
			r.add(role, levelWarning, agent+": "+t.Limit, strings.TrimPrefix(session.Advice(t.Limit)+"; "+show, "; "))
		}
	}
	within := "in " + quantity.FormatDuration(d.period.Round(time.Second))
	counters := d.task(d.from, "source").GetCounters()
	switch {
	case d.received > 0:
		found := fmt.Sprintf("%s arrived %s, %d lost", quantity.Count(d.received, "marked packet"), within, d.lost)
		r.add("marks", levelOK, found, "")
	case d.period < countLeast && counters["paths_failed"]+counters["paths_altered"]+counters["paths_checksum"] == 0:
		age := now.Sub(d.session.Started.AsTime()).Round(time.Second)
		r.add("marks", levelWarning, fmt.Sprintf("not judged yet: session %s has run for only %s, and counts are complete after %s",
			d.session.Spec.GetName(), quantity.FormatDuration(age), quantity.FormatDuration(settleTime)),
			"run pillion doctor again in "+quantity.FormatDuration(max(time.Second, settleTime+countLeast-age)))
	case d.sent > 0:
		r.add("marks", levelError, fmt.Sprintf("%s left %s, and no mark was read: they are lost, or the marks are removed%s", quantity.Count(d.sent, "marked packet"), within, d.between()),
			"permit what the encoding needs there in firewalls and middleboxes, or use another one (--encoding); docs/howto/troubleshooting.md")
	case counters["paths_failed"]+counters["paths_altered"]+counters["paths_checksum"] > 0:
		r.add("marks", levelError, "path validation found that marked packets do not arrive, so none is marked"+d.between(),
			"permit what the encoding needs there in firewalls and middleboxes, or use another one (--encoding); "+show)
	default:
		found := "no packet was marked " + within
		if reason, n := mostSkipped(counters); n > 0 {
			found += fmt.Sprintf("; most often because of %s (%d since the start)", reason, n)
		}
		r.add("marks", levelWarning, found, "send traffic that the session selects; docs/howto/troubleshooting.md explains the counters of "+show)
	}
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

// between names the routers between the ends.
func (d *direction) between() string {
	var names []string
	for _, p := range d.paths {
		for _, h := range p.Hops {
			if h.Address != "" && h.Address != p.Address && !slices.Contains(names, h.Address) {
				names = append(names, h.Address)
			}
		}
	}
	if len(names) == 0 {
		return " between " + d.from + " and " + d.to
	}
	return " between " + d.from + " and " + d.to + ", by way of " + strings.Join(names, ", ")
}

// judgeRoom reports whether packets have room for marks.
func (d *direction) judgeRoom(r *report) {
	if d.session == nil {
		var sizes []string
		for _, cost := range d.plan.GetCosts() {
			if strings.Contains(cost, "bytes in each marked") {
				sizes = append(sizes, cost)
			}
		}
		if len(sizes) > 0 {
			r.add("room", levelOK, strings.Join(sizes, "; ")+": packets that leave less below the path MTU stay unmarked", "")
		}
		return
	}
	counters := d.task(d.from, "source").GetCounters()
	large, marked := counters["skipped_mtu"], counters["marked"]
	if large == 0 {
		r.add("room", levelOK, "each packet of the session had room for its mark", "")
		return
	}
	r.add("room", levelWarning, fmt.Sprintf(string(session.NoRoom)+"%s of %d exceed the MTU with a mark, and stay unmarked", quantity.Count(large, "packet"), large+marked),
		session.Advice(string(session.NoRoom)))
}

// judgePaths reports the traced paths.
func (d *direction) judgePaths(r *report) {
	if d.untraced != nil {
		r.add("path", levelWarning, d.untraced.Error(), "pillion topology trace "+d.from+" "+d.to)
	}
	for _, p := range d.paths {
		var hops []string
		for _, h := range p.Hops {
			hops = append(hops, cmp.Or(h.Address, "*"))
		}
		found := fmt.Sprintf("%s: %s", quantity.Count(len(hops), "hop"), strings.Join(hops, ", "))
		if n := len(hops); n > 0 && p.Reached {
			found += ", RTT " + quantity.FormatNanos(p.Hops[n-1].RttNs)
		}
		if p.Reached {
			r.add("path "+p.Address, levelOK, found, "")
			continue
		}
		r.add("path "+p.Address, levelWarning, "not traced to the end, "+found, "permit UDP ports from 33434 and ICMP time exceeded, or trace with --protocol icmp: pillion topology trace "+d.from+" "+d.to)
	}
}
