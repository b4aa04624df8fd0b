package bus

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"pillion.dev/measure"
)

func TestParseBatch(t *testing.T) {
	for _, row := range []struct {
		name, text, want string
		size             int
		of               string
	}{
		{"good", "1 00000000000000ff 5 3 1 0000abcd 0 -", "", 0, ""},
		{"compressed", "1 00000000000000ff 5 3 1 0000abcd 700 -", "", 700, ""},
		{"of another agent", "1 00000000000000ff 5 3 1 0000abcd 0 north", "", 0, "north"},
		{"compressed, of another agent", "1 00000000000000ff 5 3 1 0000abcd 700 north", "", 700, "north"},
		{"of an agent with a site", "1 00000000000000ff 5 3 1 0000abcd 0 paris/north", "agent name", 0, ""},
		{"of nobody", "1 00000000000000ff 5 3 1 0000abcd 0 ", "agent name", 0, ""},
		{"size with a zero", "1 00000000000000ff 5 3 1 0000abcd 0700 -", "canonical", 0, ""},
		{"size below zero", "1 00000000000000ff 5 3 1 0000abcd -1 -", "number", 0, ""},
		{"too large", "1 00000000000000ff 5 3 1 0000abcd 9000000 -", "size", 0, ""},
		{"layout of no version", "0 00000000000000ff 5 3 1 0000abcd 0 -", "layout", 0, ""},
		{"layout that is no number", "x 00000000000000ff 5 3 1 0000abcd 0 -", "layout", 0, ""},
		{"layout with a zero", "01 00000000000000ff 5 3 1 0000abcd 0 -", "layout", 0, ""},
		{"fields missing", "1 00000000000000ff 5 3 1 0000abcd 0", "8 fields", 0, ""},
		{"space at the end", "1 00000000000000ff 5 3 1 0000abcd 0 - ", "8 fields", 0, ""},
		{"epoch in capitals", "1 00000000000000FF 5 3 1 0000abcd 0 -", "canonical", 0, ""},
		{"epoch short", "1 ff 5 3 1 0000abcd 0 -", "canonical", 0, ""},
		{"leading zero", "1 00000000000000ff 05 3 1 0000abcd 0 -", "canonical", 0, ""},
		{"sign", "1 00000000000000ff +5 3 1 0000abcd 0 -", "number", 0, ""},
		{"negative rows", "1 00000000000000ff 5 -3 1 0000abcd 0 -", "number", 0, ""},
		{"rows over 31 bits", "1 00000000000000ff 5 2147483648 1 0000abcd 0 -", "number", 0, ""},
		{"oldest above sequence", "1 00000000000000ff 5 3 6 0000abcd 0 -", "oldest", 0, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			e, err := parseBatch("flows", row.text)
			if row.want == "" {
				want := measure.Envelope{Key: measure.Key{Stream: "flows", Epoch: 255, Sequence: 5}, Rows: 3, Oldest: 1, Checksum: 0xabcd}
				if err != nil || e.Key != want.Key || e.Rows != want.Rows || e.Oldest != want.Oldest || e.Checksum != want.Checksum || e.size != row.size || e.of != row.of {
					t.Errorf("got %+v, %v", e, err)
				}
				return
			}
			if !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

// TestLaterLayoutIsNotRejected: a layout of a later version is not malformed, however it
// continues.
func TestLaterLayoutIsNotRejected(t *testing.T) {
	for _, text := range []string{"2 00000000000000ff 5 3 1 0000abcd 0 -", "2 x", "2", "65535 a b c d e f g h"} {
		if _, err := parseBatch("flows", text); !errors.Is(err, ErrUnsupported) || errors.Is(err, ErrRejected) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestEarlierLayoutIsRead: a server whose own layout is a later one reads those of the release before.
func TestEarlierLayoutIsRead(t *testing.T) {
	own := batchLayout
	t.Cleanup(func() { batchLayout = own })
	batchLayout = "12"
	for _, text := range []string{"1 00000000000000ff 5 3 1 0000abcd 700 north", "12 00000000000000ff 5 3 1 0000abcd 0 -"} {
		if p, err := parseBatch("flows", text); err != nil || p.Sequence != 5 {
			t.Errorf("%s: %+v, %v", text, p, err)
		}
	}
}

func FuzzParseBatch(f *testing.F) {
	f.Add("flows", "1 00000000000000ff 5 3 1 0000abcd 0 -")
	f.Add("a.b", "1 0 0 0 0 0 0 0")
	f.Add("flows", "1 00000000000000ff 5 3 1 0000abcd 700 north")
	f.Fuzz(func(t *testing.T, stream, text string) {
		e, err := parseBatch(stream, text)
		if err != nil {
			if errors.Is(err, ErrRejected) == errors.Is(err, ErrUnsupported) {
				t.Errorf("not a rejection: %v", err)
			}
			return
		}
		if again := formatBatch(&e.Envelope, e.size, e.of); again != text || e.Stream != stream || e.Oldest > e.Sequence || e.Rows < 0 {
			t.Errorf("%q became %+v", text, e)
		}
	})
}

func TestOutcome(t *testing.T) {
	for _, row := range []struct {
		name   string
		header nats.Header
		ok     bool
		is     error
	}{
		{"ok", nats.Header{statusHeader: {"ok"}}, true, nil},
		{"nothing", nil, false, nil},
		{"two statuses", nats.Header{statusHeader: {"ok", "ok"}}, false, nil},
		{"unknown", nats.Header{statusHeader: {"OK"}}, false, nil},
		{"rejected", reply(statusRejected, ErrRejected).Header, false, ErrRejected},
		{"busy", reply(statusBusy, nil).Header, false, ErrBusy},
		{"refused", reply(statusRefused, errors.New("x")).Header, false, ErrRefused},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := outcome(row.header)
			if (err == nil) != row.ok || row.is != nil && !errors.Is(err, row.is) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A reason is transferred unchanged, whatever it contains.
func FuzzReply(f *testing.F) {
	f.Add("disk is full")
	f.Add("two\r\nlines: and \x00 \xff more " + strings.Repeat("é", reasonLimit))
	f.Fuzz(func(t *testing.T, reason string) {
		status, ok := only(reply(statusRetry, errors.New(reason)).Header, statusHeader)
		text, _ := only(reply(statusRetry, errors.New(reason)).Header, reasonHeader)
		if !ok || status != statusRetry || strings.ContainsAny(text, "\r\n\x00") || len(text) > reasonLimit+3 {
			t.Errorf("%q became %q", reason, text)
		}
	})
}

func TestWaitTime(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": requestTime, "x": requestTime, "-1": requestTime, "0": requestTime,
		"1500": 1500 * time.Millisecond, "9223372036854775807": longestTime,
	} {
		if got := waitTime(nats.Header{timeoutHeader: {text}}); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	if got := formatWait(1500 * time.Microsecond); got != "2" {
		t.Errorf("got %q", got)
	}
}

func TestBackOff(t *testing.T) {
	for attempt := range 200 {
		if got := backOff(attempt); got <= 0 || got > longestWait {
			t.Errorf("attempt %d: %s", attempt, got)
		}
	}
}
