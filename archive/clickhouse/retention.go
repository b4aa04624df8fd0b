package clickhouse

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"pillion.dev/archive"
	"pillion.dev/archive/ledger"
)

// SetRetention is saved at the next Streams, Retain or Close, or after syncEvery.
func (a *Archive) SetRetention(stream string, retention archive.Retention) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.retention[stream] = retention
	a.unsaved[stream] = true
}

// loadRetention reads what is saved.
func (a *Archive) loadRetention(ctx context.Context) error {
	found, revisions := map[string]archive.Retention{}, map[string]uint64{}
	err := a.query(ctx, "SELECT stream, revision, age_ns, rows, bytes FROM "+a.own(retentionTable)+" ORDER BY stream, revision DESC LIMIT 1 BY stream", func(scan func(...any) error) error {
		var stream string
		var revision uint64
		var age int64
		var r archive.Retention
		err := scan(&stream, &revision, &age, &r.Rows, &r.Bytes)
		r.Age = time.Duration(age)
		found[stream], revisions[stream] = r, revision
		return err
	})
	if err != nil {
		return fmt.Errorf("read retention: %w", err)
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for stream, r := range found {
		// A replica may not have yet what was saved last.
		if !a.unsaved[stream] && revisions[stream] > a.revisions[stream] {
			a.retention[stream], a.revisions[stream] = r, revisions[stream]
		}
	}
	return nil
}

// syncRetention saves what was set here, and reads what other servers have saved.
func (a *Archive) syncRetention(ctx context.Context) error {
	if err := a.saveRetention(ctx); err != nil {
		return err
	}
	return a.loadRetention(ctx)
}

// syncEvery is how soon all servers go by what one has set.
const syncEvery = time.Minute

// followRetention exchanges retention with other servers until the archive is closed. A failure is
// no news: whoever uses the archive meets it too.
func (a *Archive) followRetention() {
	for pause(a.background, syncEvery) == nil {
		_ = a.syncRetention(a.background)
	}
}

func (a *Archive) saveRetention(ctx context.Context) error {
	a.mutex.Lock()
	changed := slices.Collect(maps.Keys(a.unsaved))
	clear(a.unsaved)
	var rows [][]any
	for _, stream := range changed {
		r := a.retention[stream]
		a.revisions[stream] = max(uint64(time.Now().UnixNano()), a.revisions[stream]+1)
		rows = append(rows, []any{stream, a.revisions[stream], int64(r.Age), r.Rows, r.Bytes})
	}
	a.mutex.Unlock()
	if len(changed) == 0 {
		return nil
	}
	if err := a.write(ctx, retentionTable, []string{"stream", "revision", "age_ns", "rows", "bytes"}, rows...); err != nil {
		a.mutex.Lock()
		defer a.mutex.Unlock()
		for _, stream := range changed {
			a.unsaved[stream] = true
		}
		return fmt.Errorf("save retention: %w", err)
	}
	return nil
}

// Retain implements archive.Archive. The age is that since arrival. Whole days of arrivals
// are dropped, so rows stay for up to a day longer, unless all rows of a day are older.
// Beyond a bound on rows or bytes the agents with the most rows lose their oldest arrivals,
// those below an equal share lose none. Rows whose delivery state is in no checkpoint yet
// stay until it is.
func (a *Archive) Retain(ctx context.Context, now time.Time) (map[string]int64, error) {
	if err := a.syncRetention(ctx); err != nil {
		return nil, err
	}
	if err := a.saveImplicit(ctx, now); err != nil {
		return nil, err
	}
	if err := a.reload(ctx); err != nil {
		return nil, err
	}
	last, err := a.lastCheckpoints(ctx)
	if err != nil {
		return nil, err
	}
	failed, err := a.retainLevels(ctx, now, last)
	if err != nil {
		return nil, err
	}
	a.mutex.Lock()
	retention := maps.Clone(a.retention)
	a.mutex.Unlock()
	removed := map[string]int64{}
	for _, stream := range a.names() {
		r := retention[stream]
		n, err := a.expire(ctx, stream, r, now, last[stream])
		if err == nil {
			var more int64
			more, err = a.bound(ctx, stream, r, last[stream])
			n += more
		}
		if n > 0 {
			removed[stream] = n
		}
		if err != nil {
			return removed, fmt.Errorf("retain %q: %w", stream, err)
		}
	}
	return removed, failed
}

// saveImplicit writes a checkpoint of the lane that Store uses.
func (a *Archive) saveImplicit(ctx context.Context, now time.Time) error {
	a.storing.Lock()
	defer a.storing.Unlock()
	if a.implicit == nil || a.implicit.fenced {
		return nil
	}
	a.implicit.book.ExpireSilent(now)
	return a.implicit.save(ctx, func(*progress) bool { return true })
}

// names of all streams.
func (a *Archive) names() []string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return slices.Sorted(maps.Keys(a.catalog.Schemas))
}

