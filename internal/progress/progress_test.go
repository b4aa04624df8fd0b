package progress

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	begun := time.Unix(1000, 0)
	for _, test := range []struct {
		name               string
		first, done, total int64
		after              time.Duration
		width              int
		amount             Amount
		detail, want       string
	}{
		{"share, rate and rest", 0, 250, 1000, 10 * time.Second, 100, Count("row"), "", "copy  [█████░░░░░░░░░░░░░░░] 25 %  250 rows of 1000 rows  25 rows/s  30s left"},
		{"unknown total", 0, 3 << 20, 0, 2 * time.Second, 100, Bytes, "flows", "copy  3.00 MiB  1.50 MiB/s  flows"},
		{"too early for a rate", 0, 5, 10, time.Second / 2, 100, Count("row"), "", "copy  [██████████░░░░░░░░░░] 50 %  5 rows of 10 rows"},
		{"continued work", 900, 950, 1000, 10 * time.Second, 100, Count("row"), "", "copy  [███████████████████░] 95 %  950 rows of 1000 rows  5 rows/s  10s left"},
		{"more than the total", 0, 11, 10, 10 * time.Second, 100, Count("row"), "", "copy  11 rows  1 row/s"},
		{"not quite all", 0, 9999, 10000, time.Second / 2, 40, Count("row"), "", "copy  [███████████████████░] 99 %  9999"},
		{"nothing yet", 0, 0, 10, time.Minute, 31, Count("row"), "", "copy  [░░░░░░░░░░░░░░░░░░░░] 0"},
	} {
		b := &Bar{what: "copy", amount: test.amount, begun: begun, first: test.first, done: test.done, total: test.total, detail: test.detail}
		if got := b.line(begun.Add(test.after), test.width); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestNoTerminal(t *testing.T) {
	var out bytes.Buffer
	b := New(&out, "copy", Bytes)
	b.Set(1, 2, "")
	b.Print(&out, "a line")
	b.End()
	if out.String() != "a line\n" {
		t.Errorf("without a terminal it wrote %q", out.String())
	}
}

func TestPrintKeepsLines(t *testing.T) {
	var out bytes.Buffer
	b := &Bar{out: &out, width: func() int { return 80 }, what: "copy", amount: Bytes, begun: time.Now()}
	b.Set(1, 2, "")
	b.Print(&out, "a line")
	b.Set(2, 2, "")
	b.End()
	if got := out.String(); !strings.Contains(got, "\x1b[Ka line\n\rcopy  [████████████████████] 100 %") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("got %q", got)
	}
}

func FuzzLine(f *testing.F) {
	f.Add(int64(1), int64(2), int64(3), int64(4), 80)
	f.Add(int64(math.MinInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(1), 5)
	f.Fuzz(func(t *testing.T, first, done, total, after int64, width int) {
		b := &Bar{what: "copy", amount: Count("row"), first: first, done: max(0, done), total: total}
		width %= 1000
		if n := utf8.RuneCountInString(b.line(time.Time{}.Add(time.Duration(after)), width)); n > max(0, width-1) {
			t.Errorf("%d characters in %d", n, width)
		}
	})
}
