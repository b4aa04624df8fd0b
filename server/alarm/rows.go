package alarm

import (
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

const (
	// aheadMost is how far a row's time may be ahead of the server's clock.
	aheadMost = time.Minute
	// packetsMost is more than any row can stand for.
	packetsMost = 1 << 40
	// intervalMost is the longest interval of a session.
	intervalMost = time.Hour
	textMost     = 64 // bytes
)

// row is what a row of flows says of loss.
type row struct {
	time           time.Time
	interval       time.Duration
	lost, expected uint64
}

// Add takes rows of the stream flows that an agent delivered. Rows that cannot be
// are left out.
func (l *Loss) Add(agent string, record arrow.RecordBatch) {
	if l.limit.Share <= 0 {
		return
	}
	columns := map[string]arrow.Array{}
	for i, field := range record.Schema().Fields() {
		columns[field.Name] = record.Column(i)
	}
	times, isTime := columns["time"].(*array.Timestamp)
	if !isTime {
		return
	}
	session, source := textOf(columns["session"]), textOf(columns["source"])
	lost, expected := countOf(columns["lost"]), countOf(columns["expected"])
	intervals, _ := columns["interval_ns"].(*array.Int64)

	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	touched := map[*pair]bool{}
	for i := range int(record.NumRows()) {
		r := row{lost: lost(i), expected: expected(i)}
		if times.IsNull(i) || r.expected > packetsMost || r.lost > r.expected {
			continue
		}
		r.time = time.Unix(0, int64(times.Value(i))).UTC()
		if intervals != nil && intervals.IsValid(i) {
			r.interval = min(max(time.Duration(intervals.Value(i)), 0), intervalMost)
		}
		k := key{session(i), source(i), agent}
		if p := l.find(k); p != nil && p.add(r, l.limit.Over, now) {
			touched[p] = true
		}
	}
	// Afterwards, since the flows of one interval are several rows.
	for p := range touched {
		l.judge(p.key, p, now)
	}
}

func textOf(a arrow.Array) func(int) string {
	texts, ok := a.(*array.String)
	return func(i int) string {
		if !ok || texts.IsNull(i) {
			return ""
		}
		text := texts.Value(i)
		return strings.ToValidUTF8(text[:min(len(text), textMost)], "?")
	}
}

func countOf(a arrow.Array) func(int) uint64 {
	counts, ok := a.(*array.Uint64)
	return func(i int) uint64 {
		if !ok || counts.IsNull(i) {
			return 0
		}
		return counts.Value(i)
	}
}

// words name the pair.
func (k key) words() string {
	if k.source == "" {
		return "an unknown source > " + k.destination
	}
	return k.source + " > " + k.destination
}

// percent has what is needed to tell a small share from none.
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

// count has commas between thousands.
func count(n uint64) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// span is a duration in words: 10 s, 2 min 10 s, 3 h 5 min.
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
