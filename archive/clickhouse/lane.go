package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"pillion.dev/archive"
	"pillion.dev/archive/ledger"
)

// implicitLane is the lane of Archive.Store, which a single server uses.
const implicitLane = 1 << 20

// lane is one writer's state. Its methods are called one at a time.
type lane struct {
	a             *Archive
	number, owner uint64
	replicas      []*node // of its shard
	book          *ledger.Book
	streams       map[string]*progress
	fenced        bool
	// turn is held by Store and Close.
	turn sync.Mutex
	// doubt: an insert failed, and may be under way on a server that lost the connection.
	doubt bool
	// rolling is nil without roll-ups.
	rolling *rolling
}

// progress is how far a lane is in one stream.
type progress struct {
	// commit is the number of the last commit; saved is the commit of the last checkpoint.
	commit, saved uint64
	savedAt       time.Time
	// dirty are senders that changed since.
	dirty map[ledger.Sender]bool
	// verified: a commit of this owner was read back since the lane was opened.
	verified bool
}

// OpenLane implements archive.Laned. It ends the inserts of earlier owners and registers the
// owner; which batches are stored is read with the first batch of each stream.
func (a *Archive) OpenLane(ctx context.Context, number int, owner uint64) (archive.Lane, error) {
	l, err := a.openLane(ctx, uint64(number), owner)
	if err != nil {
		return nil, fmt.Errorf("open lane %d: %w", number, err)
	}
	return l, nil
}

func (a *Archive) openLane(ctx context.Context, number, owner uint64) (*lane, error) {
	l := a.newLane(number, owner)
	if err := l.take(ctx); err != nil {
		return nil, err
	}
	l.startRolling()
	return l, nil
}

func (a *Archive) newLane(number, owner uint64) *lane {
	return &lane{
		a: a, number: number, owner: owner, replicas: a.shards[number%uint64(len(a.shards))],
		book: ledger.NewBook(a.options.Quota), streams: map[string]*progress{},
	}
}

// take makes the owner the only writer of the lane.
func (l *lane) take(ctx context.Context) error {
	if err := l.a.reload(ctx); err != nil {
		return err
	}
	last, err := l.a.lastOwner(ctx, l.number)
	if err != nil {
		return err
	}
	if last > l.owner {
		return fmt.Errorf("owner %d after %d: %w", l.owner, last, archive.ErrFenced)
	}
	// First the register, so that an earlier owner that opens the lane again is refused.
	err = l.a.write(ctx, lanesTable, []string{"lane", "owner"}, []any{l.number, l.owner})
	if err != nil {
		return fmt.Errorf("register owner: %w", err)
	}
	if err := l.fence(ctx); err != nil {
		return fmt.Errorf("end the inserts of earlier owners: %w", err)
	}
	return nil
}

// lastOwner is the highest registered owner of a lane.
func (a *Archive) lastOwner(ctx context.Context, number uint64) (owner uint64, err error) {
	err = a.query(a.consistent(ctx), fmt.Sprintf("SELECT max(owner) FROM %s WHERE lane = %d", a.own(lanesTable), number), func(scan func(...any) error) error {
		return scan(&owner)
	})
	return owner, err
}

// queryPrefix begins the identifiers of a lane's inserts.
func (l *lane) queryPrefix() string {
	return fmt.Sprintf("pillion-%s-%d-", l.a.location.database, l.number)
}

// fencing is off only in a server that is built to show what the fence is for (make ledger
// UNFENCED=1).
var fencing = "on"

