package pillion

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"pillion.dev/cli/terminal"
	"pillion.dev/internal/quantity"
)

// repeated is embedded by commands that print the current state of something, which can be repeated.
type repeated struct {
	Watch interval `placeholder:"INTERVAL" help:"Repeat the output every 2s, or INTERVAL; on a terminal full screen, until q."`
}

// every is 0 for once.
func (r repeated) every() time.Duration { return time.Duration(r.Watch) }

// interval is the value of an option that has one without a value too.
type interval time.Duration

const (
	usualInterval = 2 * time.Second
	leastInterval = 500 * time.Millisecond
)

// IsBool says that the value can be left out.
func (interval) IsBool() bool { return true }

// Decode reads --watch=INTERVAL or --watch INTERVAL; other words after --watch are arguments.
func (i *interval) Decode(ctx *kong.DecodeContext) error {
	*i = interval(usualInterval)
	token := ctx.Scan.Peek()
	text, ok := token.Value.(string)
	if !ok || token.IsEOL() {
		return nil
	}
	d, err := quantity.ParseDuration(text)
	if token.Type != kong.FlagValueToken && (err != nil || text == "0") {
		return nil
	}
	ctx.Scan.Pop()
	if err != nil {
		return err
	}
	if d < leastInterval {
		return fmt.Errorf("%s is too short: use at least %s", text, quantity.FormatDuration(leastInterval))
	}
	*i = interval(d)
	return nil
}

// everyOf is the interval of a parsed command, 0 if it runs once.
func everyOf(parsed *kong.Context) time.Duration {
	node := parsed.Selected()
	for node != nil && node.Type == kong.ArgumentNode {
		node = node.Parent
	}
	if node == nil || !node.Target.CanAddr() {
		return 0
	}
	if again, ok := node.Target.Addr().Interface().(interface{ every() time.Duration }); ok {
		return again.every()
	}
	return 0
}

// repeat runs a command, which line names, until the context or a key ends it, also while the server is away.
func (a *app) repeat(ctx context.Context, every time.Duration, line string, run func() error) error {
	if a.format == "csv" {
		return fmt.Errorf("repeat output: %w: --watch with -o csv would repeat the header; use -o json", errValue)
	}
	r := &repetition{app: a, every: every, line: line, out: a.out, err: a.err}
	if a.format != "table" || !terminal.Is(a.out) {
		return r.lines(ctx, run)
	}
	screen, err := terminal.Open(a.color)
	if err != nil {
		return err
	}
	defer func() {
		screen.Close()
		a.out, a.err = r.out, r.err
	}()
	return r.draw(ctx, screen, run)
}

// repetition is a command that is repeated.
type repetition struct {
	*app
	every    time.Duration
	line     string
	out, err io.Writer
	// shown are the lines of the last output, from the first one that is drawn.
	shown []string
	first int
	lost  error
}

// lines prints each output below the last one.
func (r *repetition) lines(ctx context.Context, run func() error) error {
	for first := true; ; first = false {
		if !first && r.format == "table" {
			fmt.Fprintln(r.out)
		}
		err := run()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && transient(err):
			r.note("connection lost, retrying every %s: %v", quantity.FormatDuration(r.every), err)
		case err != nil && !errors.Is(err, errFailed):
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(r.every):
		}
	}
}

// output is what one run printed.
type output struct {
	text string
	err  error
}

// draw shows each output instead of the last one.
func (r *repetition) draw(ctx context.Context, screen *terminal.Screen, run func() error) error {
	outputs := make(chan output, 1)
	begin := func() {
		var text bytes.Buffer
		r.app.out, r.app.err = &text, &text
		err := run()
		outputs <- output{text.String(), err}
	}
	go begin()
	var next <-chan time.Time
	for {
		screen.Draw(r.frame)
		select {
		case <-ctx.Done():
			return nil
		case <-next:
			next = nil
			go begin()
		case o := <-outputs:
			if err := r.take(o); err != nil {
				return err
			}
			next = time.After(r.every)
		case key := <-screen.Keys():
			if r.press(key) {
				return nil
			}
		}
	}
}

// take keeps the last output while the server is away.
func (r *repetition) take(o output) error {
	switch {
	case o.err != nil && transient(o.err):
		r.lost = o.err
		return nil
	case o.err != nil && !errors.Is(o.err, errFailed):
		return o.err
	}
	r.lost, r.shown = nil, strings.Split(strings.TrimRight(o.text, "\n"), "\n")
	return nil
}

func (r *repetition) frame(width, height int) []string {
	title := fmt.Sprintf("every %s: %s  %s  q quits", quantity.FormatDuration(r.every), clean(r.line), time.Now().Format(time.TimeOnly))
	out := []string{terminal.Bold + terminal.Fit(title, width) + terminal.Plain}
	if r.lost != nil {
		out = append(out, terminal.Yellow+terminal.Fit("connection lost, retrying: "+cleaned{r.lost}.Error(), width)+terminal.Plain)
	}
	room := max(0, height-len(out))
	r.first = max(0, min(r.first, len(r.shown)-room))
	for _, line := range r.shown[r.first:min(len(r.shown), r.first+room)] {
		out = append(out, terminal.Fit(line, width))
	}
	return out[:min(len(out), height)]
}

// press scrolls, and reports whether a key ends the command.
func (r *repetition) press(key string) (quit bool) {
	const page = 10
	steps := map[string]int{terminal.Up: -1, "k": -1, terminal.Down: 1, "j": 1, terminal.PageUp: -page, terminal.PageDown: page, " ": page,
		terminal.Home: -1 << 30, terminal.End: 1 << 30}
	r.first += steps[key]
	return key == "q" || key == terminal.Interrupt
}
