package clickhouse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"pillion.dev/archive"
	"pillion.dev/archive/query"
	"pillion.dev/measure"
)

// level is a roll-up: rows of flows added up by flow, session and window of time.
type level struct {
	// name of its table; shown is the name of its view for users, by which retention names it, too.
	name, shown string
	width       time.Duration
	// span is the shortest range for which it is used.
	span time.Duration
	// from is the level that it is made of; nil: the rows of flows.
	from *level
	// age is how long it is kept, unless retention is set.
	age time.Duration
}

var (
	minute = &level{name: "_flows_1m", shown: "flows_1m", width: time.Minute, span: 24 * time.Minute, age: 31 * 24 * time.Hour}
	hourly = &level{name: "_flows_1h", shown: "flows_1h", width: time.Hour, span: 24 * time.Hour, from: minute, age: 731 * 24 * time.Hour}
	// sixHours spares questions about a day most of the 24 histograms that each flow has of it.
	sixHours = &level{name: "_flows_6h", shown: "flows_6h", width: 6 * time.Hour, span: 24 * time.Hour, from: hourly, age: 731 * 24 * time.Hour}
	// levels are each made of the one before.
	levels = []*level{minute, hourly, sixHours}
)

// rollUpEvery is the default of Options.RollUp.
const rollUpEvery = time.Minute

// settled is the minimum age of a mark that readers use: by then all replicas have the rows that it covers.
func (a *Archive) settled() time.Duration { return min(10*time.Second, a.options.RollUp/6) }

// table and representation of what the level is made of.
func (l *level) input(a *Archive) (table string, r query.Representation) {
	if l.from == nil {
		return a.local(measure.Flows.Name), rawRows
	}
	return a.local(l.from.name), rolledRows
}

// columns of a level's table.
func (l *level) columns(f *features) (list []tableColumn) {
	for _, s := range summands {
		kind := measure.String
		if s.Kind == "Int64" {
			kind = measure.Time
		}
		list = append(list, tableColumn{s.Name, s.Kind + f.codec(kind)})
	}
	for _, of := range query.Distributions {
		for _, name := range []string{packedColumn(of), unknownColumn(of)} {
			list = append(list, tableColumn{name, "String" + f.codec(measure.String)})
		}
	}
	for _, name := range []string{laneColumn, commitColumn, ownerColumn} {
		list = append(list, tableColumn{name, "UInt64" + f.codec(measure.String)})
	}
	return append(list, tableColumn{storedColumn, "DateTime"})
}

// shapeLevels creates the tables of roll-ups on a node.
func (a *Archive) shapeLevels(ctx context.Context, n *node, f *features) error {
	for _, l := range levels {
		want := l.columns(f)
		var columns []string
		for _, c := range want {
			columns = append(columns, quoted(c.name)+" "+c.kind)
		}
		create := fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (%s) ENGINE = %s PARTITION BY toYYYYMMDD(%s) ORDER BY (%s, agent, ifNull(source, ''), time)%s", a.local(l.name),
			strings.Join(columns, ", "), a.engine(n, "MergeTree", l.name, false), storedColumn, hour, f.tableSettings(a.replicated(), granules))
		if err := a.shapeTable(ctx, n, a.localName(l.name), want, create); err != nil {
			return err
		}
		if !a.replicated() {
			continue
		}
		if err := a.shapeTable(ctx, n, l.name, want, a.createDistributed(l.name)); err != nil {
			return err
		}
	}
	return nil
}

// mark says that the commits of a lane up to one are in a level, and that those after it
// arrived at a time or later.
type mark struct {
	commit uint64
	at     time.Time
}

