package routerreport

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"slices"

	"pillion.dev/probe/router"
)

// sections bounds the number of pairs, and of queues, that have charts.
const sections = 8

// report is the content of the page.
type report struct {
	Summary
	When     string
	Busiest  *PairSummary
	Split    []splitRow
	Sections []pairSection
	More     []PairSummary // pairs without a section
	Account  []accountRow
	Sizes    []figure
	Depths   []figure
	Pauses   []figure // of coffee breaks
	Causes   []named
	Thinned  int // the charts show one in this many intervals
}

// figure is a chart with its caption.
type figure struct {
	Key     string // a, b, c as in the paper
	Name    string
	Class   string
	Chart   template.HTML
	Log     template.HTML // the same with a logarithmic axis, if there are two
	Caption string
}

type named struct {
	Name  string
	Count uint64
}

// splitRow splits the mean transit time of a pair into its stages.
type splitRow struct {
	Name  string
	Total float64
	Parts []splitPart
}

type splitPart struct {
	Class, Name string
	Ns, Percent float64
}

// consecutive stages, with the CSS classes of their colours.
var stageNames = []struct{ class, name string }{
	{"input", "input queuing"}, {"processing", "processing"}, {"output", "output queuing"},
}

func (s StageTimes) consecutive() []Times {
	return []Times{s.InputQueuing, s.Processing, s.OutputQueuing}
}

// newReport draws the charts of a profile; it fails if a template does not match its data.
func newReport(s Summary, over *series) (*report, error) {
	r := &report{Summary: s, When: clockTime(s.Start), Thinned: over.stride}
	pairs := slices.Clone(s.Pairs)
	slices.SortStableFunc(pairs, func(a, b PairSummary) int { return cmp.Compare(b.Bytes, a.Bytes) })
	pairs = slices.DeleteFunc(pairs, func(p PairSummary) bool { return p.Stages.Transit.Count == 0 })
	if len(pairs) > 0 {
		r.Busiest = &pairs[0]
	}
	r.Split = split(pairs[:min(len(pairs), sections)])
	d := &drawer{over: over}
	for n, p := range pairs {
		if n >= sections {
			r.More = append(r.More, p)
			continue
		}
		r.Sections = append(r.Sections, d.pair(n, p))
	}
	r.Account = accountRows(s.Account)
	r.Sizes, r.Depths = d.queues(s.Queues)
	r.Pauses = d.breaks(s.Breaks)
	for _, name := range ranked(s.Breaks.Causes) {
		r.Causes = append(r.Causes, named{name, s.Breaks.Causes[name]})
	}
	return r, d.err
}

func split(pairs []PairSummary) []splitRow {
	var rows []splitRow
	for _, p := range pairs {
		row := splitRow{Name: p.Name(), Total: p.Stages.Transit.Mean}
		for i, times := range p.Stages.consecutive() {
			row.Parts = append(row.Parts, splitPart{stageNames[i].class, stageNames[i].name, times.Mean, round(100*times.Mean/max(row.Total, 1), 2)})
		}
		rows = append(rows, row)
	}
	return rows
}

// accountRow is one line of the account, with its explanation.
type accountRow struct {
	Class   string
	Sign    string
	Name    string
	Count   uint64
	Whole   uint64
	Meaning string
	Parts   []named // of it
}

func accountRows(a router.Account) []accountRow {
	row := func(sign, name string, count uint64, meaning string, parts map[string]uint64) accountRow {
		r := accountRow{Sign: sign, Name: name, Count: count, Whole: a.Seen, Meaning: meaning}
		for _, part := range ranked(parts) {
			r.Parts = append(r.Parts, named{part, parts[part]})
		}
		return r
	}
	rows := []accountRow{
		row("", "seen", a.Seen, "received on an interface of this router and matched the filter", map[string]uint64{"no arrival observed": a.NoArrival}),
		row("=", "forwarded", a.Forwarded, "passed to the driver of an output", nil),
		row("+", "dropped", a.Dropped, "dropped by the kernel, with its drop reason and the function", a.DropReasons),
		row("+", "local", a.Local, "delivered to the router itself", nil),
		row("+", "merged", a.Merged, "segments merged into another packet by GRO", nil),
		row("+", "in flight", a.InFlight, "still inside the router when the profile ended", nil),
		row("+", "lost by the profiler", a.Lost, "fate unknown, with the reason", a.LostReasons),
	}
	rows[0].Class = "total"
	unexplained := accountRow{Sign: "+", Name: "unexplained", Whole: a.Seen, Meaning: "remainder: 0 if all packets are accounted for"}
	if a.Unexplained != 0 {
		unexplained.Class, unexplained.Count = "bad", uint64(max(a.Unexplained, -a.Unexplained))
	}
	return append(rows, unexplained)
}

// Beside lists packets that the account does not include.
func (r *report) Beside() []named {
	beside := []named{
		{"locally generated, including ICMP errors", r.Own},
		{"forwarded below IP, by a bridge or a redirection", r.Below},
		{"GSO segments of forwarded packets at outputs", r.Segments},
	}
	for _, name := range slices.Sorted(maps.Keys(r.Skipped)) {
		beside = append(beside, named{"not counted: " + name, r.Skipped[name]})
	}
	return slices.DeleteFunc(beside, func(n named) bool { return n.Count == 0 })
}

// Hint suggests why nothing was forwarded.
func (r *report) Hint() string {
	if r.Forwarded > 0 {
		return ""
	}
	return r.Environment.idle()
}

// Answer summarises the result in one sentence.
func (r *report) Answer() string {
	p := r.Busiest
	if p == nil {
		return "No packet was forwarded."
	}
	longest, at := 0.0, 0
	for i, t := range p.Stages.consecutive() {
		if t.Mean > longest {
			longest, at = t.Mean, i
		}
	}
	return fmt.Sprintf("From %s to %s, half of the packets took up to %s and 99 %% up to %s; on average %s of that time was %s.",
		p.Input, p.Output, micro(span(float64(p.Stages.Transit.P50))), micro(span(float64(p.Stages.Transit.P99))),
		mostly(longest/max(p.Stages.Transit.Mean, 1)), stageNames[at].name)
}

// mostly formats a share; one that rounds to 100 % is "nearly all".
func mostly(part float64) string {
	if part > .99 {
		return "nearly all"
	}
	return fmt.Sprintf("%.0f %%", 100*part)
}
