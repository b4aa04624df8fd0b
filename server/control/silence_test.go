package control

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/measuretest"
	"pillion.dev/server/alarm"
	"pillion.dev/server/event"
	"pillion.dev/server/store"
	"pillion.dev/session"
)

// silenceBed sends packets from h1 to h2 while h1 has a lease, and evaluates the rows of both by a rule on silence.
type silenceBed struct {
	*testbed
	alarms   *alarm.Evaluator
	folder   string
	random   *rand.Rand
	ticks    int
	cut      bool
	sent     uint64
	received uint64
	// rows wait for the server and for the agent's connection.
	rows   []lateRow
	raised []event.Event
}

type lateRow struct {
	agent  string
	at     time.Time
	schema *measure.Schema
	fields measuretest.Fields
}

// silenceStep is the resolution of the simulation: silenceTicks are a second.
const (
	silenceStep  = 100 * time.Millisecond
	silenceTicks = int(time.Second / silenceStep)
	silentPhase  = 3 // by which the rows of h2 come later than the rows of h1, in steps
)

// Event implements event.Sink for the events of alarms.
func (b *silenceBed) Event(e event.Event) { b.raised = append(b.raised, e) }

// open makes an Evaluator that has seen nothing.
func (b *silenceBed) open() {
	rules, err := alarm.CompleteRules(nil, []alarm.Rule{{Name: "silence", On: alarm.Silence}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.alarms = alarm.New(alarm.Options{
		Rules: rules, PairsMost: 100, AlarmsMost: 100, Events: b, Agents: b.control, Store: store.NewFiles(b.folder),
	})
	if err := b.alarms.Load(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// run lets time pass, with the server or without it.
func (b *silenceBed) run(d time.Duration, up bool) {
	for range int(d / silenceStep) {
		b.pass(silenceStep)
		b.ticks++
		now := time.Now()
		marking := b.marks("h1", "web", "h2")
		reading := false
		b.on("h2", func(h *host) { reading = reads(h.applied, "web", "h1") })
		if marking {
			b.sent += 10
			if reading && !b.cut {
				b.received += 10
			}
		}
		if b.ticks%silenceTicks == 0 && b.sent > 0 {
			b.row("h1", &measure.Sent, 400, measuretest.Fields{"peer": "h2", "packets": b.sent})
			b.sent = 0
		}
		if b.ticks%silenceTicks == silentPhase && b.received > 0 {
			b.row("h2", &measure.Flows, 900, measuretest.Fields{"source": "h1", "packets": b.received, "expected": b.received, "lost": uint64(0)})
			b.received = 0
		}
		if !up {
			continue
		}
		waiting := b.rows
		b.rows = nil
		for _, r := range waiting {
			connected := false
			b.on(r.agent, func(h *host) { connected = h.connected })
			if !connected || now.Before(r.at) {
				b.rows = append(b.rows, r)
				continue
			}
			batch := archive.Batch{Agent: r.agent, Schema: r.schema, Record: measuretest.Record(b.t, r.schema, r.fields)}
			if err := b.alarms.Add(batch); err != nil {
				b.t.Error(err)
			}
		}
		if b.ticks%silenceTicks == 0 {
			b.alarms.Tick()
		}
	}
}

// row puts a row into the spool of an agent, from which it goes to the server within some time.
func (b *silenceBed) row(agent string, schema *measure.Schema, lateMs int, fields measuretest.Fields) {
	fields["time"], fields["session"], fields["interval_ns"] = time.Now(), "web", int64(time.Second)
	at := time.Now().Add(time.Duration(b.random.IntN(lateMs)) * time.Millisecond)
	b.rows = append(b.rows, lateRow{agent, at, schema, fields})
}

// end ends the process of h2, in an orderly way or not, and what it has not yet put into its spool is lost.
func (b *silenceBed) end(orderly bool) {
	var text []byte
	b.on("h2", func(h *host) {
		h.stopping = orderly
		text = h.state(b.t)
		h.connected, h.stopping, h.applied, h.pinned = false, false, session.Assignment{}, h.applied
	})
	if orderly {
		b.control.HandleState("h2", text)
	}
	b.received = 0
}

// TestRestartsRaiseNoSilence: stops, kills and restarts of agents and of the server are no silence of the network; a
// cut is.
func TestRestartsRaiseNoSilence(t *testing.T) {
	const disturbances = 100
	bed(t, func(b *testbed) {
		b.pass(silenceStep / 2) // so that nothing coincides with reports
		b.join("h1", "h2")
		b.create(web())
		s := &silenceBed{testbed: b, folder: t.TempDir(), random: rand.New(rand.NewPCG(1, 2))}
		s.open()
		s.run(20*time.Second, true)
		for i := range disturbances {
			before := len(s.raised)
			kinds := []string{"stop", "kill", "disconnection", "restart of the server"}
			kind, away := kinds[i%len(kinds)], time.Duration(1+s.random.IntN(200))*silenceStep
			switch kind {
			case "stop", "kill":
				s.end(kind == "stop")
				s.run(away, true)
				b.on("h2", func(h *host) { h.instance, h.connected = fmt.Sprint("h2-", i+2), true })
			case "disconnection":
				b.on("h2", func(h *host) { h.connected = false })
				s.run(away, true)
				b.on("h2", func(h *host) { h.connected = true })
			default:
				b.stop()
				s.run(away/4, false)
				b.boot()
				s.open()
			}
			s.run(25*time.Second, true)
			for _, e := range s.raised[before:] {
				t.Errorf("%s of %v, number %d: %s: %s", kind, away, i, e.Kind, e.Message)
			}
			if !b.marks("h1", "web", "h2") {
				t.Fatalf("h1 does not mark after %s of %v", kind, away)
			}
		}
		s.raised, s.cut = nil, true
		s.run(10*time.Second, true)
		if len(s.raised) != 1 || s.raised[0].Kind != "alarm" {
			t.Errorf("a cut raises %+v", s.raised)
		}
	})
}

// TestStoppedAgent: an agent that says that it stops is away at once, and back when its next process reports.
func TestStoppedAgent(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		b.create(web())
		b.state("web", Running)
		b.until("h1 marks", func() bool { return b.marks("h1", "web", "h2") })
		(&silenceBed{testbed: b}).end(true)
		if a, err := b.control.Agent("h2"); err != nil || a.State != Away || b.eventCount("agent-lost") != 1 {
			t.Errorf("state %q, %v, events %v", a.State, err, b.events)
		}
		if from, until := b.control.Covers("web", "h2"); !from.IsZero() || !until.IsZero() {
			t.Errorf("it covers %v to %v", from, until)
		}
		b.on("h2", func(h *host) { h.instance, h.connected = "h2-2", true })
		b.until("h2 is connected", func() bool { a, err := b.control.Agent("h2"); return err == nil && a.State == Connected })
		b.pass(10 * time.Second)
		if n := b.eventCount("agent-lost"); n != 1 {
			t.Errorf("%d events of its loss", n)
		}
	})
}
