// Package every calls a function at an interval.
package every

import (
	"context"
	"time"
)

// Do calls do at each interval until the context ends, for the first time after one. A call that
// takes longer delays the next one.
func Do(ctx context.Context, interval time.Duration, do func()) {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			do()
		}
	}
}
