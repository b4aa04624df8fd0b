package pillion

import (
	"fmt"
	"time"

	"pillion.dev/internal/csvfile"
)

// print writes a window that is over.
func (w *watching) print(to *line, past *window) error {
	rate, loss, p50, p90, p99, clock, ipdv := past.cells()
	var err error
	switch w.format {
	case "json":
		err = writeJSONLine(w.out, past.object(w.name, to))
	case "csv":
		err = w.printCSV(text(nanoTime(past.end).Format(time.RFC3339Nano)), text(to.source), text(to.destination), text(to.flow),
			rate, loss, p50, p90, p99, clock, ipdv)
	default:
		flow, corrected := "", ""
		if w.corrected {
			corrected = "corrected "
		}
		if to.flow != "" {
			flow = " (" + to.flow + ")"
		}
		_, err = fmt.Fprintf(w.out, "%s  %s > %s%s  %s pkt/s  loss %s  %sp50 %s  p90 %s  p99 %s  %s  ipdv %s\n",
			nanoTime(past.end).Local().Format("15:04:05.0"), clean(to.source), clean(to.destination), clean(flow),
			rate.shown, loss.shown, corrected, p50.shown, p90.shown, p99.shown, clock.shown, ipdv.shown)
	}
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if w.closed++; w.closed == w.count {
		return errEnough
	}
	return nil
}

func (w *watching) printCSV(row ...cell) error {
	if w.csv == nil {
		w.csv = csvfile.NewWriter(w.out)
		delay, bound := "delay", "clock_error_ns"
		if w.corrected {
			delay, bound = "corrected", "corrected_error_ns"
		}
		w.csv.Texts("time", "source", "destination", "flow", "packets_per_s", "loss_percent",
			delay+"_p50_ns", delay+"_p90_ns", delay+"_p99_ns", bound, "ipdv_p90_ns")
		w.csv.End()
	}
	csvLine(w.csv, row)
	return w.csv.Flush()
}
