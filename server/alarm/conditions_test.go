package alarm

import (
	"maps"
	"strings"
	"testing"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/measuretest"
)

// flowsOf adds a row of flows of the pair a > b with these fields.
func (b *bed) flowsOf(fields measuretest.Fields) {
	b.t.Helper()
	all := measuretest.Fields{"time": b.now, "session": "s", "source": "a", "interval_ns": int64(time.Second)}
	maps.Copy(all, fields)
	if err := b.Add(archive.Batch{Agent: "b", Schema: &measure.Flows, Record: measuretest.Record(b.t, &measure.Flows, all)}); err != nil {
		b.t.Error(err)
	}
}

// sentBy adds a row of what a sent to b in the second before.
func (b *bed) sentBy(packets uint64) {
	b.t.Helper()
	record := measuretest.Record(b.t, &measure.Sent, measuretest.Fields{
		"time": b.now, "session": "s", "peer": "b", "interval_ns": int64(time.Second), "packets": packets,
	})
	if err := b.Add(archive.Batch{Agent: "a", Schema: &measure.Sent, Record: record}); err != nil {
		b.t.Error(err)
	}
}

// each lets seconds pass, in each of which add is called.
func (b *bed) each(seconds int, add func()) {
	for range seconds {
		b.now = b.now.Add(time.Second)
		add()
		b.Tick()
	}
}

// active returns the only active alarm.
func (b *bed) active() Alarm {
	b.t.Helper()
	var found []Alarm
	for _, a := range b.Alarms() {
		if a.Active() {
			found = append(found, a)
		}
	}
	if len(found) != 1 {
		b.t.Fatalf("active alarms: %+v", found)
	}
	return found[0]
}

func TestDelayRules(t *testing.T) {
	for on, slow := range map[string]uint64{DelayP50: 60, DelayP90: 14, DelayP99: 2, DelayMax: 1} {
		t.Run(on, func(t *testing.T) {
			b := bedOf(t, nil, Rule{Name: "slow", On: on, Above: "20ms", For: 2 * time.Second, Severity: "critical"})
			delays := func(slow uint64) func() {
				return func() {
					fields := measuretest.Fields{
						"packets": uint64(100), "expected": uint64(100), "lost": uint64(0), "delay_count": uint64(100),
						"delay_min_ns": int64(1e6), "delay_mean_ns": int64(2e6), "delay_max_ns": int64(1e6),
						"delay_bounds_ns": []int64{983040}, "delay_counts": []uint64{100},
					}
					if slow > 0 {
						fields["delay_max_ns"] = int64(40e6)
						fields["delay_bounds_ns"] = []int64{983040, 39845888}
						fields["delay_counts"] = []uint64{100 - slow, slow}
					}
					b.flowsOf(fields)
				}
			}
			b.each(20, delays(0))
			b.expect()
			b.each(14, delays(slow))
			a := b.active()
			if a.Labels["severity"] != "critical" || a.Labels["alertname"] != "slow" || a.Labels["source_site"] != "paris" || !strings.Contains(a.Summary, "took longer than 20.0 ms, at most 40.0 ms ("+on+")") {
				t.Errorf("got %+v", a)
			}
			b.each(50, delays(0))
			if len(b.events) != 2 || b.events[0].Kind != "alarm" || b.events[0].Level != "error" || b.events[1].Kind != "alarm-ended" {
				t.Errorf("events %+v", b.events)
			}
		})
	}
}

// TestSilence: packets are sent and none arrives, so that there are no rows of the destination.
func TestSilence(t *testing.T) {
	rules := []Rule{{Name: "silence", On: Silence}}
	arrives := func(b *bed) func() {
		return func() {
			b.sentBy(100)
			b.flowsOf(measuretest.Fields{"packets": uint64(100), "expected": uint64(100), "lost": uint64(0)})
		}
	}
	for name, test := range map[string]struct {
		before int
		rows   uint64
		away   bool
		want   bool
	}{
		"lost after it worked": {20, 100, false, true},
		"never worked":         {0, 100, false, true},
		"few packets":          {20, 1, false, false},
		"destination away":     {20, 100, true, false},
		"nothing is sent":      {20, 0, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := bedOf(t, rules)
			b.hosts.away = map[string]bool{"b": test.away}
			b.each(test.before, arrives(b))
			b.expect()
			b.each(5, func() { b.sentBy(test.rows) })
			if got := len(b.events) == 1; got != test.want {
				t.Fatalf("events %+v", b.events)
			}
			if !test.want {
				return
			}
			a := b.active()
			if a.Source != "a" || a.Destination != "b" || a.Labels["alertname"] != "silence" || !strings.HasPrefix(a.Summary, "a > b: no marked packet arrived for 3 s") {
				t.Errorf("got %+v", a)
			}
			b.each(20, func() { b.sentBy(100) })
			b.each(32, arrives(b))
			if len(b.events) != 2 || b.events[1].Kind != "silence-ended" || !strings.Contains(b.events[1].Message, "packets arrive again after") {
				t.Errorf("events %+v", b.events)
			}
		})
	}
}

