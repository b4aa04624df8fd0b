package alarm

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure/flows"
)

// aheadMost is how far a row's time may be ahead of the server's clock.
const aheadMost = time.Minute

// Add adds the rows of a batch of flows. Rows with impossible counts are ignored.
func (l *Loss) Add(batch archive.Batch) error {
	return l.add(flows.Rows(batch.Agent, batch.Record), true)
}

// add adds rows that this server has stored, or another one.
func (l *Loss) add(rows iter.Seq2[*flows.Row, error], own bool) error {
	if l.limit.Share <= 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	touched := map[*pair]bool{}
	var failed error
	for row, err := range rows {
		if err != nil {
			failed = err
			break
		}
		if row.Expected > flows.CountMax || row.Lost > row.Expected {
			continue
		}
		p := l.find(key{row.Session, row.Source, row.Destination})
		if p == nil {
			continue
		}
		l.stored(p, own, now)
		if p.add(row, l.limit.Over, now) {
			touched[p] = true
		}
	}
	// Only now, since one interval has a row for each flow.
	for p := range touched {
		l.judge(p.key, p, now)
	}
	return failed
}

// words names the pair.
func (k key) words() string {
	if k.source == "" {
		return "an unknown source > " + k.destination
	}
	return k.source + " > " + k.destination
}

// percent formats a share with enough digits to distinguish a small one from zero.
func percent(share float64) string {
	p := share * 100
	switch {
	case p > 0 && p < 0.01:
		return "<0.01 %"
	case p < 1:
		return trimmed(fmt.Sprintf("%.2f", p)) + " %"
	}
	return trimmed(fmt.Sprintf("%.1f", p)) + " %"
}

func trimmed(figure string) string { return strings.TrimRight(strings.TrimRight(figure, "0"), ".") }

// count formats a number with thousands separators.
func count(n uint64) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// span formats a duration: 10 s, 2 min 10 s, 3 h 5 min.
func span(d time.Duration) string {
	if d < time.Minute {
		return trimmed(fmt.Sprintf("%.1f", d.Seconds())) + " s"
	}
	big, small, names := d/time.Minute, d%time.Minute/time.Second, [2]string{"min", "s"}
	if d >= time.Hour {
		big, small, names = d/time.Hour, d%time.Hour/time.Minute, [2]string{"h", "min"}
	}
	if small == 0 {
		return fmt.Sprintf("%d %s", big, names[0])
	}
	return fmt.Sprintf("%d %s %d %s", big, names[0], small, names[1])
}
