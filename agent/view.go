package agent

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"pillion.dev/agent/runner"
	"pillion.dev/agent/validation"
	"pillion.dev/agent/view"
	"pillion.dev/internal/quantity"
	"pillion.dev/probe/destination"
	"pillion.dev/probe/hook"
	"pillion.dev/probe/source"
	"pillion.dev/wire/fivetuple"
)

// deviceView prints what a source or a destination counts.
type deviceView struct{ view.View }

// readyInfo is the first line of JSON.
type readyInfo struct {
	Role   string `json:"role"`
	Device string `json:"device"`
	MTU    int    `json:"mtu"`
}

func (v deviceView) readySource(device hook.Device, options SourceOptions) error {
	lease := "no lease"
	if options.Lease != source.Forever {
		lease = fmt.Sprintf("lease %v", options.Lease)
	}
	return v.Ready(readyInfo{roleSource, device.Name, device.MTU},
		"Marking packets that leave %s (MTU %d bytes; modules %s; %s). Press Ctrl-C to stop.\n",
		device.Name, device.MTU, options.Modules, lease)
}

func (v deviceView) source(t source.Tally) error {
	if v.JSON {
		return nil
	}
	return v.Print(nil, "%s  seen %d  matched %d  marked %d%s packets%s\n",
		time.Now().Format(time.TimeOnly), t.Seen, t.Matched, t.Marked, countedText("  ", t), skippedText(t.Skipped))
}

// spanLine is the minimum, mean and maximum of durations.
type spanLine struct {
	Min  time.Duration `json:"min"`
	Mean time.Duration `json:"mean"`
	Max  time.Duration `json:"max"`
}

func newSpanLine(s source.Span, count uint64) spanLine { return spanLine{s.Min, s.Mean(count), s.Max} }

func (s spanLine) String() string {
	return fmt.Sprintf("%s/%s/%s", quantity.FormatNanos(int64(s.Min)), quantity.FormatNanos(int64(s.Mean)), quantity.FormatNanos(int64(s.Max)))
}

// roundLine is the round trips of one flow in one interval.
type roundLine struct {
	Time     time.Time `json:"time"`
	Src      string    `json:"src"`
	Dst      string    `json:"dst"`
	Protocol string    `json:"proto"`
	Sport    uint16    `json:"sport"`
	Dport    uint16    `json:"dport"`
	Count    uint64    `json:"count"`
	// Refused are answers that cannot be true.
	Refused     uint64        `json:"refused"`
	Round       spanLine      `json:"rtt_ns"`
	Host        spanLine      `json:"host_ns"`
	Network     spanLine      `json:"network_ns"`
	Uncertainty time.Duration `json:"uncertainty_ns"`
}

// rounds prints the round trips of an interval.
func (v deviceView) rounds(rounds []source.Round) error {
	now := time.Now()
	slices.SortFunc(rounds, func(a, b source.Round) int { return cmp.Compare(b.Count, a.Count) })
	for _, r := range rounds {
		line := roundLine{
			Time: now.UTC(), Src: addressText(r.Key.Src), Dst: addressText(r.Key.Dst),
			Protocol: fivetuple.ProtocolName(r.Key.Protocol), Sport: r.Key.Sport, Dport: r.Key.Dport, Count: r.Count, Refused: r.Strange,
			Round: newSpanLine(r.Round, r.Count), Host: newSpanLine(r.Host, r.Count), Network: newSpanLine(r.Network, r.Count), Uncertainty: r.Uncertainty,
		}
		err := v.Print(struct {
			Round roundLine `json:"round_trip"`
		}{line}, "%s  %s:%d > %s:%d %s  round trips %d  min/mean/max %v = network %v + host %v\n",
			now.Format(time.TimeOnly), line.Src, line.Sport, line.Dst, line.Dport, line.Protocol, line.Count, line.Round, line.Network, line.Host)
		if err != nil {
			return err
		}
	}
	return nil
}

// countedText is empty unless marks are sparse.
func countedText(before string, t source.Tally) string {
	if t.Counted == 0 {
		return ""
	}
	return fmt.Sprintf("%scounted without a mark %d", before, t.Counted)
}

