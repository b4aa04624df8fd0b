package tester

import (
	"fmt"

	"pillion.dev/send/search"
)

// Headings of the tables. Sizes are in bytes without the frame check sequence, delays in
// microseconds.
var (
	throughputHead = fmt.Sprintf("%6s %14s %14s %10s %10s %12s %12s\n", "bytes", "frames/s", "Mbit/s", "limit", "trials", "typical us", "worst us")
	latencyHead    = fmt.Sprintf("%6s %14s %10s %10s %10s %10s %10s %10s %12s %12s\n", "bytes", "frames/s", "lost", "min us", "typical us", "mean us", "worst us", "PDV us", "IPDV 1 % us", "IPDV 99 % us")
	burstHead      = fmt.Sprintf("%6s %14s %14s %14s %10s %10s\n", "bytes", "frames", "p1", "p99", "limit", "trials")
	lossHead       = fmt.Sprintf("%6s %8s %14s %10s\n", "bytes", "load", "frames/s", "loss")
)

// frameRate writes a rate.
func frameRate(framesPerSecond float64) string { return fmt.Sprintf("%.0f frames/s", framesPerSecond) }

// table is the result's lines.
func (r *Result) table() (text string) {
	switch r.Benchmark {
	case "throughput":
		text = fmt.Sprintf("%6d %14.0f %14.4f %s", r.Size, r.FramesPerSecond.Median, r.BitsPerSecond.Median/1e6, searches(r.Searches))
		if n := len(r.Trials); n > 0 {
			d := r.Trials[n-1].Delays
			text += fmt.Sprintf(" %12.1f %12.1f", float64(d.Typical)/1e3, float64(d.Worst)/1e3)
		}
		text += "\n"
	case "latency":
		if len(r.Trials) == 0 {
			return fmt.Sprintf("%6d %14.0f no frame passed\n", r.Size, r.At)
		}
		for _, trial := range r.Trials {
			d := trial.Delays
			if d.Frames == 0 {
				text += fmt.Sprintf("%6d %14.0f %10d no frame arrived\n", r.Size, r.At, trial.Sent-trial.Received)
				continue
			}
			text += fmt.Sprintf("%6d %14.0f %10d %10.1f %10.1f %10.1f %10.1f %10.1f %12.1f %12.1f\n", r.Size, r.At, trial.Sent-trial.Received, float64(d.Min)/1e3, float64(d.Typical)/1e3,
				d.Mean/1e3, float64(d.Worst)/1e3, float64(d.PDV)/1e3, float64(d.IPDV.P1)/1e3, float64(d.IPDV.P99)/1e3)
		}
	case "back-to-back":
		text = fmt.Sprintf("%6d %14.0f %14.0f %14.0f %s\n", r.Size, r.Frames.Median, r.Frames.P1, r.Frames.P99, searches(r.Searches))
	default:
		for _, steps := range r.Steps {
			for _, s := range steps {
				loss := fmt.Sprintf("%9.4f%%", s.Loss*100)
				if !s.Valid {
					loss = "not offered"
				}
				text += fmt.Sprintf("%6d %7.0f%% %14.0f %10s\n", r.Size, s.Share*100, s.Load, loss)
			}
		}
	}
	return text
}

// searches writes the limit of the last search and the trials of all.
func searches(all []search.Result) string {
	trials := 0
	for _, s := range all {
		trials += s.Trials
	}
	return fmt.Sprintf("%10s %10d", all[len(all)-1].Limit, trials)
}
