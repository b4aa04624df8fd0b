package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// killed are the programs of a fleet that are killed half way: the server that the API's port
// leads to, and a replica of a shard.
var killed = []string{"server-n1", "clickhouse-c2"}

// downTime is how long they are away.
const downTime = 4 * time.Second

// killHalfWay kills programs of a fleet in the middle of the traffic and starts them again. What it
// returns waits until they run.
func (d *demo) killHalfWay(ctx context.Context) (wait func() error) {
	if !d.options.Fleet {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() { done <- d.kill(ctx) }()
	return func() error { return <-done }
}

func (d *demo) kill(ctx context.Context) error {
	pause := func(length time.Duration) {
		select {
		case <-ctx.Done():
		case <-time.After(length):
		}
	}
	pause(d.options.Time / 2)
	for _, name := range killed {
		if err := d.lab.KillService(name); err != nil {
			return err
		}
	}
	fmt.Fprintf(d.out, "\n--- killed: %s; started again in %v ---\n\n", strings.Join(killed, ", "), downTime)
	pause(downTime)
	var failed error
	for _, name := range killed {
		failed = errors.Join(failed, d.lab.StartService(context.WithoutCancel(ctx), name))
	}
	return failed
}
