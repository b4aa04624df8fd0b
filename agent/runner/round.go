package runner

import (
	"slices"
	"time"

	"pillion.dev/measure"
	"pillion.dev/measure/module"
	"pillion.dev/probe/flow"
	"pillion.dev/probe/source"
	"pillion.dev/wire/fivetuple"
)

// roundsMost bounds the flows of one task and interval; those beyond it are counted.
const roundsMost = 16384

// roundTrips are the round trips of a session's flows in an interval.
type roundTrips struct {
	flows   map[flow.Key]source.Round
	dropped uint64 // flows for which there was no room
}

// readRounds says how round trips are read.
func (r *sentReader) readRounds(read func() ([]source.Round, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rounds = read
}

// asksForRounds reports whether the session measures round trips.
func asksForRounds(task sourceTask) bool { return slices.Contains(task.Modules, module.RoundTrip.Name) }

// enterRounds adds the round trips since the last reading to the tasks that measure them.
func (r *sentReader) enterRounds() {
	if r.rounds == nil || !slices.ContainsFunc(r.tasks, func(t *sentTask) bool { return asksForRounds(t.sourceTask) }) {
		return
	}
	rounds, err := r.rounds()
	if err != nil {
		r.err = err
		r.log.Warn("read round trips", "device", r.device, "error", err)
		return
	}
	for _, one := range rounds {
		for _, t := range r.tasks {
			if asksForRounds(t.sourceTask) && t.measures(one.Key) {
				t.trips.add(one)
			}
		}
	}
}

func (t *roundTrips) add(one source.Round) {
	known, ok := t.flows[one.Key]
	switch {
	case ok:
		known.Add(one)
	case len(t.flows) >= roundsMost:
		t.dropped++
		return
	default:
		known = one
	}
	if t.flows == nil {
		t.flows = map[flow.Key]source.Round{}
	}
	t.flows[one.Key] = known
}

// droppedRounds returns how many times a flow of a session had round trips that are in no row.
func (r *sentReader) droppedRounds(session string) (dropped uint64) {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tasks {
		if t.Session == session {
			dropped += t.trips.dropped
		}
	}
	return dropped
}

// emitRounds delivers the rows of a period.
func (r *sentReader) emitRounds(t *sentTask, now moment) {
	for _, one := range t.trips.flows {
		r.sink(&measure.RoundTrips, r.roundRow(t, &one, now))
	}
	clear(t.trips.flows)
}

func (r *sentReader) roundRow(t *sentTask, one *source.Round, now moment) measure.Sample {
	row := measure.Sample{
		measure.TimeValue(now.day), measure.StringValue(t.Session), measure.StringValue(t.peers[one.Key.Dst]),
		measure.StringValue(r.device), measure.StringValue(addressText(one.Key.Src)), measure.StringValue(addressText(one.Key.Dst)),
		measure.StringValue(fivetuple.ProtocolName(one.Key.Protocol)),
		measure.Uint32Value(uint32(one.Key.Sport)), measure.Uint32Value(uint32(one.Key.Dport)),
		measure.Int64Value(int64(t.period.length(now))), measure.Uint64Value(one.Count), measure.Uint64Value(one.Strange),
	}
	if one.Count == 0 {
		return append(row, make(measure.Sample, 10)...)
	}
	for _, span := range []source.Span{one.Round, one.Host, one.Network} {
		for _, d := range []time.Duration{span.Min, span.Mean(one.Count), span.Max} {
			row = append(row, measure.Int64Value(int64(d)))
		}
	}
	return append(row, measure.Int64Value(int64(one.Uncertainty)))
}
