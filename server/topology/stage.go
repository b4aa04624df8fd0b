package topology

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/measure"
)

const (
	// devicePairsMost bounds the pairs of interfaces of a router.
	devicePairsMost = 256
	// stageRows is how many intervals of a pair of interfaces are kept.
	stageRows = 4
	// stagesKept is how long stages are shown beside a traceroute, which lasts no interval of its
	// own: the last ones count.
	stagesKept = time.Minute
)

// Stage is a part of the way through a router: input_queuing, processing, output_queuing, or
// transit, the sum of these.
type Stage struct {
	Stage                string
	Packets              uint64
	MeanNs, P50Ns, P99Ns int64
}

// devicePair are the interfaces by which packets came into a router and left it.
type devicePair struct{ input, output string }

// routerStages are the last intervals of each pair of interfaces, the newest first. It is not
// changed.
type routerStages map[devicePair][]stageTimes

// stageTimes are the stages in an interval.
type stageTimes struct {
	end      time.Time
	interval time.Duration
	session  string
	stages   []Stage // in the order of the way
}

var stageOrder = []string{"input_queuing", "processing", "output_queuing", "transit"}

// AddStages takes rows of the stream router that an agent delivered.
func (t *Topology) AddStages(agent string, record arrow.RecordBatch) error {
	columns, err := columnsOf(record, &measure.Router)
	if err != nil {
		return fmt.Errorf("add stages of router %q: %w", agent, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	routers := t.stages[agent].copy()
	for i := range int(record.NumRows()) {
		row := rowOf{columns, i}
		place := slices.Index(stageOrder, row.value("stage").Text())
		pair := devicePair{row.text("input"), row.text("output")}
		if place < 0 || pair.input == "" || len(pair.input)+len(pair.output) > textMost ||
			routers[pair] == nil && len(routers) >= devicePairsMost {
			continue
		}
		routers.add(pair, stageTimes{
			end: row.value("time").Time(), interval: time.Duration(row.value("interval_ns").Int64()), session: row.text("session"),
			stages: []Stage{{
				Stage: stageOrder[place], Packets: row.value("packets").Uint64(), MeanNs: row.value("delay_mean_ns").Int64(),
				P50Ns: row.value("delay_p50_ns").Int64(), P99Ns: row.value("delay_p99_ns").Int64(),
			}},
		})
	}
	t.stages[agent] = routers
	return nil
}

func (r routerStages) copy() routerStages {
	all := maps.Clone(r)
	if all == nil {
		all = routerStages{}
	}
	return all
}

// add puts one stage of an interval beside its others. Several sessions that profile a router
// see the same packets: the first that delivered rows of an interval counts.
func (r routerStages) add(pair devicePair, one stageTimes) {
	times := slices.Clone(r[pair])
	i := slices.IndexFunc(times, func(s stageTimes) bool { return s.end.Equal(one.end) })
	switch {
	case i < 0:
		times = append(times, one)
	case times[i].session != one.session:
		return
	default:
		added := slices.DeleteFunc(slices.Clone(times[i].stages), func(s Stage) bool { return s.Stage == one.stages[0].Stage })
		added = append(added, one.stages[0])
		slices.SortFunc(added, func(a, b Stage) int {
			return cmp.Compare(slices.Index(stageOrder, a.Stage), slices.Index(stageOrder, b.Stage))
		})
		times[i].stages = added
	}
	slices.SortFunc(times, func(a, b stageTimes) int { return b.end.Compare(a.end) })
	r[pair] = times[:min(len(times), stageRows)]
}

// latestStages drops routers that are no longer profiled. The caller does not hold the lock.
func (t *Topology) latestStages() map[string]routerStages {
	t.mu.Lock()
	defer t.mu.Unlock()
	oldest := t.now().Add(-keep)
	for agent, routers := range t.stages {
		current := routers.copy()
		maps.DeleteFunc(current, func(_ devicePair, times []stageTimes) bool { return times[0].end.Before(oldest) })
		if t.stages[agent] = current; len(current) == 0 {
			delete(t.stages, agent)
		}
	}
	return maps.Clone(t.stages)
}

// at is the newest interval that overlaps a time span.
func at(times []stageTimes, from, to time.Time) (stageTimes, bool) {
	for _, s := range times {
		if s.end.After(from) && s.end.Add(-s.interval).Before(to) {
			return s, true
		}
	}
	return stageTimes{}, false
}
