package hook

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf"
)

// Cost is what programs cost since they were loaded.
type Cost struct {
	// Time of the processors, all together.
	Time time.Duration
	Runs uint64
}

// CostOf adds up what the kernel counts of the programs. Counted is false where it
// does not count: that takes kernel.bpf_stats_enabled = 1, which costs some tens of
// nanoseconds a packet itself.
func CostOf(programs ...*ebpf.Program) (cost Cost, counted bool, err error) {
	text, err := os.ReadFile("/proc/sys/kernel/bpf_stats_enabled")
	if err != nil || !bytes.Equal(bytes.TrimSpace(text), []byte("1")) {
		return cost, false, nil
	}
	for _, program := range programs {
		stats, err := program.Stats()
		if err != nil {
			return cost, false, fmt.Errorf("read cost of program: %w", err)
		}
		cost.Time += stats.Runtime
		cost.Runs += stats.RunCount
	}
	return cost, true, nil
}
