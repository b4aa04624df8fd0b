package bus

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// serverLog passes the embedded server's log to slog. Its warnings are rate-limited,
// since anyone who reaches the port can cause them.
type serverLog struct {
	log *slog.Logger
	now func() time.Time

	mu         sync.Mutex
	since      time.Time
	lines      int
	suppressed int
	fatal      string // why the server did not start
}

const (
	logInterval = 10 * time.Second
	logLimit    = 10
)

func (l *serverLog) limited(level slog.Level, text string) {
	l.mu.Lock()
	if now := l.now(); now.Sub(l.since) >= logInterval {
		if l.suppressed > 0 {
			text = fmt.Sprintf("%s (and %d more lines in %s)", text, l.suppressed, logInterval)
		}
		l.since, l.lines, l.suppressed = now, 0, 0
	}
	l.lines++
	over := l.lines > logLimit
	if over {
		l.suppressed++
	}
	l.mu.Unlock()
	if !over {
		l.log.Log(context.Background(), level, "bus server", "message", oneLine(text))
	}
}

// Noticef, Warnf, Errorf, Debugf and Tracef are the server's levels; an error of one
// connection is only a warning.
func (l *serverLog) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *serverLog) Warnf(format string, v ...any) {
	l.limited(slog.LevelWarn, fmt.Sprintf(format, v...))
}
func (l *serverLog) Errorf(format string, v ...any) {
	l.limited(slog.LevelWarn, fmt.Sprintf(format, v...))
}
func (l *serverLog) Debugf(format string, v ...any) {}
func (l *serverLog) Tracef(format string, v ...any) {}

// Fatalf records the reason, which StartEmbedded returns.
func (l *serverLog) Fatalf(format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fatal == "" {
		l.fatal = fmt.Sprintf(format, v...)
	}
}

func (l *serverLog) failure() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}