// readMarks reads the last marks made before a time.
func (a *Archive) readMarks(ctx context.Context, before time.Time) (map[*level]map[uint64]mark, error) {
	marks := map[*level]map[uint64]mark{}
	for _, l := range levels {
		marks[l] = map[uint64]mark{}
	}
	err := a.query(ctx, fmt.Sprintf("SELECT level, lane, max(commit), max(stored_ns) FROM %s WHERE marked_ns <= %d GROUP BY level, lane", a.own(marksTable), before.UnixNano()),
		func(scan func(...any) error) error {
			var name string
			var lane, commit uint64
			var at int64
			if err := scan(&name, &lane, &commit, &at); err != nil {
				return err
			}
			for _, l := range levels {
				if l.shown == name {
					marks[l][lane] = mark{commit, time.Unix(0, at)}
				}
			}
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read marks of roll-ups: %w", err)
	}
	// A replica may have the mark of a level, but not yet the mark of the level from which it is made.
	for _, l := range slices.Backward(levels[1:]) {
		for lane, m := range marks[l] {
			if of := marks[l.from][lane]; of.commit < m.commit {
				marks[l.from][lane] = mark{m.commit, of.at}
			}
		}
	}
	return marks, nil
}

// rolledUp notes whether a lane could be rolled up.
func (a *Archive) rolledUp(lane uint64, err error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if err == nil {
		delete(a.unrolled, lane)
	} else {
		a.unrolled[lane] = err
	}
}

func (a *Archive) writeMark(ctx context.Context, l *level, lane uint64, m mark) error {
	err := a.write(ctx, marksTable, []string{"level", "lane", "commit", "stored_ns", "marked_ns"},
		[]any{l.shown, lane, m.commit, m.at.UnixNano(), time.Now().UnixNano()})
	if err != nil {
		return fmt.Errorf("save mark of roll-up %s: %w", l.shown, err)
	}
	return nil
}

// retentionAge of a stream, or of a level by its shown name; 0: no limit.
func (a *Archive) retentionAge(name string) time.Duration {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.retention[name].Age
}

// unlimitedAge is the retention of a level that is set to no limit.
const unlimitedAge = time.Duration(math.MaxInt64)

// retentionOf a level.
func (a *Archive) retentionOf(l *level) time.Duration {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if r, set := a.retention[l.shown]; set {
		return cmp.Or(r.Age, unlimitedAge)
	}
	return l.age
}

// retainLevels drops the days of roll-ups that are beyond their retention, and takes care that
// rows stay until they are rolled up: last, the checkpoints by stream and lane, goes no
// further than that. failed is why rows are not rolled up.
func (a *Archive) retainLevels(ctx context.Context, now time.Time, last map[string]map[uint64]saved) (failed, err error) {
	if a.options.RollUp < 0 {
		return nil, nil
	}
	if _, err := a.schema(ctx, measure.Flows.Name); errors.Is(err, archive.ErrUnknown) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	marks, err := a.readMarks(ctx, time.Now().Add(-a.settled()))
	if err != nil {
		return nil, err
	}
	flows := last[measure.Flows.Name]
	for lane, s := range flows {
		flows[lane] = saved{min(s.commit, marks[minute][lane].commit), s.at}
	}
	for i, l := range levels {
		var above map[uint64]mark // which the days must be in first
		if i+1 < len(levels) {
			above = marks[levels[i+1]]
		}
		if err := a.expireLevel(ctx, l, now.Add(-a.retentionOf(l)), above); err != nil {
			return nil, fmt.Errorf("retain %s: %w", l.shown, err)
		}
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for _, err := range a.unrolled {
		failed = errors.Join(failed, err)
	}
	return failed, nil
}

// expireLevel drops the days before a time, as soon as they are rolled up further.
func (a *Archive) expireLevel(ctx context.Context, l *level, cutoff time.Time, above map[uint64]mark) error {
	for _, replicas := range a.shards {
		n, err := a.living(ctx, replicas)
		if err != nil {
			return err
		}
		drop := map[uint32]bool{}
		sql := fmt.Sprintf("SELECT toYYYYMMDD(_stored) AS day, _lane, max(_commit) FROM %s WHERE _stored < toDateTime(%d) GROUP BY day, _lane", a.local(l.name), max(0, cutoff.Unix()))
		err = n.query(ctx, sql, func(scan func(...any) error) error {
			var day uint32
			var lane, commit uint64
			err := scan(&day, &lane, &commit)
			if _, seen := drop[day]; !seen {
				end, failed := time.Parse(partitionLayout, strconv.Itoa(int(day)))
				drop[day] = failed == nil && cutoff.After(end.Add(24*time.Hour+clockSlack))
			}
			drop[day] = drop[day] && (above == nil || above[lane].commit >= commit)
			return err
		})
		if err != nil {
			return err
		}
		for day, yes := range drop {
			if !yes {
				continue
			}
			if err := n.exec(ctx, fmt.Sprintf("ALTER TABLE %s DROP PARTITION %d", a.local(l.name), day)); err != nil {
				return err
			}
		}
	}
	return nil
}

// schema of the view that users see: the summands, as fields.
func (l *level) schema() *measure.Schema {
	s := &measure.Schema{Name: l.shown, Doc: "sums of flows by flow, session and window of " + strings.TrimPrefix(l.shown, "flows_")}
	types := map[string]measure.Type{"Int64": measure.Int64, "UInt64": measure.Uint64, "Nullable(UInt64)": measure.Uint64, "Nullable(Int64)": measure.Int64,
		"Array(Int64)": measure.Int64List, "Array(UInt64)": measure.Uint64List, "Decimal(38, 0)": measure.Float64}
	for _, one := range summands {
		t, known := types[one.Kind]
		if !known {
			t = measure.String
		}
		if slices.Contains([]string{"time", "begun", "ended"}, one.Name) {
			t = measure.Time
		}
		if one.Name != archive.AgentColumn {
			s.Fields = append(s.Fields, measure.Field{Name: one.Name, Type: t})
		}
	}
	return s
}
