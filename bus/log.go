package bus

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// serverLog gives what the embedded server says to slog. Whoever reaches the port
// can make the server complain, so complaints are limited in number.
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
	complaintWindow = 10 * time.Second
	complaintLimit  = 10
)

func (l *serverLog) complain(level slog.Level, text string) {
	l.mu.Lock()
	if now := l.now(); now.Sub(l.since) >= complaintWindow {
		if l.suppressed > 0 {
			text = fmt.Sprintf("%s (and %d more lines in %s)", text, l.suppressed, complaintWindow)
		}
		l.since, l.lines, l.suppressed = now, 0, 0
	}
	l.lines++
	over := l.lines > complaintLimit
	if over {
		l.suppressed++
	}
	l.mu.Unlock()
	if !over {
		l.log.Log(context.Background(), level, "bus server", "says", oneLine(text))
	}
}

// Noticef, Warnf, Errorf, Debugf and Tracef are the server's levels; one connection's
// fault is only a warning to us.
func (l *serverLog) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *serverLog) Warnf(format string, v ...any) {
	l.complain(slog.LevelWarn, fmt.Sprintf(format, v...))
}
func (l *serverLog) Errorf(format string, v ...any) {
	l.complain(slog.LevelWarn, fmt.Sprintf(format, v...))
}
func (l *serverLog) Debugf(format string, v ...any) {}
func (l *serverLog) Tracef(format string, v ...any) {}

// Fatalf keeps the reason for StartEmbedded, which returns it.
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
