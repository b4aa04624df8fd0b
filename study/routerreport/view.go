package routerreport

import (
	"fmt"
	"time"

	"pillion.dev/agent/view"
)

// profileView prints a profile: as JSON lines, as a table that is redrawn on a terminal,
// or as one line per interval.
type profileView struct {
	view.View
	options Options
}

type readyInfo struct {
	Role      string `json:"role"`
	Namespace string `json:"namespace"`
}

type intervalLine struct {
	Interval Interval `json:"interval"`
}

func (v profileView) ready() error {
	e := Environment{Namespace: v.options.Name, Inputs: v.options.In, Outputs: v.options.Out, Filter: v.options.Filter, Sampling: v.options.Sampling}
	until := "Ctrl-C stops."
	if v.options.Duration > 0 {
		until = fmt.Sprintf("Stops after %v or on Ctrl-C.", v.options.Duration)
	}
	return v.Ready(readyInfo{"router", v.options.Name}, "Profiling the router in %s: %s. %s\n", e.where(), e.scope(), until)
}

func (v profileView) interval(i Interval) error {
	text := i.line()
	if v.IsTerminal() {
		text = v.table(i)
	}
	return v.Print(intervalLine{i}, "%s", text)
}

// line summarises the interval.
func (i Interval) line() string {
	a := i.Account
	line := fmt.Sprintf("%s  seen %d  forwarded %d  dropped %d  local %d  in flight %d  lost %d packets",
		i.Time.Local().Format(time.TimeOnly), a.Seen, a.Forwarded, a.Dropped, a.Local, a.InFlight, a.Lost)
	if t := i.busiest(); t.Count > 0 {
		line += fmt.Sprintf("  transit p50 %s, p99 %s", each(t.Count, float64(t.P50)), each(t.Count, float64(t.P99)))
	}
	if i.Breaks > 0 {
		line += fmt.Sprintf("  breaks %d", i.Breaks)
	}
	return line + "\n"
}

// busiest is the transit of the pair with the most bytes.
func (i Interval) busiest() Times {
	var most PairSummary
	for _, p := range i.Pairs {
		if p.Bytes > most.Bytes {
			most = p
		}
	}
	return most.Stages.Transit
}
