// Package doctor checks whether a host is fit to measure: kernel features,
// capabilities, clock, disk and memory, network devices and the BPF programs on
// them, and the paths to peers.
//
// It changes nothing on the host. The functions that read the state of the host are separate from
// the functions that judge it, so that tests can judge the state of any host. It takes no part in a
// measurement: the server requests the checks, and so does the command line.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"pillion.dev/agent/identity"
	"pillion.dev/probe/destination"
	"pillion.dev/probe/source"
	"pillion.dev/session"
)

// Levels of a check.
const (
	OK      = session.LevelOK
	Warning = session.LevelWarning
	Error   = session.LevelError
)

// checkTimeout bounds all checks together; a check without a result by then is unknown.
const checkTimeout = 4500 * time.Millisecond

// Options configure Check.
type Options struct {
	// Peers to check the paths to.
	Peers []session.Peer
	// Paths of the sources that run in this process.
	Paths []Path
	// Folder holds the agent's spool; default identity.DefaultFolder.
	Folder string
}

// part checks one area.
type part struct {
	name string
	run  func(context.Context) []session.Check
	// heavy parts would delay the results of others: they start after the parts before the first heavy one have ended.
	heavy bool
}

// Check runs all checks in parallel and returns within 5 s. A check that cannot be carried out
// is a warning.
func Check(ctx context.Context, options Options) []session.Check {
	options.Folder = cmp.Or(options.Folder, identity.DefaultFolder)
	return examine(ctx, checkTimeout, []part{
		{name: "kernel", run: checkKernel},
		{name: "capabilities", run: func(context.Context) []session.Check { return checkCapabilities() }},
		{name: "clock", run: checkClock},
		{name: "resources", run: func(context.Context) []session.Check { return checkResources(options.Folder) }},
		{name: "devices", run: func(context.Context) []session.Check { return checkDevices() }},
		{name: "ioam", run: func(context.Context) []session.Check { return checkIOAM() }},
		{programSource, func(context.Context) []session.Check { return checkProgram(programSource, source.Try) }, true},
		{programDestination, func(context.Context) []session.Check { return checkProgram(programDestination, destination.Try) }, true},
		{name: "port", run: checkPort},
		{name: "peers", run: func(ctx context.Context) []session.Check { return checkPeers(ctx, options.Peers) }},
		{name: "paths", run: func(context.Context) []session.Check { return judgePaths(options.Paths) }},
	})
}

// examine runs the parts in parallel and returns their checks in the order of parts.
func examine(ctx context.Context, timeout time.Duration, parts []part) []session.Check {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answers := make([]chan []session.Check, len(parts))
	var before sync.WaitGroup
	counts := true
	for i, p := range parts {
		answers[i] = make(chan []session.Check, 1)
		answer := func() { answers[i] <- p.guarded(ctx) }
		counts = counts && !p.heavy
		switch {
		case counts:
			before.Go(answer)
		case p.heavy:
			go func() { before.Wait(); answer() }()
		default:
			go answer()
		}
	}
	var checks []session.Check
	for i, p := range parts {
		select {
		case found := <-answers[i]:
			checks = append(checks, found...)
		case <-ctx.Done():
			select {
			case found := <-answers[i]:
				checks = append(checks, found...)
			default:
				checks = append(checks, unknown(p.name, fmt.Errorf("timed out: %w", ctx.Err())))
			}
		}
	}
	return checks
}

// guarded runs a part and returns a warning if it panics: a check must not crash the agent.
func (p part) guarded(ctx context.Context) (checks []session.Check) {
	defer func() {
		if cause := recover(); cause != nil {
			checks = []session.Check{unknown(p.name, fmt.Errorf("panic: %v", cause))}
		}
	}()
	return p.run(ctx)
}

const rootAdvice = "repeat the check as root: sudo pillion-agent doctor"

func ok(name, format string, values ...any) session.Check {
	return session.Check{Name: name, Level: OK, Found: fmt.Sprintf(format, values...)}
}

// unknown returns the warning for a check that could not be carried out.
func unknown(name string, err error) session.Check {
	check := session.Check{
		Name: name, Level: Warning, Found: fmt.Sprintf("unknown: %v", err),
		Advice: "repeat the check on that host: pillion-agent doctor",
	}
	if errors.Is(err, fs.ErrPermission) {
		check.Advice = rootAdvice
	}
	return check
}