// TestSilenceEndsWithTheTraffic: if the source sends nothing any more, nothing is known to be lost.
func TestSilenceEndsWithTheTraffic(t *testing.T) {
	b := bedOf(t, []Rule{{Name: "silence", On: Silence}})
	b.each(10, func() { b.sentBy(100) })
	b.active()
	b.each(91, func() {})
	if len(b.events) != 2 || !strings.Contains(b.events[1].Message, "no more packets are sent") {
		t.Errorf("events %+v", b.events)
	}
}

// TestFlowSilence: one flow is lost whole and others of the pair arrive.
func TestFlowSilence(t *testing.T) {
	b := bedOf(t, []Rule{{Name: "flow-silence", On: FlowSilence}})
	flow := func(port, packets, lost uint64) {
		b.flowsOf(measuretest.Fields{
			"src": "192.0.2.1", "dst": "192.0.2.2", "proto": "udp", "sport": 7, "dport": int(port),
			"packets": packets, "expected": packets + lost, "lost": lost,
		})
	}
	b.each(5, func() { flow(8, 0, 100) })
	b.expect() // the whole pair is silent
	b.each(5, func() { flow(9, 100, 0); flow(8, 0, 100) })
	a := b.active()
	if a.Labels["flow"] != "udp 192.0.2.1:7 > 192.0.2.2:8" || !strings.Contains(a.Summary, "lost whole: none of ") {
		t.Errorf("got %+v", a)
	}
	b.each(40, func() { flow(9, 100, 0); flow(8, 100, 0) })
	if len(b.events) != 2 || b.events[1].Kind != "flow-silence-ended" {
		t.Errorf("events %+v", b.events)
	}
	if b.flows != 0 {
		t.Errorf("%d flows are kept", b.flows)
	}
}

func TestAgentSilence(t *testing.T) {
	b := bedOf(t, nil, Rule{Name: "agent-down", On: AgentSilence, Agents: []string{"site=paris"}, For: 5 * time.Second, KeepFiringFor: time.Second})
	b.hosts.unheard = []string{"a", "b"}
	b.each(4, func() {})
	b.expect()
	b.each(3, func() {})
	if a := b.active(); a.Agent != "a" || a.Labels["agent"] != "a" {
		t.Errorf("got %+v", a)
	}
	b.hosts.unheard = nil
	b.each(3, func() {})
	if len(b.events) != 2 || len(b.others) != 0 {
		t.Errorf("events %+v, kept %v", b.events, b.others)
	}
}

func TestPathChange(t *testing.T) {
	b := bedOf(t, nil, Rule{Name: "path", On: Path, Destinations: []string{"role=core"}, KeepFiringFor: 10 * time.Second})
	b.PathChanged(b.now, "s", "b", "a", "not selected")
	b.PathChanged(b.now, "s", "a", "b", "the path from a to b changed")
	if a := b.active(); a.Summary != "the path from a to b changed" || a.Source != "a" {
		t.Errorf("got %+v", a)
	}
	b.each(8, func() {})
	b.PathChanged(b.now, "s", "a", "b", "it changed again")
	b.each(9, func() {})
	b.active()
	b.each(2, func() {})
	b.expect("alarm: path: the path from a to b changed", "alarm-ended: path: a > b: the path is stable after 18 s, no further change for 10 s")
}

