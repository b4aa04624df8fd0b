package alarm

import (
	"fmt"
	"time"

	"pillion.dev/internal/binomial"
	"pillion.dev/internal/quantity"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
)

// longest is the length of the longest window, in windows of the rule.
const longest = 12

// sum is a rule on a share of packets, for one pair.
type sum struct {
	rule *Rule
	window
	// long is a ring of slots as long as the window, by number.
	long [longest]slot
	phase
}

// add adds a row to the windows of the rule.
func (s *sum) add(row *flows.Row, now time.Time) {
	bad, total, most := row.Lost, row.Expected, int64(0)
	if s.rule.delays() {
		if row.Delay.Count == 0 {
			return
		}
		bad, total, most = later(&row.Delay, s.rule.delay), row.Delay.Count, row.Delay.Max
	}
	at, old, reset := s.move(row.End, now, s.rule.Over, row.Interval)
	if old {
		return
	}
	if reset {
		s.long = [longest]slot{}
		if s.calm = (time.Time{}); s.firing() {
			s.since = at
		}
	}
	s.window.add(at, s.rule.Over, bad, total, most)
	put(s.long[:], at.UnixNano()/int64(s.span), bad, total, most)
}

// later counts the delays above a limit. Those in the bucket of the limit count by their mean.
func later(d *flows.Distribution, limit time.Duration) (n uint64) {
	switch {
	case d.Max <= int64(limit):
		return 0
	case d.Min > int64(limit):
		return d.Count
	case d.Histogram.Empty():
		return 1 // the maximum, at least
	}
	h, own := &d.Histogram, histogram.Bound(histogram.Index(int64(limit)))
	for i, bound := range h.Bounds {
		above := bound > own
		if bound == own && h.Offsets != nil && h.Counts[i] > 0 {
			above = bound+int64(h.Offsets[i]/h.Counts[i]) > int64(limit)
		}
		if above {
			n += h.Counts[i]
		}
	}
	return min(max(n, 1), d.Count)
}

// finding is what a window says of the share of bad packets, with a confidence.
type finding struct {
	slot
	length            time.Duration
	share, confidence float64
}

// Confidence of findings: of short windows, which change most from one row to the next, more is asked.
const (
	confidenceUsual = 0.95
	confidenceShort = 0.99
	shortWindows    = 2
)

// judge reports whether the whole interval of a window is above or below a threshold.
func (f *finding) judge(threshold float64) (above, below bool) {
	return binomial.Compare(float64(f.bad), float64(f.total), threshold, (1-f.confidence)/2)
}

// windows returns the window of the rule and longer ones, each with packets that the one before has not. While the alarm
// fires, longer ones begin after it did: what was before does not end it. exceeds: a share is above the threshold.
func (s *sum) windows(all *[longest]finding) (windows []finding, exceeds bool) {
	windows = append(all[:0], finding{slot: s.sums(s.rule.Over), length: s.span})
	last, sums := s.newest.UnixNano()/int64(s.span), slot{}
	for i := range int64(longest) {
		begin := time.Unix(0, (last-i)*int64(s.span))
		if s.firing() && begin.Before(s.since) {
			break
		}
		one := s.long[((last-i)%longest+longest)%longest]
		if one.number != last-i || one.total == 0 {
			continue
		}
		if sums.bad, sums.total, sums.most = sums.bad+one.bad, sums.total+one.total, max(sums.most, one.most); i > 0 {
			windows = append(windows, finding{slot: sums, length: s.newest.Sub(begin).Round(time.Second)})
		}
	}
	for i := range windows {
		f := &windows[i]
		if f.share, f.confidence = float64(f.bad)/float64(max(f.total, 1)), confidenceUsual; i < shortWindows {
			f.confidence = confidenceShort
		}
		exceeds = exceeds || f.share > s.rule.share
	}
	return windows, exceeds
}

// decide returns the shortest window whose whole interval is on one side of the threshold, or the window of the rule if there
// is none.
func (s *sum) decide() (f finding, above, below bool) {
	var all [longest]finding
	windows, exceeds := s.windows(&all)
	switch {
	case s.rule.share == 0:
		return windows[0], windows[0].bad > 0, windows[0].bad == 0 // any packet is too many
	case !s.firing() && !exceeds:
		return windows[0], false, false
	}
	for i := range windows {
		if above, below = windows[i].judge(s.rule.share); above || below {
			return windows[i], above, below
		}
	}
	// Too few packets for a decision, ever: the alarm must end nevertheless.
	return windows[0], false, s.firing() && len(windows) > 1 && windows[len(windows)-1].share <= s.rule.share/2
}

// judgeSum evaluates a rule after new rows.
func (e *Evaluator) judgeSum(p *pair, s *sum, now time.Time) {
	sums := s.sums(s.rule.Over)
	if sums.total == 0 {
		return
	}
	f, above, below := s.decide()
	enough := sums.total >= s.rule.Packets
	if s.firing() && enough {
		s.worst = max(s.worst, float64(sums.bad)/float64(sums.total))
	}
	k := key{s.rule.Name, p.Subject}
	switch s.judge(s.rule, enough && above, below, s.newest) {
	case begins:
		s.worst = f.share
		e.begin(k, s.rule, &s.phase, now, s.found(k, &f))
	case ends:
		s.long = [longest]slot{} // or else it would begin again by what has ended
		e.end(k, &s.phase, s.calm, now, s.over(), s.atWorst()+"; now "+f.text()+" in "+span(f.length))
	}
}

// text is the share with both ends of its interval.
func (f *finding) text() string {
	low, high := binomial.Interval(float64(f.bad), float64(f.total), (1-f.confidence)/2)
	end := func(share float64) string { return trimmed(fmt.Sprintf("%.2f", 100*share)) }
	return fmt.Sprintf("%s (%s to %s %% with %.0f %% confidence)", percent(f.share), end(low), end(high), 100*f.confidence)
}

// found says what began an alarm.
func (s *sum) found(k key, f *finding) string {
	if s.rule.On == Loss {
		return fmt.Sprintf("%s lost %s, %s of %s packets in %s, threshold %s",
			k.words(), f.text(), count(f.bad), count(f.total), span(f.length), percent(s.rule.share))
	}
	return fmt.Sprintf("%s: %s of %s packets in %s took longer than %s, at most %s (%s)",
		k.words(), f.text(), count(f.total), span(f.length), quantity.FormatNanos(int64(s.rule.delay)), quantity.FormatNanos(f.most), s.rule.On)
}

// over and atWorst say what ended.
func (s *sum) over() string {
	if s.rule.On == Loss {
		return "loss is over"
	}
	return "delay is over"
}

func (s *sum) atWorst() string {
	if s.rule.On == Loss {
		return fmt.Sprintf("at worst %s in %s", percent(s.worst), span(s.span))
	}
	return fmt.Sprintf("at worst %s of the packets in %s took longer than %s", percent(s.worst), span(s.span), quantity.FormatNanos(int64(s.rule.delay)))
}
