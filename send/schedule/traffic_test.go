package schedule

import (
	"fmt"
	"testing"
	"time"

	"pillion.dev/send/model"
)

// TestTraffic: flows are merged in the order of their times, and each is the one that is
// drawn alone.
func TestTraffic(t *testing.T) {
	m, err := model.ParseModel("interval=exponential(1ms) size=uniform(100B,200B) seed=5 count=1000")
	if err != nil {
		t.Fatal(err)
	}
	const flows = 7
	seen := 0
	all := collect(t, Traffic(m, flows, func(i int) string { return fmt.Sprint("flow", i) }, func(int, model.Packet) { seen++ }))
	if len(all) != flows*1000 || seen != len(all) {
		t.Fatalf("%d packets, %d seen", len(all), seen)
	}
	var alone [flows]*model.Flow
	for i := range alone {
		alone[i] = m.Flow(uint64(i))
	}
	var last time.Duration
	var numbers [flows]uint32
	for _, e := range all {
		p, ok := alone[e.Train].Next()
		if !ok || e.Due < last || e.Due != p.Due || e.Size != p.Size || e.Number != numbers[e.Train] || e.Flow != fmt.Sprint("flow", e.Train) {
			t.Fatalf("%+v behind %v, want %+v", e, last, p)
		}
		numbers[e.Train]++
		last = e.Due
	}
}
