package host

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"pillion.dev/measure"
)

// TestNmetrics: only the chosen points are sampled, and totals are correct.
func TestNmetrics(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := map[string]measure.Sample{}
	s := &Sampler{Interval: time.Hour, Points: Nmetrics(), Processes: []string{strconv.Itoa(os.Getpid())}}
	s.Sink = func(schema *measure.Schema, samples []measure.Sample) error {
		checkFits(t, schema, samples)
		if got[schema.Name] = samples[0]; len(got) == 4 {
			cancel()
		}
		return nil
	}
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
	cpu, memory := got["nmetrics_cpu"], got["nmetrics_memory"]
	if len(got) != 4 || got["nmetrics_process"] == nil || cpu == nil || memory == nil || got["nmetrics_net"] == nil {
		t.Fatalf("got %v", got)
	}
	var sum uint64
	for _, v := range cpu[1:9] {
		sum += v.Uint64()
	}
	if total := cpu[9].Uint64(); total == 0 || total > sum+8 || sum > total+8 {
		t.Errorf("total %d, the parts %d ms", total, sum)
	}
	total := memory[2].Uint64()
	if memory[1].Uint64() != total>>20 || memory[3].Uint64()+memory[4].Uint64() != total || memory[5].Uint64()+memory[6].Uint64() != total {
		t.Errorf("memory %v", memory)
	}
	if s.Clock().By == "" {
		t.Error("the state has no clock")
	}
}