// TestIDOutlivesASite: an agent that gets another site has no other alarms than before.
func TestIDOutlivesASite(t *testing.T) {
	b := newBed(t)
	k := key{usual.Name, Subject{Session: "s", Source: "a", Destination: "b"}}
	var ids []string
	for _, site := range []string{"paris", "lyon"} {
		b.hosts.labels["a"] = map[string]string{"site": site}
		b.restart([]Rule{usual})
		b.begin(k, b.rules[0], &phase{since: b.now}, b.now, "lost packets")
		one := b.Alarms()[0]
		if one.Labels[labelSourceSite] != site {
			t.Errorf("labels %v, want the site %s", one.Labels, site)
		}
		ids = append(ids, one.ID)
	}
	if ids[0] != ids[1] {
		t.Errorf("IDs %q of the same pair", ids)
	}
}

// TestRestart: a server that starts again, or comes to lead, continues with the alarms of before.
func TestRestart(t *testing.T) {
	b := newBed(t)
	b.seconds(20, 1000, 100)
	id := b.active().ID
	if err := b.Acknowledge(t.Context(), id, "ann", "line is being repaired", false); err != nil {
		t.Fatal(err)
	}
	silence, err := b.Silence(t.Context(), []string{"source=a"}, time.Hour, "ann", "")
	if err != nil {
		t.Fatal(err)
	}
	b.save()
	b.events = nil
	b.restart([]Rule{usual})
	if a := b.active(); a.ID != id || a.Acknowledged == nil || a.Acknowledged.By != "ann" || len(a.SilencedBy) != 1 || a.SilencedBy[0] != silence.ID {
		t.Errorf("got %+v", a)
	}
	b.seconds(20, 1000, 100)
	b.expect()
	b.seconds(45, 1000, 0)
	if len(b.events) != 1 || b.events[0].Kind != "loss-ended" {
		t.Errorf("events %+v", b.events)
	}
	// What fires while nobody leads is an alarm of the next server that does.
	b.Unload()
	b.seconds(20, 1000, 100)
	if len(b.events) != 1 {
		t.Errorf("events %+v", b.events)
	}
	if err := b.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.active()
	// A rule that is removed ends its alarms.
	b.save()
	b.restart(nil)
	if active, _ := b.Active(); active != 0 {
		t.Errorf("%d alarms of a removed rule are active", active)
	}
}

func TestSilencesExpire(t *testing.T) {
	b := newBed(t)
	b.seconds(20, 1000, 100)
	if _, err := b.Silence(t.Context(), []string{"source=~a|c", "alertname!=path"}, 10*time.Second, "ann", ""); err != nil {
		t.Fatal(err)
	}
	if a := b.active(); len(a.SilencedBy) != 1 {
		t.Errorf("got %+v", a)
	}
	b.seconds(11, 1000, 100)
	if a := b.active(); len(a.SilencedBy) != 0 {
		t.Errorf("got %+v", a)
	}
	silence, err := b.Silence(t.Context(), []string{"source=a"}, time.Hour, "ann", "")
	if err == nil {
		err = b.Expire(t.Context(), silence.ID)
	}
	if a := b.active(); err != nil || len(a.SilencedBy) != 0 || len(b.Silences()) != 2 {
		t.Errorf("got %v, %+v, %+v", err, a, b.Silences())
	}
	for name, call := range map[string]func() error{
		"unknown alarm":   func() error { return b.Acknowledge(t.Context(), "0", "ann", "", false) },
		"unknown silence": func() error { return b.Expire(t.Context(), "0") },
		"no matchers":     func() error { _, err := b.Silence(t.Context(), nil, time.Hour, "ann", ""); return err },
		"no end":          func() error { _, err := b.Silence(t.Context(), []string{"a=b"}, 0, "ann", ""); return err },
		"long comment": func() error {
			return b.Acknowledge(t.Context(), b.active().ID, "ann", strings.Repeat("x", 501), false)
		},
	} {
		if call() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestLabelsChange: an alarm ends when another rule replaces its own, by labels of agents that change.
func TestLabelsChange(t *testing.T) {
	b := bedOf(t, []Rule{usual}, Rule{Name: "lyon", On: Loss, Above: "50%", Sources: []string{"site=lyon"}})
	b.seconds(20, 1000, 100)
	b.active()
	b.hosts.labels = map[string]map[string]string{"a": {"site": "lyon"}}
	b.seconds(10, 1000, 100)
	if active, _ := b.Active(); active != 0 || len(b.events) != 2 || b.events[1].Kind != "loss-ended" || !strings.Contains(b.events[1].Message, "labels of agents have changed") {
		t.Errorf("%d are active, events %+v", active, b.events)
	}
}
