package tester

import (
	"context"
	"fmt"
	"slices"
	"time"

	"pillion.dev/internal/quantity"
	"pillion.dev/send/search"
)

// Figure is a result over the repetitions (RFC 8219: median, 1st and 99th percentile).
type Figure struct {
	Median float64 `json:"median"`
	P1     float64 `json:"p1"`
	P99    float64 `json:"p99"`
}

func figureOf(values []float64) Figure {
	slices.Sort(values)
	return Figure{search.Quantile(values, 0.5), search.Quantile(values, 0.01), search.Quantile(values, 0.99)}
}

// Result of a size of frames.
type Result struct {
	Benchmark string `json:"benchmark"`
	Size      int    `json:"size"`

	// FramesPerSecond and BitsPerSecond, of the throughput: frames without their frame check
	// sequence. At is the rate of the latency.
	FramesPerSecond *Figure `json:"frames_per_second,omitempty"`
	BitsPerSecond   *Figure `json:"bits_per_second,omitempty"`
	At              float64 `json:"at_frames_per_second,omitempty"`
	// Frames, of the longest burst.
	Frames *Figure `json:"frames,omitempty"`
	// Searches, one for each repetition, of throughput and bursts.
	Searches []search.Result `json:"searches,omitempty"`
	// Steps, one list for each repetition, of the frame-loss rate.
	Steps [][]search.Step `json:"steps,omitempty"`
	// Trials, one for each repetition: of the latency, and at the throughput.
	Trials []*Trial `json:"trials,omitempty"`
}

// Summary ends the output.
type Summary struct {
	Benchmark string   `json:"benchmark"`
	Remarks   []string `json:"remarks,omitempty"`
}

// Throughput searches for the highest rate without loss, or with the loss accepted (RFC 2544,
// 26.1).
func (t *Tester) Throughput(ctx context.Context) error {
	t.short(60*time.Second, 20)
	return t.each(ctx, "throughput", throughputHead, func(size int) (*Result, error) { return t.throughput(ctx, size) })
}

func (t *Tester) throughput(ctx context.Context, size int) (*Result, error) {
	r := &Result{Benchmark: t.benchmark, Size: size}
	most := t.MaxRate / 8 / float64(size)
	var rates, bits []float64
	for i := range t.Repeat {
		t.repetition = i + 1
		passed := map[float64]*Trial{}
		const leastFrames = 10
		loads := search.Range{Least: min(most, leastFrames/t.Duration.Seconds()), Most: most, Resolution: t.Resolution}
		found, err := loads.Highest(func(rate float64) (search.Verdict, error) {
			trial, err := t.trial(ctx, t.stream(size, rate))
			if err != nil {
				return "", err
			}
			if trial.Verdict == search.Passed {
				passed[rate] = trial
			}
			return trial.Verdict, nil
		})
		if err != nil {
			t.unfinished(size, found, frameRate)
			return r, err
		}
		r.Searches = append(r.Searches, found)
		rates, bits = append(rates, found.Load), append(bits, found.Load*float64(size)*8)
		if trial := passed[found.Load]; trial != nil {
			r.Trials = append(r.Trials, trial)
		}
		if found.Limit == search.BySender {
			t.remark("%d bytes: the sender could not offer %s: the device may carry more than the result; %s", size, frameRate(found.Above), t.invalid)
		}
	}
	rate, bit := figureOf(rates), figureOf(bits)
	r.FramesPerSecond, r.BitsPerSecond = &rate, &bit
	return r, nil
}

// unfinished remarks on what an interrupted search has found so far.
func (t *Tester) unfinished(size int, found search.Result, text func(float64) string) {
	between := ""
	switch {
	case found.Trials == 0:
		return
	case found.Passed > 0 && found.Above > 0:
		between = fmt.Sprintf("%s passed, %s did not", text(found.Passed), text(found.Above))
	case found.Passed > 0:
		between = text(found.Passed) + " passed"
	case found.Above > 0:
		between = fmt.Sprintf("the result is below %s, which did not pass", text(found.Above))
	default:
		return
	}
	t.remark("%d bytes: the search was interrupted after %s: %s", size, quantity.Count(found.Trials, "trial"), between)
}

// stream is a trial of the duration at a rate in frames/s.
func (t *Tester) stream(size int, framesPerSecond float64) load {
	return load{size: size, frames: max(1, int(framesPerSecond*t.Duration.Seconds()+0.5)), framesPerSecond: framesPerSecond}
}

