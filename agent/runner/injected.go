package runner

import (
	"context"
	"time"
)

// injectedEvery is the interval at which programs follow an injected clock: it drifts by less than a
// microsecond meanwhile.
const injectedEvery = 5 * time.Millisecond

// followInjected keeps the programs' clocks at the injected one until the context ends. It waits for no lock, since a
// clock does not stand still meanwhile.
func (r *Runner) followInjected(ctx context.Context) {
	ticks := time.NewTicker(injectedEvery)
	defer ticks.Stop()
	probes := map[any]interface{ FollowClock() error }{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		if r.mu.TryLock() {
			for device := range probes {
				switch d := device.(type) {
				case *deviceDestination:
					if r.destinations[d.device.Name] != d {
						delete(probes, device)
					}
				case *deviceSource:
					if r.sources[d.device.Name] != d {
						delete(probes, device)
					}
				}
			}
			for _, d := range r.destinations {
				if d.mu.TryLock() {
					probes[d] = d.probe
					d.mu.Unlock()
				}
			}
			for _, s := range r.sources {
				if s.probe != nil {
					probes[s] = s.probe
				}
			}
			r.mu.Unlock()
		}
		for _, p := range probes {
			_ = p.FollowClock() // of a program that was just closed
		}
	}
}