// covered selects the rows whose delivery state is in a checkpoint.
func covered(last map[uint64]saved) string {
	var all []string
	for _, lane := range slices.Sorted(maps.Keys(last)) {
		all = append(all, fmt.Sprintf("_lane = %d AND _commit <= %d", lane, last[lane].commit))
	}
	if len(all) == 0 {
		return "0"
	}
	return "(" + strings.Join(all, " OR ") + ")"
}

const partitionLayout = "20060102"

// expire removes what arrived too long ago.
func (a *Archive) expire(ctx context.Context, stream string, r archive.Retention, now time.Time, last map[uint64]saved) (removed int64, err error) {
	if r.Age <= 0 {
		return 0, nil
	}
	cutoff := now.Add(-r.Age)
	for _, replicas := range a.shards {
		n, err := a.living(ctx, replicas)
		if err != nil {
			return removed, err
		}
		days, err := a.days(ctx, n, stream, cutoff)
		if err != nil {
			return removed, err
		}
		for _, d := range days {
			if !d.expired(cutoff, last) {
				continue
			}
			// A day that is over gets no more rows.
			if end, err := time.Parse(partitionLayout, strconv.Itoa(int(d.day))); err == nil && a.options.Now().After(end.Add(24*time.Hour+clockSlack)) {
				err = n.exec(ctx, fmt.Sprintf("ALTER TABLE %s DROP PARTITION %d", a.local(stream), d.day))
				if err != nil {
					return removed, err
				}
				removed += d.rows
				continue
			}
			rows, err := a.delete(ctx, replicas, stream, fmt.Sprintf("%s < %d AND %s", archive.ArrivalColumn, cutoff.UnixNano(), covered(last)))
			if err != nil {
				return removed, err
			}
			removed += rows
		}
	}
	return removed, nil
}

// day is a partition: the last arrival in it, and the last commit of each lane.
type day struct {
	day     uint32
	rows    int64
	arrived int64
	commits map[uint64]uint64
}

func (d *day) expired(cutoff time.Time, last map[uint64]saved) bool {
	for lane, commit := range d.commits {
		if last[lane].commit < commit {
			return false
		}
	}
	return d.arrived < cutoff.UnixNano()
}

// days are the partitions that may be expired.
func (a *Archive) days(ctx context.Context, n *node, stream string, cutoff time.Time) (list []*day, err error) {
	byDay := map[uint32]*day{}
	err = n.query(ctx, fmt.Sprintf("SELECT toYYYYMMDD(_stored) AS day, _lane, max(_commit), max(%s), toInt64(count()) FROM %s WHERE _stored < toDateTime(%d) GROUP BY day, _lane ORDER BY day",
		archive.ArrivalColumn, a.local(stream), max(0, cutoff.Add(24*time.Hour).Unix())), func(scan func(...any) error) error {
		var number uint32
		var lane, commit uint64
		var arrived, rows int64
		if err := scan(&number, &lane, &commit, &arrived, &rows); err != nil {
			return err
		}
		d := byDay[number]
		if d == nil {
			d = &day{day: number, commits: map[uint64]uint64{}}
			byDay[number] = d
			list = append(list, d)
		}
		d.rows, d.arrived, d.commits[lane] = d.rows+rows, max(d.arrived, arrived), commit
		return nil
	})
	return list, err
}

// living is the first of some replicas that answers.
func (a *Archive) living(ctx context.Context, replicas []*node) (*node, error) {
	var failed error
	for _, n := range replicas {
		if failed = a.ensure(ctx, n); failed == nil {
			return n, nil
		}
	}
	return nil, failed
}

// delete removes rows of a shard and waits until all replicas that answer have done so. It waits for the rows, not
// for the entry in system.mutations: version 18.16 does not finish the mutation of every table. With a quorum that
// version keeps the last part until another follows, which is not waited for.
func (a *Archive) delete(ctx context.Context, replicas []*node, stream, where string) (removed int64, err error) {
	n, err := a.living(ctx, replicas)
	if err != nil {
		return 0, err
	}
	if removed, err = a.matching(ctx, n, stream, where); err != nil || removed == 0 {
		return 0, err
	}
	if err := n.exec(ctx, fmt.Sprintf("ALTER TABLE %s DELETE WHERE %s", a.local(stream), where)); err != nil {
		return 0, err
	}
	if f, err := n.identify(ctx); err != nil || f.lastPartStays && a.quorum() > 1 {
		return removed, err
	}
	for _, n := range replicas {
		for {
			left, err := a.matching(ctx, n, stream, where)
			if err != nil && code(err) != 0 {
				return 0, err
			}
			if err != nil || left == 0 { // one that does not answer does so later
				break
			}
			if err := pause(ctx, retryAfter); err != nil {
				return 0, fmt.Errorf("wait for the removal of rows: %w", err)
			}
		}
	}
	return removed, nil
}