func skippedText(skipped map[string]uint64) string {
	var parts []string
	for name, n := range skipped {
		if n != 0 {
			parts = append(parts, fmt.Sprintf("%s %d", name, n))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	slices.Sort(parts)
	return "  skipped: " + strings.Join(parts, ", ")
}

// pathLine is what path validation has found.
type pathLine struct {
	Address  netip.Addr       `json:"address"`
	Encoding string           `json:"encoding"`
	State    validation.State `json:"state"`
	Since    time.Time        `json:"since"`
	MTU      int              `json:"mtu,omitempty"`
}

func newPathLine(p validation.Path) pathLine {
	return pathLine{p.Address, p.Encoding.String(), p.Found(), p.Since.UTC(), p.MTU}
}

func (v deviceView) path(p validation.Path) error {
	return v.Print(struct {
		Path pathLine `json:"path"`
	}{newPathLine(p)}, "%s  %s\n", time.Now().Format(time.TimeOnly), p.Text())
}

// hidden prints what hides a program; empty: nothing any more.
func (v deviceView) hidden(text string) error {
	return v.Print(map[string]string{"hidden": text}, "%s  %s\n", time.Now().Format(time.TimeOnly), cmp.Or(text, "packets reach the program again"))
}

// sourceSummary is the last line of JSON.
type sourceSummary struct {
	source.Tally
	Paths []pathLine `json:"paths,omitempty"`
}

func (v deviceView) sourceSummary(t source.Tally, paths []validation.Path) error {
	summary := sourceSummary{Tally: t}
	var unused string
	for _, p := range paths {
		summary.Paths = append(summary.Paths, newPathLine(p))
		if p.Found() != validation.Passed || p.MTU != 0 {
			unused += "        " + p.Text() + "\n"
		}
	}
	return v.Summary(summary,
		"Source: seen %d = marked %d%s + skipped %d packets%s\n"+
			"        marks added %d bytes; flows %d started, %d expired, %d evicted; MSS clamped %d times\n%s%s",
		t.Seen, t.Marked, countedText(" + ", t), t.Seen-t.Marked-t.Counted, skippedText(t.Skipped), t.BytesAdded,
		t.FlowsStarted, t.FlowsExpired, t.FlowsEvicted, t.MSSClamped, connectionsText(t.Connections), unused)
}

func connectionsText(c source.Connections) string {
	var text string
	if c.Marked+c.Avoided != 0 {
		text = fmt.Sprintf("        TCP connections marked %d; timeouts paused %d and stopped %d of them; %d no longer mark acknowledgements; no room in %d segments\n"+
			"        TCP connections not marked because the path drops marks: %d\n",
			c.Marked, c.Paused, c.Stopped, c.WithoutAcks, c.Full, c.Avoided)
	}
	if c.Limit != "" {
		text += "        " + c.Limit + "\n"
	}
	return text
}

// rowLine is one flow in one interval.
type rowLine struct {
	Time     time.Time `json:"time"`
	Src      string    `json:"src"`
	Dst      string    `json:"dst"`
	Protocol string    `json:"proto"`
	Sport    uint16    `json:"sport"`
	Dport    uint16    `json:"dport"`
	destination.Counts
	Delay     destination.Summary `json:"delay_ns"`
	Variation destination.Summary `json:"ipdv_ns"`
	// ClockError bounds the error of this host's clock alone.
	ClockError int64 `json:"clock_error_ns"`
	// Modules are the figures of modules with options of their own, by module and column.
	Modules map[string]map[string]any `json:"modules,omitempty"`
}

func (v deviceView) readyDestination(device hook.Device, peers []netip.Prefix) error {
	from := "any source (restrict with --from)"
	if len(peers) != 0 {
		from = strings.Trim(fmt.Sprint(peers), "[]")
	}
	return v.Ready(readyInfo{roleDestination, device.Name, device.MTU},
		"Reading marks on %s, from %s. Press Ctrl-C to stop.\n", device.Name, from)
}

func addressText(a netip.Addr) string {
	if !a.IsValid() {
		return "*"
	}
	return a.String()
}

func (v deviceView) rows(interval runner.LocalRows) error {
	if !v.JSON {
		return v.table(interval)
	}
	if err := v.blocks(interval.Blocks); err != nil {
		return err
	}
	for _, row := range interval.Rows {
		err := v.Print(rowLine{
			Time: interval.Time.UTC(), Src: addressText(row.Key.Src), Dst: addressText(row.Key.Dst),
			Protocol: fivetuple.ProtocolName(row.Key.Protocol), Sport: row.Key.Sport, Dport: row.Key.Dport,
			Counts: row.Counts, Delay: row.Delay, Variation: row.Variation,
			ClockError: int64(interval.Clock.MaxError), Modules: moduleFigures(row.States()),
		}, "")
		if err != nil {
			return err
		}
	}
	return v.hops(interval)
}

// checked is a count of packets that are recognised by their sequence numbers: unknown
// where not all packets have one.
func checked(n uint64, of destination.Counts) string {
	if of.Unchecked > 0 {
		return "-"
	}
	return strconv.FormatUint(n, 10)
}

// mismatchText says which sources number flows by other fields than this destination, a line each.
func mismatchText(t destination.Tally) string {
	var b strings.Builder
	for _, m := range t.Mismatches {
		fmt.Fprintf(&b, "Warning: %v\n", m)
	}
	return b.String()
}

// destinationSummary is the last line of JSON.
type destinationSummary struct {
	destination.Tally
	Traces *destination.TraceTally `json:"traces,omitempty"`
}

func (v deviceView) destinationSummary(t destination.Tally, traces *destination.TraceTally) error {
	delay := func(ns int64) string { return quantity.FormatMeasuredNanos(t.Delay.Count > 0, ns) }
	return v.Summary(destinationSummary{t, traces},
		"Destination: seen %d = measured %d + unmarked %d + rejected %d packets\n"+
			"        expected %d, lost %d, duplicated %s, reordered %s, late %s packets\n"+
			"        delay p50 %s, p99 %s, mean %s; records %d, dropped %d\n%s%s",
		t.Seen, t.Packets, t.Unmarked, t.Rejected, t.Expected, t.Lost,
		checked(t.Duplicated, t.Counts), checked(t.Reordered, t.Counts), checked(t.Late, t.Counts),
		delay(t.Delay.P50), delay(t.Delay.P99), delay(t.Delay.Mean), t.Records, t.RecordsDropped,
		tracesText(traces), mismatchText(t))
}
