// Alarms is the load of the experiment on how soon the server notifies of what goes wrong in the network: one call is
// one run. It builds a lab in which two hosts send to each other through routers and a session measures them, injects a
// fault, and prints one JSON object with the times from the fault until a webhook, and an e-mail by SMTP, have been
// received. Rules and receivers have their defaults.
//
// It needs root and the built programs. The experiment is study/bench/alarms.yaml. What it does not prove: rows of the last
// interval are on time, since nothing else runs on the hosts and the server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"pillion.dev/lab"
	"pillion.dev/lab/emulator"
	"pillion.dev/study/bench/result"
)

// fault is something that happens to the packets from a to b.
type fault struct {
	// rule is the name of the rule whose alarm is awaited.
	rule string
	// ready is a condition that holds once the server knows enough of the time before the fault, in SQL.
	ready string
	// inject makes it happen; with each network namespace the lab goes away, and the fault with it.
	inject func(ctx context.Context, l *lab.Lab) error
}

// warm holds once rows of so many seconds are stored: windows of rules are full.
func warm(seconds int) string {
	return fmt.Sprintf("SELECT count(DISTINCT time_bucket(INTERVAL 1 SECOND, time)) >= %d FROM flows", seconds)
}

// faults by name.
var faults = map[string]fault{
	"loss":    {"loss", warm(12), lossOf(0.1)},
	"silence": {"silence", warm(5), lossOf(1)},
	"flow": {"flow-silence", warm(5), func(ctx context.Context, l *lab.Lab) error {
		return execute(ctx, l, "r1", "nft", fmt.Sprintf("table ip fault { chain forward { type filter hook forward priority 0; meta length > %d drop; }; }", largeBytes))
	}},
	"path": {"path", "SELECT count(*) >= 2 FROM hops WHERE address = '" + farAddress + "'", func(ctx context.Context, l *lab.Lab) error {
		return execute(ctx, l, "r1", "ip", "route", "replace", farAddress+"/32", "via", detourAddress)
	}},
}

func lossOf(share float64) func(context.Context, *lab.Lab) error {
	return func(ctx context.Context, l *lab.Lab) error {
		loss := emulator.Fraction(share)
		return l.Change(ctx, "r1-r2", "r1", emulator.Change{Loss: &loss})
	}
}

func execute(ctx context.Context, l *lab.Lab, host string, command ...string) error {
	if text, err := l.Exec(ctx, host, command...); err != nil {
		return fmt.Errorf("run %s in %s: %w: %s", command[0], host, err, strings.TrimSpace(string(text)))
	}
	return nil
}

// limit is how long everything may take.
const limit = 2 * time.Minute

func main() { result.Only("alarms", result.Root(command)) }

func command(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	bin := f.String("bin", "bin", "folder of the programs")
	name := f.String("fault", "loss", "what happens: "+strings.Join(slices.Sorted(maps.Keys(faults)), ", "))
	return func(ctx context.Context) (result.Result, error) {
		chosen, known := faults[*name]
		if !known {
			return nil, fmt.Errorf("invalid -fault %q: want %s", *name, strings.Join(slices.Sorted(maps.Keys(faults)), ", "))
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return measure(ctx, *bin, chosen)
	}
}

// measure injects a fault, and waits for both notifications.
func measure(ctx context.Context, bin string, chosen fault) (r result.Result, err error) {
	folder, err := os.MkdirTemp("", "pillion-alarms-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	b, err := build(ctx, bin, folder)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.prepare(ctx, chosen); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := chosen.inject(ctx, b.lab); err != nil {
		return nil, fmt.Errorf("inject %s: %w", chosen.rule, err)
	}
	r = result.Result{}
	for name, heard := range map[string]<-chan time.Time{"webhook_s": b.webhooks.Of(chosen.rule), "email_s": b.mails.Of(chosen.rule)} {
		select {
		case at := <-heard:
			r[name] = at.Sub(began).Seconds()
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for %s of the alarm %s: %w", strings.TrimSuffix(name, "_s"), chosen.rule, ctx.Err())
		}
	}
	return r, nil
}
