package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sort"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/clock"
	"pillion.dev/probe/destination"
	"pillion.dev/probe/hook"
	"pillion.dev/probe/source"
	"pillion.dev/wire/fivetuple"
)

func writeJSON(out io.Writer, value any) error {
	if err := json.NewEncoder(out).Encode(value); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

type readyLine struct {
	Ready readyInfo `json:"ready"`
}

type readyInfo struct {
	Role   string `json:"role"`
	Device string `json:"device"`
	MTU    int    `json:"mtu"`
}

type summaryLine struct {
	Summary any `json:"summary"`
}

type sourceView struct {
	out     io.Writer
	json    bool
	options SourceOptions
}

func (v *sourceView) ready(device hook.Device) error {
	if v.json {
		return writeJSON(v.out, readyLine{readyInfo{roleSource, device.Name, device.MTU}})
	}
	lease := "no lease: marks until it is stopped"
	if v.options.Lease != source.Forever {
		lease = fmt.Sprintf("lease %v", v.options.Lease)
	}
	_, err := fmt.Fprintf(v.out, "Marking what leaves %s (MTU %d bytes; modules %s; %s). Ctrl-C ends.\n",
		device.Name, device.MTU, v.options.Modules, lease)
	return err
}

func (v *sourceView) interval(t source.Tally) error {
	_, err := fmt.Fprintf(v.out, "%s  seen %d  matched %d  marked %d packets%s\n",
		time.Now().Format(time.TimeOnly), t.Seen, t.Matched, t.Marked, skippedText(t.Skipped))
	return err
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
	sort.Strings(parts)
	return "  skipped: " + strings.Join(parts, ", ")
}

func (v *sourceView) summary(t source.Tally) error {
	if v.json {
		return writeJSON(v.out, summaryLine{t})
	}
	_, err := fmt.Fprintf(v.out,
		"Source: seen %d = marked %d + skipped %d packets%s\n        marks added %d bytes; flows %d begun, %d expired, %d evicted; MSS lowered %d times\n",
		t.Seen, t.Marked, t.Seen-t.Marked, skippedText(t.Skipped), t.BytesAdded,
		t.FlowsStarted, t.FlowsExpired, t.FlowsEvicted, t.MSSClamped)
	return err
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
}

type destinationView struct {
	out     io.Writer
	json    bool
	options DestinationOptions
}

func (v *destinationView) ready(device hook.Device) error {
	if v.json {
		return writeJSON(v.out, readyLine{readyInfo{roleDestination, device.Name, device.MTU}})
	}
	from := "everyone (--from narrows it)"
	if len(v.options.Peers) != 0 {
		from = strings.Trim(fmt.Sprint(v.options.Peers), "[]")
	}
	_, err := fmt.Fprintf(v.out, "Reading marks on %s, from %s. Ctrl-C ends.\n", device.Name, from)
	return err
}

func addressText(a netip.Addr) string {
	if !a.IsValid() {
		return "*"
	}
	return a.String()
}

func (v *destinationView) interval(rows []destination.Row, tally destination.Tally, state clock.State) error {
	if !v.json {
		return v.table(rows, tally, state)
	}
	now := time.Now().UTC()
	for _, row := range rows {
		err := writeJSON(v.out, rowLine{
			Time: now, Src: addressText(row.Key.Src), Dst: addressText(row.Key.Dst),
			Protocol: fivetuple.ProtocolName(row.Key.Protocol), Sport: row.Key.Sport, Dport: row.Key.Dport,
			Counts: row.Counts, Delay: row.Delay, Variation: row.Variation,
			ClockError: int64(state.MaxError),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (v *destinationView) summary(t destination.Tally) error {
	if v.json {
		return writeJSON(v.out, summaryLine{t})
	}
	_, err := fmt.Fprintf(v.out,
		"Destination: seen %d = marked %d + unmarked %d + rejected %d packets\n"+
			"        expected %d, lost %d, duplicated %d, reordered %d, late %d packets\n"+
			"        delay p50 %s, p99 %s, mean %s; records %d, dropped %d\n",
		t.Seen, t.Packets, t.Unmarked, t.Rejected, t.Expected, t.Lost, t.Duplicated, t.Reordered, t.Late,
		duration(t.Delay.P50), duration(t.Delay.P99), duration(t.Delay.Mean), t.Records, t.RecordsDropped)
	return err
}

// isTerminal reports whether what is written there is seen by a person.
func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}
