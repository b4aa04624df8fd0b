// Package doctor looks at a host and says what of it hinders measuring: kernel,
// rights, clock, devices and the programs on them, room, and the way to peers.
//
// It changes nothing on the host. Each part first reads facts and then judges
// them, apart, so that the judgement can be tested without such a host. In the
// flow it stands aside: the server asks for it, and so does the command line.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"pillion.dev/agent/identity"
	"pillion.dev/session"
)

// Levels of a check.
const (
	OK      = "ok"
	Warning = "warning"
	Error   = "error"
)

// patience bounds all checks together; what has no answer by then is unknown.
const patience = 4500 * time.Millisecond

// Options say what to look at beside the host itself.
type Options struct {
	// Peers whose reachability is checked.
	Peers []session.Peer
	// Folder of the agent, whose disk needs room; default identity.DefaultFolder.
	Folder string
}

// part is one area: it returns its checks, however it goes.
type part struct {
	name string
	look func(context.Context) []session.Check
}

// Check looks at everything side by side and is back within 5 s. What cannot be
// known is a warning that says so.
func Check(ctx context.Context, options Options) []session.Check {
	options.Folder = cmp.Or(options.Folder, identity.DefaultFolder)
	return examine(ctx, patience, []part{
		{"kernel", checkKernel},
		{"rights", func(context.Context) []session.Check { return checkRights() }},
		{"clock", checkClock},
		{"room", func(context.Context) []session.Check { return checkRoom(options.Folder) }},
		{"devices", func(context.Context) []session.Check { return checkDevices() }},
		{"peers", func(ctx context.Context) []session.Check { return checkPeers(ctx, options.Peers) }},
	})
}

// examine lets the parts look side by side and keeps their order.
func examine(ctx context.Context, bound time.Duration, parts []part) []session.Check {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	answers := make([]chan []session.Check, len(parts))
	for i, p := range parts {
		answers[i] = make(chan []session.Check, 1)
		go func() { answers[i] <- p.guarded(ctx) }()
	}
	var checks []session.Check
	for i, p := range parts {
		select {
		case found := <-answers[i]:
			checks = append(checks, found...)
			continue
		default:
		}
		select {
		case found := <-answers[i]:
			checks = append(checks, found...)
		case <-ctx.Done():
			checks = append(checks, unknown(p.name, fmt.Errorf("no answer in time: %w", ctx.Err())))
		}
	}
	return checks
}

// guarded turns a panic into a finding: a doctor must not end the agent.
func (p part) guarded(ctx context.Context) (checks []session.Check) {
	defer func() {
		if cause := recover(); cause != nil {
			checks = []session.Check{unknown(p.name, fmt.Errorf("panic: %v", cause))}
		}
	}()
	return p.look(ctx)
}

func ok(name, format string, values ...any) session.Check {
	return session.Check{Name: name, Level: OK, Found: fmt.Sprintf(format, values...)}
}

// unknown is what could not be looked at.
func unknown(name string, err error) session.Check {
	check := session.Check{
		Name: name, Level: Warning, Found: fmt.Sprintf("unknown: %v", err),
		Advice: "ask again, on that host: pillion-agent doctor",
	}
	if errors.Is(err, fs.ErrPermission) {
		check.Advice = "run it as root to know: sudo pillion-agent doctor"
	}
	return check
}
