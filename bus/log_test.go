package bus

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestLogIsRateLimited(t *testing.T) {
	var text bytes.Buffer
	now := time.Now()
	l := &serverLog{log: slog.New(slog.NewTextHandler(&text, nil)), now: func() time.Time { return now }}
	for range 1000 {
		l.Errorf("bad handshake from %s", "10.0.0.1\nforged line")
	}
	if got := strings.Count(text.String(), "\n"); got != logLimit {
		t.Errorf("%d lines, want %d", got, logLimit)
	}
	text.Reset()
	now = now.Add(logInterval)
	l.Warnf("later")
	if got := text.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "and 990 more lines") {
		t.Errorf("got %q", got)
	}
	l.Fatalf("port %d is taken", 1)
	l.Fatalf("and more")
	if got := l.failure(); got != "port 1 is taken" {
		t.Errorf("got %q", got)
	}
}
