package routerreport

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// view prints a profile: as JSON lines, as a table that is redrawn on a terminal, or as
// one line per interval.
type view struct {
	out      io.Writer
	options  Options
	terminal bool
}

func newView(out io.Writer, options Options) view {
	return view{out: out, options: options, terminal: !options.JSON && isTerminal(out)}
}

type readyLine struct {
	Ready readyInfo `json:"ready"`
}

type readyInfo struct {
	Role      string `json:"role"`
	Namespace string `json:"namespace"`
}

type intervalLine struct {
	Interval Interval `json:"interval"`
}

type summaryLine struct {
	Summary Summary `json:"summary"`
}

func (v view) encode(value any) error {
	if err := json.NewEncoder(v.out).Encode(value); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

func (v view) ready() error {
	if v.options.JSON {
		return v.encode(readyLine{readyInfo{"router", v.options.Name}})
	}
	e := Environment{Namespace: v.options.Name, Inputs: v.options.In, Outputs: v.options.Out, Filter: v.options.Filter, Sampling: v.options.Sampling}
	until := "Ctrl-C stops."
	if v.options.Duration > 0 {
		until = fmt.Sprintf("Stops after %v or on Ctrl-C.", v.options.Duration)
	}
	_, err := fmt.Fprintf(v.out, "Profiling the router in %s: %s. %s\n", e.where(), e.scope(), until)
	return err
}

func (v view) interval(i Interval) error {
	if v.options.JSON {
		return v.encode(intervalLine{i})
	}
	if v.terminal {
		return v.draw(i)
	}
	a := i.Account
	line := fmt.Sprintf("%s  seen %d  forwarded %d  dropped %d  local %d  in flight %d  lost %d packets",
		i.Time.Local().Format(time.TimeOnly), a.Seen, a.Forwarded, a.Dropped, a.Local, a.InFlight, a.Lost)
	if t := i.busiest(); t.Count > 0 {
		line += fmt.Sprintf("  transit p50 %s, p99 %s", each(t.Count, float64(t.P50)), each(t.Count, float64(t.P99)))
	}
	if i.Breaks > 0 {
		line += fmt.Sprintf("  breaks %d", i.Breaks)
	}
	_, err := fmt.Fprintln(v.out, line)
	return err
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

func (v view) summary(s Summary) error {
	if v.options.JSON {
		return v.encode(summaryLine{s})
	}
	_, err := io.WriteString(v.out, summaryText(s))
	return err
}

// isTerminal reports whether the output is a terminal.
func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}
