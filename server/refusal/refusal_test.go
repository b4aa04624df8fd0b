package refusal

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pillion.dev/internal/quota"
	"pillion.dev/server/event"
)

type sink []event.Event

func (s *sink) Event(e event.Event) { *s = append(*s, e) }
func (s *sink) Change(event.Change) {}

// TestRefusalsAreCountedNotRepeated: each is counted, and one event a minute names the
// originator, the quota and the number.
func TestRefusalsAreCountedNotRepeated(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var events sink
	l := New(&events)
	l.now = func() time.Time { return now }
	full := fmt.Errorf("store: %w", &quota.Error{Quota: "streams", Limit: 3, Unit: "streams for each agent", What: `create stream "x"`})
	for range 1000 {
		l.Agent("evil", full)
	}
	l.Agent("odd", errors.New("truncated"))
	l.Source("192.0.2.1", full)
	now = now.Add(time.Minute)
	l.Agent("evil", full)
	if c := l.Counts(); c["streams"] != 1002 || c[Invalid] != 1 {
		t.Errorf("counts %v", c)
	}
	if len(events) != 4 || events[0].Agent != "evil" || events[0].Kind != "quota-reached" || events[1].Kind != "data-refused" ||
		!strings.Contains(events[0].Message, "the limit is 3 streams for each agent (quotas.streams)") ||
		!strings.Contains(events[2].Message, "192.0.2.1") || !strings.Contains(events[3].Message, "999 times more") {
		t.Errorf("events %+v", events)
	}
	for n := range 3 * originatorsMost {
		l.Source(fmt.Sprint(n), full)
	}
	if len(l.recent) > originatorsMost {
		t.Errorf("%d originators are told apart", len(l.recent))
	}
}