// matching counts rows of a node.
func (a *Archive) matching(ctx context.Context, n *node, stream, where string) (rows int64, err error) {
	err = n.query(ctx, fmt.Sprintf("SELECT toInt64(count()) FROM %s WHERE %s", a.local(stream), where), func(scan func(...any) error) error { return scan(&rows) })
	return rows, err
}

// bound removes the oldest arrivals of the agents with the most rows.
func (a *Archive) bound(ctx context.Context, stream string, r archive.Retention, last map[uint64]saved) (removed int64, err error) {
	if r.Rows <= 0 && r.Bytes <= 0 {
		return 0, nil
	}
	totals, left := map[string]int64{}, int64(0)
	err = a.query(ctx, fmt.Sprintf("SELECT agent, toInt64(count()) FROM %s GROUP BY agent", a.table(stream)), func(scan func(...any) error) error {
		var agent string
		var rows int64
		err := scan(&agent, &rows)
		totals[agent] = rows
		left += rows
		return err
	})
	if err != nil {
		return 0, err
	}
	keep := left
	if r.Rows > 0 {
		keep = min(keep, r.Rows)
	}
	if r.Bytes > 0 {
		size, err := a.bytes(ctx, stream)
		if err != nil {
			return 0, err
		}
		if size > r.Bytes {
			keep = min(keep, int64(float64(left)*float64(r.Bytes)/float64(size)))
		}
	}
	if keep >= left {
		return 0, nil
	}
	share := ledger.FairShare(slices.Collect(maps.Values(totals)), keep)
	var cuts []string
	for agent, total := range totals {
		if total <= share {
			continue
		}
		cut, err := a.cut(ctx, stream, agent, total-share)
		if err != nil {
			return 0, err
		}
		cuts = append(cuts, cut)
	}
	where := fmt.Sprintf("(%s) AND %s", strings.Join(cuts, " OR "), covered(last))
	for _, replicas := range a.shards {
		rows, err := a.delete(ctx, replicas, stream, where)
		if err != nil {
			return removed, err
		}
		removed += rows
	}
	return removed, nil
}

// bytes of a stream on disk, of one replica of each shard.
func (a *Archive) bytes(ctx context.Context, stream string) (size int64, err error) {
	for _, replicas := range a.shards {
		n, err := a.living(ctx, replicas)
		if err != nil {
			return 0, err
		}
		err = n.query(ctx, fmt.Sprintf("SELECT toInt64(sum(bytes_on_disk)) FROM system.parts WHERE active AND database = %s AND table = %s", literal(a.location.database), literal(a.localName(stream))),
			func(scan func(...any) error) error {
				var one int64
				err := scan(&one)
				size += one
				return err
			})
		if err != nil {
			return 0, err
		}
	}
	return size, nil
}

// cut selects the oldest arrivals of an agent: whole batches, then rows of one batch.
func (a *Archive) cut(ctx context.Context, stream, agent string, remove int64) (string, error) {
	of := "agent = " + literal(agent)
	var arrived, rows int64
	var epoch, sequence uint64
	found := false
	err := a.query(ctx, fmt.Sprintf("SELECT %[1]s, _epoch, _sequence, toInt64(count()) FROM %[2]s WHERE %[3]s GROUP BY %[1]s, _epoch, _sequence ORDER BY %[1]s, _epoch, _sequence",
		archive.ArrivalColumn, a.table(stream), of), func(scan func(...any) error) error {
		var at, n int64
		var e, s uint64
		if err := scan(&at, &e, &s, &n); err != nil || found {
			return err
		}
		arrived, epoch, sequence, rows = at, e, s, n
		if found = remove < n; !found {
			remove -= n
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if !found {
		return "(" + of + ")", nil
	}
	before := fmt.Sprintf("(%[1]s < %[2]d OR %[1]s = %[2]d AND (_epoch < %[3]d OR _epoch = %[3]d AND _sequence < %[4]d))", archive.ArrivalColumn, arrived, epoch, sequence)
	if remove == 0 {
		return fmt.Sprintf("(%s AND %s)", of, before), nil
	}
	batch := fmt.Sprintf("%s = %d AND _epoch = %d AND _sequence = %d", archive.ArrivalColumn, arrived, epoch, sequence)
	var first uint32 // of the rows that stay
	err = a.query(ctx, fmt.Sprintf("SELECT _row FROM %s WHERE %s AND %s ORDER BY _row LIMIT %d, 1", a.table(stream), of, batch, remove), func(scan func(...any) error) error {
		return scan(&first)
	})
	if err != nil {
		return "", fmt.Errorf("read a batch of %d rows: %w", rows, err)
	}
	return fmt.Sprintf("(%s AND (%s OR %s AND _row < %d))", of, before, batch, first), nil
}
