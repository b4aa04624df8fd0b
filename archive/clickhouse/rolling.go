package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure"
)

// rolling makes the roll-ups of one lane's rows, beside its commits. The rows of some commits are
// read and added up here: the servers would take several times as long. One insert, which
// becomes one part, stores the sums; then a mark says so. Readers go by marks, so a roll-up
// without its mark is not seen, and a mark without its roll-up does not exist.
type rolling struct {
	l      *lane
	cancel context.CancelFunc
	done   chan struct{}
	// marks are the last of each level; without one it is read.
	marks map[*level]mark
	// rows is how many rows one insert rolls up, sumsMost the most sums of them.
	rows     int64
	sumsMost int
}

const (
	// rollRows is how many rows one insert rolls up at first, and rollRowsMost at most, unless one
	// commit has more. Parts that were merged are read as a whole for a few of their commits, so
	// more are rolled up at once as long as there are at most rollSumsMost sums, each of 1.3 KB
	// with common histograms.
	rollRows     = 100_000
	rollRowsMost = 800_000
	rollSumsMost = 100_000
	// idleMark is how old the mark of a lane without new rows becomes.
	idleMark = clockSlack / 2
)

// rollsAtOnce bounds the memory of roll-ups, of which each takes one processor.
func rollsAtOnce() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// startRolling begins to roll up the rows of a lane.
func (l *lane) startRolling() {
	if l.a.options.RollUp < 0 {
		return
	}
	ctx, cancel := context.WithCancel(l.a.background)
	l.rolling = &rolling{l: l, cancel: cancel, done: make(chan struct{}), marks: map[*level]mark{}, rows: rollRows, sumsMost: rollSumsMost}
	go l.rolling.run(ctx)
}

// stop ends the roll-up that is under way.
func (r *rolling) stop() {
	if r == nil {
		return
	}
	r.cancel()
	<-r.done
}

func (r *rolling) run(ctx context.Context) {
	defer close(r.done)
	for pause(ctx, r.l.a.options.RollUp) == nil {
		err := r.rollUp(ctx, r.due)
		if errors.Is(err, archive.ErrFenced) {
			return
		}
		if ctx.Err() == nil {
			r.l.a.rolledUp(r.l.number, err)
		}
	}
}

// due reports whether a level is rolled up at a time: those made of others when one of their windows has ended
// since, so that a window has its sums in two rows at least, of which one is small.
func (r *rolling) due(v *level, now time.Time) bool {
	m, known := r.marks[v]
	return v.from == nil || !known || v.window(m.at) != v.window(now)
}

// rollUp rolls up what was committed since the last one into levels that are due.
func (r *rolling) rollUp(ctx context.Context, due func(v *level, now time.Time) bool) error {
	for _, v := range levels {
		if !due(v, r.l.a.options.Now()) {
			continue
		}
		up, at, err := r.until(ctx, v)
		if err == nil {
			err = r.roll(ctx, v, up, at)
		}
		if err != nil {
			delete(r.marks, v) // the insert may have succeeded
			return fmt.Errorf("roll up lane %d into %s: %w", r.l.number, v.shown, err)
		}
	}
	return nil
}

// until is the last commit that can be rolled up into a level; later ones arrive at the time
// or after it.
func (r *rolling) until(ctx context.Context, v *level) (commit uint64, at time.Time, err error) {
	if v.from != nil {
		m := r.marks[v.from]
		return m.commit, m.at, nil
	}
	l, stream := r.l, measure.Flows.Name
	l.turn.Lock()
	defer l.turn.Unlock()
	if l.fenced {
		return 0, at, archive.ErrFenced
	}
	at = l.a.options.Now()
	if l.streams[stream] == nil {
		if _, err := l.a.schema(ctx, stream); errors.Is(err, archive.ErrUnknown) {
			return 0, at, nil
		} else if err != nil {
			return 0, at, err
		}
		if err := l.load(ctx, stream); err != nil {
			return 0, at, err
		}
	}
	return l.streams[stream].commit, at, nil
}

