package routerreport

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pillion.dev/probe/router"
)

// TestNotMeasured: statistics of no packet, and of no break, are null.
func TestNotMeasured(t *testing.T) {
	now := router.Snapshot{Time: time.Unix(2, 0), Pairs: []router.Pair{{}}, Queues: []router.Queue{{}}, Costs: []router.Cost{}}
	for name, v := range map[string]any{
		"summary": newSummary(time.Unix(1, 0), time.Second, 0, now), "interval": newInterval(time.Unix(1, 0), router.Snapshot{Time: time.Unix(1, 0)}, now, 0),
	} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		for _, zero := range []string{`"p50":0`, `"mean":0`, `"max":0`, `"found_mean":0`, `"mean_wait_ns":0`, `"longest_ns":0`, `"hook_ns":0`, `"packet_ns":0`, `"p50_packets_between":0`} {
			if strings.Contains(string(text), zero) {
				t.Errorf("%s has %s:\n%s", name, zero, text)
			}
		}
	}
}
