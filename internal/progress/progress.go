// Package progress shows on a terminal how far long work is: its share, amounts, rate and
// remaining time, in one line of standard error that is redrawn. Without a terminal it shows nothing.
package progress

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"pillion.dev/internal/quantity"
)

const (
	drawEvery = 200 * time.Millisecond
	barWidth  = 20
	// rateAfter is how long work is observed before a remaining time is derived from it.
	rateAfter = time.Second
)

// Amount writes an amount of what is done, with its unit.
type Amount func(n int64) string

// Count is an amount of things, such as rows.
func Count(thing string) Amount {
	return func(n int64) string { return quantity.Count(n, thing) }
}

// Bytes is an amount of data.
func Bytes(n int64) string { return quantity.FormatBytes(n) }

// Seconds is an amount of time.
func Seconds(n int64) string { return quantity.FormatDuration(time.Duration(n) * time.Second) }

// Bar is the line; nil shows nothing. It is not safe for concurrent use.
type Bar struct {
	out    io.Writer
	width  func() int
	what   string
	amount Amount
	begun  time.Time
	drawn  time.Time
	done   int64
	total  int64
	detail string
	// first is what was done before: work that continues has no rate from it.
	first   int64
	started bool
}

// New begins a line on a file; nil if that is not a terminal.
func New(out io.Writer, what string, amount Amount) *Bar {
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return &Bar{out: out, what: what, amount: amount, begun: time.Now(), width: func() int {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			return width
		}
		return 80
	}}
}

// Set shows how much is done of a total, 0 if that is unknown, with a detail such as the name of a part.
func (b *Bar) Set(done, total int64, detail string) {
	if b == nil {
		return
	}
	if !b.started || done < b.done { // or another part of the work
		b.first, b.started, b.begun = done, true, time.Now()
	}
	b.done, b.total, b.detail = done, total, detail
	if now := time.Now(); now.Sub(b.drawn) >= drawEvery {
		b.drawn = now
		fmt.Fprintf(b.out, "\r%s\x1b[K", b.line(now, b.width()))
	}
}

// Print writes a line of text above the bar.
func (b *Bar) Print(out io.Writer, line string) {
	if b != nil {
		fmt.Fprint(b.out, "\r\x1b[K")
		b.drawn = time.Time{}
	}
	fmt.Fprintln(out, line)
}

// End removes the line.
func (b *Bar) End() {
	if b != nil {
		fmt.Fprint(b.out, "\r\x1b[K")
	}
}

// line is what is shown at a time, in a width. A total that turns out too low is unknown.
func (b *Bar) line(now time.Time, width int) string {
	since := now.Sub(b.begun)
	rate := 0.0
	if since > 0 {
		rate = float64(b.done-b.first) / since.Seconds()
	}
	var parts []string
	if b.total > 0 && b.done <= b.total {
		share := float64(b.done) / float64(b.total)
		full := int(share * barWidth)
		parts = append(parts, fmt.Sprintf("[%s%s] %.0f %%", strings.Repeat("█", full), strings.Repeat("░", barWidth-full), math.Floor(100*share)),
			fmt.Sprintf("%s of %s", b.amount(b.done), b.amount(b.total)))
	} else {
		parts = append(parts, b.amount(b.done))
	}
	if since >= rateAfter && rate > 0 {
		parts = append(parts, b.amount(int64(rate))+"/s")
		if b.total > 0 && b.done <= b.total {
			parts = append(parts, remaining(float64(b.total-b.done)/rate)+" left")
		}
	}
	if b.detail != "" {
		parts = append(parts, b.detail)
	}
	return fit(b.what+"  "+strings.Join(parts, "  "), width-1)
}

// remaining writes seconds as a person reads them.
func remaining(seconds float64) string {
	const most = 1000 * time.Hour
	return time.Duration(min(seconds, most.Seconds()) * float64(time.Second)).Round(time.Second).String()
}

func fit(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:max(0, width)])
}