// roll rolls up all commits through one.
func (r *rolling) roll(ctx context.Context, v *level, through uint64, at time.Time) error {
	m, known := r.marks[v]
	if !known {
		var err error
		if m, err = r.recover(ctx, v); err != nil {
			return err
		}
	}
	for m.commit < through {
		next, from, to, err := r.chunk(ctx, v, m, through, at)
		if err == nil && from <= to {
			err = r.insert(ctx, v, m, next, from, to)
		}
		if errors.Is(err, errManySums) {
			r.rows = rollRows
			continue
		}
		if err == nil {
			err = r.l.a.writeMark(ctx, v, r.l.number, next)
		}
		if err != nil {
			return err
		}
		m = next
	}
	if at.Sub(m.at) > idleMark {
		if m.at = at; m.commit > 0 {
			if err := r.l.a.writeMark(ctx, v, r.l.number, m); err != nil {
				return err
			}
		}
	}
	r.marks[v] = m
	return nil
}

var errManySums = errors.New("too many sums")

// adapt chooses how many rows the next insert rolls up, by the sums of the last one.
func (r *rolling) adapt(sums int) {
	switch {
	case sums <= r.sumsMost/4:
		r.rows = min(r.rows*2, rollRowsMost)
	case sums > r.sumsMost/2:
		r.rows = max(r.rows/2, rollRows)
	}
}

// recover reads the mark of a level, and creates the mark of a roll-up that has none.
func (r *rolling) recover(ctx context.Context, v *level) (mark, error) {
	l := r.l
	for _, n := range l.replicas { // an insert of this owner may be under way
		if err := l.kill(ctx, n, r.prefix()); err != nil && code(err) != 0 {
			return mark{}, fmt.Errorf("node %s: %w", n.address, err)
		}
	}
	if _, err := l.a.schema(ctx, measure.Flows.Name); errors.Is(err, archive.ErrUnknown) {
		return mark{}, nil
	} else if err != nil {
		return mark{}, err
	}
	if err := l.settle(ctx, v.name); err != nil {
		return mark{}, err
	}
	marks, err := l.a.readMarks(l.a.consistent(ctx), time.Now().Add(clockSlack))
	if err != nil {
		return mark{}, err
	}
	m := marks[v][l.number]
	commit, owner, err := r.last(ctx, v, m)
	switch {
	case err != nil:
		return mark{}, err
	case owner > l.owner:
		return mark{}, archive.ErrFenced
	case commit > m.commit:
		m.commit = commit
		return m, l.a.writeMark(ctx, v, l.number, m)
	}
	return m, nil
}

// last is the last commit in a level after a mark, and its owner.
func (r *rolling) last(ctx context.Context, v *level, m mark) (commit, owner uint64, err error) {
	err = r.l.ask(ctx, fmt.Sprintf("SELECT max(_commit), max(_owner) FROM %s WHERE _lane = %d AND _commit > %d AND _stored >= toDateTime(%d)", r.l.a.local(v.name), r.l.number, m.commit,
		max(0, m.at.Add(-clockSlack).Unix())), func(scan func(...any) error) error { return scan(&commit, &owner) })
	if err != nil {
		return 0, 0, fmt.Errorf("read last commit: %w", err)
	}
	return commit, owner, nil
}

// source is the condition of the rows of some commits.
func (r *rolling) source(after mark, through uint64) string {
	return fmt.Sprintf("_stored >= toDateTime(%d) AND _lane = %d AND _commit > %d AND _commit <= %d", max(0, after.at.Add(-clockSlack).Unix()), r.l.number, after.commit, through)
}

// chunk chooses which commits are rolled up next, and returns the range of their time column,
// which is empty without rows.
func (r *rolling) chunk(ctx context.Context, v *level, after mark, through uint64, at time.Time) (next mark, from, to int64, err error) {
	table, _ := v.input(r.l.a)
	sql := fmt.Sprintf("SELECT _commit, toInt64(count()), min(time), max(time), toInt64(max(_stored)) FROM %s PREWHERE %s GROUP BY _commit ORDER BY _commit", table, r.source(after, through))
	rows, full := int64(0), false
	from, to = 1, 0
	err = r.l.ask(ctx, sql, func(scan func(...any) error) error {
		var commit uint64
		var n, least, most, stored int64
		if err := scan(&commit, &n, &least, &most, &stored); err != nil || full {
			return err
		}
		if full = rows > 0 && rows+n > r.rows; full {
			return nil
		}
		if rows == 0 {
			from, to = least, most
		}
		from, to, rows = min(from, least), max(to, most), rows+n
		next = mark{commit, time.Unix(stored, 0)}
		return nil
	})
	if err == nil && !full {
		next = mark{through, at}
	}
	return next, from, to, err
}

func (r *rolling) prefix() string { return r.l.queryPrefix() + "roll-" }
