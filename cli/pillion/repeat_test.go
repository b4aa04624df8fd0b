package pillion

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"pillion.dev/cli/terminal"
)

func TestWatchOption(t *testing.T) {
	for _, test := range []struct {
		line string
		want time.Duration
		text string
	}{
		{"agents", 0, ""},
		{"agents --watch", 2 * time.Second, ""},
		{"agents list --watch=5s", 5 * time.Second, ""},
		{"agents --watch 1m --label x", time.Minute, ""},
		{"streams --watch flows", 2 * time.Second, ""},
		{"session show --watch web", 2 * time.Second, ""},
		{"token list --watch", 2 * time.Second, ""},
		{"oml domains --watch=10s", 10 * time.Second, ""},
		{"session list --watch=x", 0, `"x"`},
		{"session list --watch=1ms", 0, "too short"},
	} {
		line := &cli{}
		parser, err := newParser(context.Background(), line)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.Parse(strings.Fields(test.line))
		switch {
		case test.text != "":
			if err == nil || !strings.Contains(err.Error(), test.text) {
				t.Errorf("%s: got %v", test.line, err)
			}
		case err != nil:
			t.Errorf("%s: %v", test.line, err)
		case everyOf(parsed) != test.want:
			t.Errorf("%s: every %v, want %v", test.line, everyOf(parsed), test.want)
		}
	}
}

// TestWatchLines: without a terminal, outputs follow each other, also after a failed connection.
func TestWatchLines(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var out, notes strings.Builder
	a := &app{format: "table", out: &out, err: &notes}
	runs := 0
	err := a.repeat(ctx, time.Millisecond, "agents", func() error {
		switch runs++; runs {
		case 2:
			return failed("list agents", connect.NewError(connect.CodeUnavailable, errors.New("refused")))
		case 4:
			cancel()
			return nil
		}
		fmt.Fprintln(a.out, "run", runs)
		return nil
	})
	if err != nil || out.String() != "run 1\n\n\nrun 3\n\n" || !strings.Contains(notes.String(), "retrying every 1ms: list agents: refused") {
		t.Errorf("%v, printed %q, notes %q", err, out.String(), notes.String())
	}
	if err := (&app{format: "csv"}).repeat(context.Background(), time.Second, "", nil); !errors.Is(err, errValue) {
		t.Errorf("CSV: %v", err)
	}
	refusal := errors.New("refusal")
	if err := a.repeat(context.Background(), time.Second, "", func() error { return refusal }); !errors.Is(err, refusal) {
		t.Errorf("got %v", err)
	}
}

func TestWatchFrame(t *testing.T) {
	r := &repetition{app: &app{}, every: 2 * time.Second, line: "pillion agents", out: io.Discard}
	var text strings.Builder
	for i := range 30 {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	if err := r.take(output{text: text.String()}); err != nil {
		t.Fatal(err)
	}
	if got := r.frame(40, 5); len(got) != 5 || got[1] != "line 0" || !strings.Contains(got[0], "every 2s: pillion agents") {
		t.Errorf("got %q", got)
	}
	r.press(terminal.End)
	if got := r.frame(40, 5); got[4] != "line 29" {
		t.Errorf("at the end %q", got)
	}
	r.press(terminal.Up)
	if err := r.take(output{err: connect.NewError(connect.CodeUnavailable, errors.New("refused"))}); err != nil {
		t.Fatal(err)
	}
	if got := r.frame(60, 5); !strings.Contains(got[1], "connection lost") || got[4] != "line 27" {
		t.Errorf("without a connection %q", got)
	}
	if err := r.take(output{text: "one\n", err: errFailed}); err != nil || r.lost != nil {
		t.Errorf("a failed check ends the watch: %v", err)
	}
	if !r.press("q") || !r.press(terminal.Interrupt) || r.press("x") {
		t.Error("wrong keys quit")
	}
}
