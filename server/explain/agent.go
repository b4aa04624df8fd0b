package explain

import (
	"fmt"
	"math"
	"strings"
	"time"

	"pillion.dev/internal/quantity"
	"pillion.dev/server/control"
	"pillion.dev/session"
)

// clocksApart is by how much clocks may differ for marks with tags to be accepted.
const clocksApart = 17 * time.Second

// judgeAgent reports what concerns one end alone.
func (e *Evidence) judgeAgent(r *report, a control.Agent) {
	switch {
	case a.State == "" && e.Limited:
		return
	case a.State == "":
		r.add("agent", session.LevelError, "no agent of this name has joined", "pillion agents lists the names")
		return
	case a.Site != "":
		r.add("agent", session.LevelError, "aggregator of the site "+a.Site+", which runs no sessions", "name an agent of the site: "+a.Site+"/AGENT")
	case a.State == control.Connected:
		r.add("agent", session.LevelOK, "connected, kernel "+a.Kernel, "")
	case a.State == control.Revoked:
		r.add("agent", session.LevelError, "revoked", "pillion agents delete "+a.Name+", then join again with a join token")
	default:
		seen := "before the server started"
		if !a.Seen.IsZero() {
			seen = quantity.FormatDuration(e.Now.Sub(a.Seen).Round(time.Second)) + " ago"
		}
		r.since(a.Seen, "agent", session.LevelError, a.State+", last seen "+seen+"; its data is delivered when it reconnects", control.AdviceStart)
	}
	switch {
	case a.Version == "":
		r.add("version", session.LevelWarning, "unknown", "compare with pillion version once the agent is connected")
	case a.Version != e.Version:
		r.add("version", session.LevelWarning, a.Version+", the server has "+e.Version, "update the older one; the checks of sessions name what an older agent cannot do")
	default:
		r.add("version", session.LevelOK, a.Version+", as the server", "")
	}
	for _, c := range a.AddressConflicts {
		r.add("address "+c.Address, session.LevelWarning, "agent "+c.Agent+" has it, so it is not measured here", "give each host addresses of its own, or approve it: pillion agents approve "+a.Name+" "+c.Address)
	}
	if s := a.Spool; s.DroppedRows > 0 || s.DroppedBatches > 0 || s.Rejected > 0 {
		r.add("spool", session.LevelWarning, fmt.Sprintf("since the agent started %s were dropped, and %s rejected", quantity.Count(s.DroppedRows, "row"), quantity.Count(s.Rejected, "batch")),
			"restore the connection to the server, or raise spool_bytes; pillion events says why batches are rejected")
	}
}

// judgeClocks compares the offset that was measured between two clocks with what their daemons say.
func (e *Evidence) judgeClocks(r *report, ends []control.Agent) {
	if e.Source.State == "" || e.Destination.State == "" {
		return
	}
	const advice = "apt install chrony on both hosts, and compare with chronyc tracking; loss and reordering do not depend on clocks up to 17 s"
	var unsynchronised []string
	claimed := int64(0)
	for _, a := range ends {
		if !a.Clock.Synchronised {
			unsynchronised = append(unsynchronised, a.Name)
		}
		claimed += a.Clock.MaxErrorNs
	}
	level, found := session.LevelOK, "both synchronised, error bound of both together "+quantity.FormatNanos(claimed)
	if len(unsynchronised) > 0 {
		level, found = session.LevelWarning, "not synchronised: "+strings.Join(unsynchronised, " and ")
	}
	if c := e.Clock; c != nil && !math.IsNaN(c.OffsetBoundNs) {
		found += fmt.Sprintf("; offset of %s from %s %s ± %s by the minimum delays of both directions", c.Destination, c.Source,
			quantity.FormatNanos(int64(c.OffsetNs)), quantity.FormatNanos(int64(c.OffsetBoundNs)))
		switch off := math.Abs(c.OffsetNs) - c.OffsetBoundNs; {
		case off > float64(clocksApart):
			r.add("clocks", session.LevelError, string(session.ClockApart)+found+": "+session.ClocksMatter, advice)
			return
		case level == session.LevelOK && off > float64(claimed):
			r.add("clocks", session.LevelWarning, found+": the clocks differ by more than their daemons say", "use a common time server; a path with unequal delays also looks so; --clock corrected subtracts the offset")
			return
		}
	} else if c != nil {
		found += "; only one direction was measured, so that the offset is unknown"
	}
	r.add("clocks", level, found, map[string]string{session.LevelWarning: advice}[level])
}