// Latency measures the delays at a rate, or at the throughput (RFC 2544, 26.2; RFC 8219, 7.2
// and 7.3).
func (t *Tester) Latency(ctx context.Context) error {
	t.short(120*time.Second, 20)
	return t.each(ctx, "latency", latencyHead, func(size int) (*Result, error) {
		r := &Result{Benchmark: "latency", Size: size, At: t.Rate / 8 / float64(size)}
		if t.Rate == 0 {
			t.benchmark = "throughput"
			found, err := t.throughput(ctx, size)
			if err != nil {
				return r, err
			}
			r.FramesPerSecond, r.BitsPerSecond, r.At = found.FramesPerSecond, found.BitsPerSecond, found.FramesPerSecond.Median
		}
		t.benchmark = "latency"
		if r.At == 0 {
			return r, nil
		}
		for i := range t.Repeat {
			t.repetition = i + 1
			trial, err := t.trial(ctx, t.stream(size, r.At))
			if err != nil {
				return r, err
			}
			if trial.Verdict == search.Invalid {
				t.remark("%d bytes: %s", size, trial.Cause)
			}
			r.Trials = append(r.Trials, trial)
		}
		return r, nil
	})
}

// BackToBack searches for the longest burst without loss (RFC 2544, 26.4).
func (t *Tester) BackToBack(ctx context.Context) error {
	t.short(0, 50)
	return t.each(ctx, "back-to-back", burstHead, func(size int) (*Result, error) {
		r := &Result{Benchmark: t.benchmark, Size: size}
		rate := t.MaxRate / 8 / float64(size)
		most := t.MaxFrames
		if most == 0 {
			most = max(1, int(t.framesOf(t.MaxRate, size)))
		}
		var lengths []float64
		for i := range t.Repeat {
			t.repetition = i + 1
			frames := search.Range{Least: 1, Most: float64(most), Resolution: t.Resolution, Whole: true}
			found, err := frames.Highest(func(n float64) (search.Verdict, error) {
				trial, err := t.trial(ctx, load{size: size, frames: int(n), framesPerSecond: rate})
				if err != nil {
					return "", err
				}
				return trial.Verdict, nil
			})
			if err != nil {
				t.unfinished(size, found, func(n float64) string { return quantity.Count(int64(n), "frame") })
				return r, err
			}
			r.Searches, lengths = append(r.Searches, found), append(lengths, found.Load)
			if found.Limit == search.BySender {
				t.remark("%d bytes: the sender could not send %.0f frames without a gap: the device may take more than the result; %s", size, found.Above, t.invalid)
			}
		}
		f := figureOf(lengths)
		r.Frames = &f
		return r, nil
	})
}

// FrameLoss measures the loss at rates that fall from the highest (RFC 2544, 26.3).
func (t *Tester) FrameLoss(ctx context.Context) error {
	t.short(60*time.Second, 20)
	return t.each(ctx, "frame-loss", lossHead, func(size int) (*Result, error) {
		r := &Result{Benchmark: t.benchmark, Size: size}
		for i := range t.Repeat {
			t.repetition = i + 1
			steps, err := search.Falling(t.MaxRate/8/float64(size), t.Step, func(rate float64) (float64, search.Verdict, error) {
				trial, err := t.trial(ctx, t.stream(size, rate))
				if err != nil {
					return 0, "", err
				}
				return trial.Loss, trial.Verdict, nil
			})
			if len(steps) > 0 {
				r.Steps = append(r.Steps, steps)
			}
			if err != nil {
				return r, err
			}
		}
		return r, nil
	})
}

// each measures and prints the results of all sizes.
func (t *Tester) each(ctx context.Context, benchmark, head string, measure func(size int) (*Result, error)) error {
	t.benchmark = benchmark
	if !t.JSON {
		fmt.Fprint(t.view.Out, head)
	}
	var failed error
	for _, size := range t.Sizes {
		var r *Result
		if r, failed = measure(size); failed != nil && len(r.Steps) == 0 {
			break
		}
		printed := t.view.Print(struct {
			Result *Result `json:"result"`
		}{r}, "%s", r.table())
		if printed != nil {
			return printed
		}
		if failed != nil { // the steps so far are printed
			break
		}
	}
	if ctx.Err() != nil {
		t.remark("interrupted: sizes that are missing were not measured")
	}
	text := ""
	for _, r := range t.remarks {
		text += "note: " + r + "\n"
	}
	if err := t.view.Summary(Summary{benchmark, t.remarks}, "%s", text); err != nil {
		return err
	}
	return failed
}

// short remarks on trials that are shorter or fewer than the standards recommend.
func (t *Tester) short(duration time.Duration, repeat int) {
	if t.Duration < duration {
		t.remark("trials of %s; RFC 2544 recommends %s or more (--duration)", quantity.FormatDuration(t.Duration), quantity.FormatDuration(duration))
	}
	if t.Repeat < repeat {
		t.remark("each result is based on %s; the standards recommend %d or more (--repeat)", quantity.Count(t.Repeat, "measurement"), repeat)
	}
}

func (t *Tester) remark(format string, arguments ...any) {
	text := fmt.Sprintf(format, arguments...)
	if !slices.Contains(t.remarks, text) {
		t.remarks = append(t.remarks, text)
	}
}
