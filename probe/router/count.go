package router

import (
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// CountCosts lets the kernel count what the programs cost, or no longer; snapshots have
// what was counted. Counting costs more than most programs do: who wants delays as they
// are counts for a part of the time only.
func (r *Router) CountCosts(on bool) (err error) {
	switch {
	case on && r.stats == nil:
		if r.stats, err = ebpf.EnableStats(unix.BPF_STATS_RUN_TIME); err != nil {
			return fmt.Errorf("count costs: %w", err)
		}
		r.counted = true
	case !on && r.stats != nil:
		err, r.stats = r.stats.Close(), nil
		if err != nil {
			return fmt.Errorf("count no more costs: %w", err)
		}
	}
	return nil
}
