package routerreport

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pillion.dev/agent/view"
	"pillion.dev/probe/router"
)

const (
	// liveRows is the number of pairs, and of queues, in the live table.
	liveRows = 6

	stageRow = "%-24s %-15s %11s %10s %10s %10s %10s\n"
	queueRow = "%-24s %9s %8s %8s %10s %11s %11s %11s\n"
)

// rows are the stages of a pair in display order.
func (s StageTimes) rows() []stageTimes {
	rows := []stageTimes{
		{"input queuing", s.InputQueuing}, {"processing", s.Processing}, {"output queuing", s.OutputQueuing}, {"transit (sum)", s.Transit},
	}
	if s.Hold.Count > 0 {
		rows = append(rows, stageTimes{"incl. GRO hold", s.Hold})
	}
	return rows
}

type stageTimes struct {
	Name string
	Times
}

// table shows the interval in place of the previous one on a terminal.
func (v profileView) table(i Interval) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s  router %s  %s\n\n", view.Home, i.Time.Local().Format(time.TimeOnly),
		v.options.Name, lengthText(i.at.Seconds()))
	writeStages(&b, i.Pairs, i.DurationS)
	writeQueues(&b, i.Queues, liveRows)
	fmt.Fprintf(&b, "\nbreaks  %s\n", breakText(i.breaks, i.Breaks))
	writeAccount(&b, i.Account)
	if i.Cost != nil {
		fmt.Fprintf(&b, "cost    %.0f ns per hook run, %.2f %% of one CPU: %s per packet\n",
			i.Cost.HookNs, 100*i.Cost.Share, span(i.Cost.PacketNs))
	}
	if i.RecordsLost > 0 {
		fmt.Fprintf(&b, "records %d lost: ring buffer full\n", i.RecordsLost)
	}
	return b.String()
}

func writeStages(b *strings.Builder, pairs []PairSummary, seconds float64) {
	fmt.Fprintf(b, stageRow, "from > to", "stage", "packets/s", "mean", "p50", "p99", "max")
	for n, p := range pairs {
		if n == liveRows {
			fmt.Fprintf(b, "... and %d more pairs\n", len(pairs)-liveRows)
			break
		}
		name, rate := p.Name(), fmt.Sprintf("%.0f", perSecond(p.Packets, seconds))
		for _, s := range p.Stages.rows() {
			fmt.Fprintf(b, stageRow, name, s.Name, rate, each(s.Count, s.Mean), each(s.Count, float64(s.P50)),
				each(s.Count, float64(s.P99)), each(s.Count, float64(s.Max)))
			name, rate = "", ""
		}
	}
	if len(pairs) == 0 {
		b.WriteString("nothing forwarded yet\n")
	}
}

func writeQueues(b *strings.Builder, queues []QueueReport, limit int) {
	if len(queues) == 0 {
		return
	}
	fmt.Fprintf(b, "\n"+queueRow, "queue (packets)", "now", "max", "kernel", "kernel max", "mean wait", "mean length", "rate x wait")
	for n, q := range queues {
		if n == limit {
			fmt.Fprintf(b, "... and %d more queues\n", len(queues)-limit)
			break
		}
		fmt.Fprintf(b, queueRow, q.Name(), fmt.Sprint(q.Depth), fmt.Sprint(q.MaxDepth),
			fmt.Sprint(q.KernelDepth), fmt.Sprint(q.KernelMaxDepth), each(q.Departures, q.Little.WaitNs),
			three(q.Little.Depth), three(q.Little.Product))
	}
}

func breakText(all BreakReport, now uint64) string {
	if all.Count == 0 {
		return "none"
	}
	text := fmt.Sprintf("%d", all.Count)
	if now > 0 {
		text += fmt.Sprintf(" (%d new)", now)
	}
	causes := counted(all.Causes)
	if all.Causes[router.CauseNotRecorded] > 0 {
		causes = ", causes not recorded"
	}
	return text + fmt.Sprintf(", longest %s, %s in total%s", span(float64(all.LongestNs)), span(float64(all.TotalNs)), causes)
}

// counted lists the counts other than 0, the largest first.
func counted(counts map[string]uint64) string {
	var parts []string
	for _, name := range ranked(counts) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// ranked lists the names of counts other than 0, the largest first.
func ranked(counts map[string]uint64) []string {
	names := slices.Sorted(maps.Keys(counts))
	names = slices.DeleteFunc(names, func(name string) bool { return counts[name] == 0 })
	slices.SortStableFunc(names, func(a, b string) int {
		switch {
		case counts[a] > counts[b]:
			return -1
		case counts[a] < counts[b]:
			return 1
		}
		return 0
	})
	return names
}

// writeAccount prints the packet accounting.
func writeAccount(b *strings.Builder, a router.Account) {
	fmt.Fprintf(b, "account seen %d = forwarded %d + dropped %d + local %d + merged %d + in flight %d + lost %d packets\n",
		a.Seen, a.Forwarded, a.Dropped, a.Local, a.Merged, a.InFlight, a.Lost)
	if a.NoArrival > 0 {
		fmt.Fprintf(b, "        no arrival observed: %d; without input queuing and transit\n", a.NoArrival)
	}
	if a.Unexplained != 0 {
		fmt.Fprintf(b, "        UNEXPLAINED %d: the account does not balance\n", a.Unexplained)
	}
	for _, part := range []struct {
		name   string
		counts map[string]uint64
	}{{"dropped", a.DropReasons}, {"lost by the profiler", a.LostReasons}, {"not counted", a.Skipped}} {
		if text := counted(part.counts); text != "" {
			fmt.Fprintf(b, "        %s:%s\n", part.name, strings.NewReplacer("(", "", ")", "").Replace(text))
		}
	}
}