// fence ends the lane's inserts on all replicas. One that refuses connections runs none: its
// process is dead. One that does not answer may run them, and the lane cannot be opened.
func (l *lane) fence(ctx context.Context) error {
	if fencing == "off" {
		return nil
	}
	failures := make([]error, len(l.replicas))
	var group sync.WaitGroup
	for i, n := range l.replicas {
		group.Go(func() {
			err := l.kill(ctx, n, l.queryPrefix())
			if err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
				failures[i] = fmt.Errorf("node %s: %w", n.address, err)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

// kill ends the lane's inserts on a node whose identifiers have a prefix. One that waits for its quorum cannot be killed: it
// ends by its own timeout, for which this waits.
func (l *lane) kill(ctx context.Context, n *node, prefix string) error {
	mine := "position(query_id, " + literal(prefix) + ") = 1"
	for {
		if err := n.exec(ctx, "KILL QUERY WHERE "+mine+" SYNC"); err != nil && code(err) != codeUnkillable {
			return err
		}
		running := uint64(0)
		err := n.query(ctx, "SELECT count() FROM system.processes WHERE "+mine, func(scan func(...any) error) error { return scan(&running) })
		if err != nil || running == 0 {
			return err
		}
		if err := pause(ctx, retryAfter); err != nil {
			return fmt.Errorf("wait for the end of %d inserts: %w", running, err)
		}
	}
}

// settle waits until an insert into a table that was under way on a replica when the lane
// was opened is complete or given up: it would become visible later. Inserts with a quorum
// into one table follow one another, so it is over when another one is under way.
func (l *lane) settle(ctx context.Context, stream string) error {
	if l.a.quorum() < 2 || fencing == "off" {
		return nil
	}
	path := l.a.path(l.replicas[0], stream, false) + "/quorum"
	first := ""
	for try := 0; ; try++ {
		pending := ""
		err := l.ask(ctx, "SELECT value FROM system.zookeeper WHERE path = "+literal(path)+" AND name = 'status'", func(scan func(...any) error) error {
			return scan(&pending)
		})
		if err != nil {
			return fmt.Errorf("read inserts of %q under way: %w", stream, err)
		}
		if pending == "" || try > 0 && pending != first {
			return nil
		}
		first = pending
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("wait for inserts of %q under way: %w", stream, err)
		}
	}
}

// ask queries a replica of the lane's shard, with what its quorums have.
func (l *lane) ask(ctx context.Context, sql string, row func(scan func(...any) error) error) error {
	ctx = l.a.consistent(ctx)
	return l.anyReplica(ctx, func(n *node) error { return n.query(ctx, sql, row) })
}

// anyReplica lets replicas of the lane's shard work, one after the other until one succeeds.
func (l *lane) anyReplica(ctx context.Context, work func(*node) error) error {
	var failed error
	for _, n := range l.replicas {
		err := l.a.ensure(ctx, n)
		if err == nil {
			err = work(n)
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		failed = errors.Join(failed, fmt.Errorf("node %s: %w", n.address, err))
	}
	return failed
}

// consistent makes a query see all that a quorum has, or fail.
func (a *Archive) consistent(ctx context.Context) context.Context {
	return driver.Context(ctx, driver.WithSettings(a.consistency()))
}

// consistency are the settings of consistent.
func (a *Archive) consistency() driver.Settings {
	if a.quorum() < 2 {
		return driver.Settings{}
	}
	return driver.Settings{"select_sequential_consistency": 1}
}

// pause waits, or until the context ends.
func pause(ctx context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// load reads the state of the lane in a stream: the last checkpoint and the batches of later
// commits.
func (l *lane) load(ctx context.Context, stream string) error {
	if err := l.settle(ctx, stream); err != nil {
		return err
	}
	states, p, err := l.a.checkpoint(ctx, l.number, stream)
	if err != nil {
		return fmt.Errorf("read checkpoint of %q: %w", stream, err)
	}
	err = l.ask(ctx, laterBatches(l.a.local(stream), fmt.Sprintf("_lane = %d", l.number), p.commit, p.savedAt), func(scan func(...any) error) error {
		var one later
		if err := scan(one.fields()...); err != nil {
			return err
		}
		key := ledger.Sender{Agent: one.agent, Stream: stream, Epoch: one.epoch}
		one.replay(states, key)
		p.dirty[key] = true
		p.commit = max(p.commit, one.commit)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read batches of %q after the checkpoint: %w", stream, err)
	}
	l.book.Forget(stream)
	l.book.Add(states)
	l.streams[stream] = p
	return nil
}

// later is a batch after a checkpoint.
type later struct {
	lane, epoch, sequence, oldest, commit uint64
	agent                                 string
	rows                                  int64
	stored                                time.Time
}

func (b *later) fields() []any {
	return []any{&b.lane, &b.agent, &b.epoch, &b.sequence, &b.oldest, &b.rows, &b.commit, &b.stored}
}

// replay adds the batch to the state of its sender.
func (b *later) replay(states map[ledger.Sender]*ledger.Delivery, key ledger.Sender) {
	d := states[key]
	if d == nil {
		d = &ledger.Delivery{}
		if states[ledger.Sender{Agent: key.Agent, Stream: key.Stream, Epoch: ledger.FoldedEpoch}] != nil {
			d.Next = min(b.oldest, b.sequence)
		}
		states[key] = d
	}
	d.Replay(b.sequence, b.oldest, b.rows)
	d.Seen = b.stored
}

// clockSlack is how far the clocks of servers may differ.
const clockSlack = time.Hour

// laterBatches asks for the batches of commits after a checkpoint, in their order.
func laterBatches(table, where string, commit uint64, since time.Time) string {
	return fmt.Sprintf(`SELECT _lane, agent, _epoch, _sequence, min(_oldest), toInt64(count()), max(_commit), max(_stored) FROM %s
		WHERE %s AND _commit > %d AND _stored >= toDateTime(%d) GROUP BY _lane, agent, _epoch, _sequence ORDER BY max(_commit), _sequence`,
		table, where, commit, max(0, since.Add(-clockSlack).Unix()))
}

// Close implements archive.Lane. It saves a checkpoint, which makes the next start quicker.
func (l *lane) Close() error {
	l.rolling.stop()
	l.turn.Lock()
	defer l.turn.Unlock()
	if l.fenced {
		return nil
	}
	defer func() { l.fenced = true }() // it stores no more
	ctx, cancel := context.WithTimeout(context.Background(), openMost)
	defer cancel()
	return l.save(ctx, func(*progress) bool { return true })
}

// owned checks after a commit that the rows are this owner's: the servers may have dropped
// the insert because another owner had used the number of the commit.
func (l *lane) owned(ctx context.Context, stream string, commit uint64, at time.Time) error {
	if fencing == "off" {
		return nil
	}
	var owner uint64
	err := l.ask(ctx, fmt.Sprintf("SELECT max(_owner) FROM %s WHERE _lane = %d AND _commit = %d AND _stored >= toDateTime(%d)", l.a.local(stream), l.number, commit,
		max(0, at.Add(-clockSlack).Unix())), func(scan func(...any) error) error { return scan(&owner) })
	if err != nil {
		return fmt.Errorf("verify commit %d of %q: %w", commit, stream, err)
	}
	switch {
	case owner > l.owner:
		l.fenced = true
		return fmt.Errorf("commit %d of %q is owner %d's: %w", commit, stream, owner, archive.ErrFenced)
	case owner < l.owner:
		return fmt.Errorf("commit %d of %q was owner %d's: %w", commit, stream, owner, errOtherOwner)
	}
	return nil
}

var errOtherOwner = errors.New("not stored; an earlier owner had used its number")

// names joins names of columns.
func names(list []string) string { return strings.Join(list, ", ") }
