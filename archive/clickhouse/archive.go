// Package clickhouse keeps an archive in ClickHouse, on one server or on a cluster of
// shards with replicas, which several pillion-servers write and read at once. Package query asks
// most questions, in the dialect of this package. Deployment, retention and the failures that it survives are in docs/howto/fleet.md.
//
// # Tables
//
// A stream X is read from the table X of the archive's database. On a single server that is
// a MergeTree; in a cluster it is Distributed over the shards' tables _local_X, which are
// ReplicatedMergeTree. Names that begin with an underscore are the archive's own: no stream
// has one. Columns of a stream's tables, of which the first is the primary key:
//
//	intDiv(time, 3600000000000), agent, ifNull(source, ''), time   the order of flows and packets
//	intDiv(time, 3600000000000), agent, time                       the order of other streams
//
// so a question about a range of time has a condition on the first expression too. A
// partition is a day of _stored, the time of arrival, not of the sender's time.
//
//	agent     LowCardinality(String)
//	X         by type: bool Nullable(UInt8), int32 to uint64 and float64 Nullable of the same,
//	          string Nullable(String), of Pillion's own streams LowCardinality(Nullable(String)),
//	          binary Nullable(String), time Nullable(Int64) in ns since 1970 (the columns time
//	          and arrived are Int64), lists Array(Int64) and Array(UInt64)
//	_null_X   UInt8, for each list X: 1 if it is null, for X is empty then
//	_lane, _commit, _owner      UInt64: which commit of which lane and owner has the row
//	_epoch, _sequence, _oldest  UInt64: the batch that had the row
//	_row      UInt32: the number of the row in its batch, from 0
//	_stored   DateTime, the same in all rows of a commit
//
// The archive's own tables are on every node, replicated over all of them: _schemas has the
// schema of each stream, _retention the retention, _shapes who created or extended streams,
// _checkpoints the delivery states of lanes, _lanes the owners of lanes.
//
// Roll-ups have the sums of the rows of flows by flow, session and window: _flows_1m, _flows_1h
// and _flows_6h, which users see without the first character. _marks says which commits of each lane
// they have; questions read them as far as that, and the rows of later commits.
//
// # Exactly once
//
// The rows themselves have the delivery state: one INSERT of one block, which becomes one
// part, is a commit of one stream of one lane, and the state is the last checkpoint and the
// rows of later commits.
package clickhouse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"pillion.dev/archive"
	"pillion.dev/archive/ledger"
)

// Options of an archive.
type Options struct {
	// Quota of each agent; zero values are the defaults.
	Quota archive.Quota
	// Now is the time of arrival; default time.Now.
	Now func() time.Time
	// Queries bounds Query.
	Queries archive.Queries
	// RollUp is how often rows of flows are added up to roll-ups; 0: every minute, less: never.
	RollUp time.Duration
}

// Archive keeps streams in ClickHouse.
type Archive struct {
	location *location
	options  Options
	shards   [][]*node
	// queries has a place for each of the users' statements at once.
	queries chan struct{}
	// rolls has a place for each of the roll-ups at once.
	rolls chan struct{}

	turns  turns
	writes writes

	// background ends with the archive.
	background context.Context
	end        context.CancelFunc
	follower   sync.WaitGroup

	// mutex guards what follows.
	mutex     sync.Mutex
	catalog   *ledger.Catalog
	retention map[string]archive.Retention
	unsaved   map[string]bool   // streams whose retention is not saved
	revisions map[string]uint64 // of the retention that is saved
	unrolled  map[uint64]error  // why lanes could not be rolled up

	// storing guards the lane of Store.
	storing  sync.Mutex
	implicit *lane
	closed   bool
}

var (
	_ archive.Laned    = (*Archive)(nil)
	_ archive.RolledUp = (*Archive)(nil)
)

func init() {
	archive.Register("clickhouse", func(location string, o archive.Options) (archive.Archive, error) {
		return Open(location, Options{Quota: o.Quota, Queries: o.Queries, Now: o.Now})
	})
	archive.RegisterCheck("clickhouse", func(location string) error {
		_, err := parse(location)
		return err
	})
}

var errNoNode = errors.New("no server of ClickHouse answers")

// openMost is how long Open waits for a server.
const openMost = 30 * time.Second

// Open opens the archive at a URL without its scheme, or creates it.
func Open(url string, options Options) (*Archive, error) {
	l, err := parse(url)
	if err != nil {
		return nil, err
	}
	options.Quota = options.Quota.Complete()
	if options.Now == nil {
		options.Now = time.Now
	}
	ctx, cancel := context.WithTimeout(context.Background(), openMost)
	defer cancel()
	options.RollUp = cmp.Or(options.RollUp, l.rollUp, rollUpEvery)
	a := &Archive{
		location: l, options: options, queries: make(chan struct{}, cmp.Or(options.Queries.AtOnce, queriesAtOnce)), catalog: ledger.NewCatalog(),
		rolls: make(chan struct{}, rollsAtOnce()), retention: map[string]archive.Retention{}, unsaved: map[string]bool{}, revisions: map[string]uint64{}, unrolled: map[uint64]error{},
	}
	a.background, a.end = context.WithCancel(context.Background())
	if a.shards, err = l.discover(ctx); err != nil {
		return nil, fmt.Errorf("open ClickHouse archive: %w", err)
	}
	if err := a.prepare(ctx); err != nil {
		_ = a.Close()
		return nil, fmt.Errorf("open ClickHouse archive: %w", err)
	}
	a.follower.Go(a.followRetention)
	return a, nil
}

// replicated reports whether tables have replicas, which is so in a cluster.
func (a *Archive) replicated() bool { return a.location.cluster != "" }

// nodes are all of them.
func (a *Archive) nodes() (list []*node) {
	for _, replicas := range a.shards {
		list = append(list, replicas...)
	}
	return list
}

// prepare creates the database and the archive's own tables on each node that answers.
func (a *Archive) prepare(ctx context.Context) error {
	if err := a.everywhere(ctx, a.ensure); err != nil {
		return err
	}
	if err := a.reload(ctx); err != nil {
		return err
	}
	if err := a.loadShapes(ctx); err != nil {
		return err
	}
	return a.loadRetention(ctx)
}

// everywhere runs work on all nodes at once. Nodes without a connection are left out, as long
// as one has a connection: what they miss they get when they are used next.
func (a *Archive) everywhere(ctx context.Context, work func(context.Context, *node) error) error {
	nodes := a.nodes()
	failures := make([]error, len(nodes))
	var group sync.WaitGroup
	for i, n := range nodes {
		group.Go(func() { failures[i] = work(ctx, n) })
	}
	group.Wait()
	reached := false
	var unreachable error
	for i, err := range failures {
		if err != nil && !retryable(err) {
			return fmt.Errorf("node %s: %w", nodes[i].address, err)
		}
		if err == nil {
			reached = true
		} else {
			unreachable = errors.Join(unreachable, fmt.Errorf("node %s: %w", nodes[i].address, err))
		}
	}
	if !reached {
		return fmt.Errorf("%w: %w", errNoNode, unreachable)
	}
	return nil
}

// anywhere runs work on one node, on the next one if there is no connection and no rows were
// passed on.
func (a *Archive) anywhere(ctx context.Context, work func(context.Context, *node) error) error {
	var unreachable error
	for _, n := range a.nodes() {
		err := a.ensure(ctx, n)
		if err == nil {
			err = work(ctx, n)
		}
		var passed passedError
		if err == nil || code(err) != 0 || ctx.Err() != nil || errors.As(err, &passed) {
			return err
		}
		unreachable = errors.Join(unreachable, fmt.Errorf("node %s: %w", n.address, err))
	}
	return fmt.Errorf("%w: %w", errNoNode, unreachable)
}

// query asks one node and passes each row. Statements are of this package, never a user's.
func (a *Archive) query(ctx context.Context, sql string, row func(scan func(...any) error) error) error {
	return a.anywhere(ctx, func(ctx context.Context, n *node) error { return n.query(ctx, sql, row) })
}

func (n *node) query(ctx context.Context, sql string, row func(scan func(...any) error) error) error {
	rows, err := n.Query(ctx, sql)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// exec runs a statement that returns no rows.
func (n *node) exec(ctx context.Context, sql string) error {
	f, err := n.identify(ctx)
	if err != nil {
		return err
	}
	return n.Exec(driver.Context(ctx, driver.WithSettings(f.session())), sql)
}

// Check returns an error if no node answers.
func (a *Archive) Check(ctx context.Context) error {
	return a.query(ctx, "SELECT 1", func(scan func(...any) error) error {
		var one uint8
		return scan(&one)
	})
}

// Size of all parts on all nodes that answer, bytes: each replica counts.
func (a *Archive) Size() (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), openMost)
	defer cancel()
	var mutex sync.Mutex
	var size int64
	err := a.everywhere(ctx, func(ctx context.Context, n *node) error {
		return n.query(ctx, "SELECT toInt64(sum(bytes_on_disk)) FROM system.parts WHERE active AND database = "+literal(a.location.database), func(scan func(...any) error) error {
			var bytes int64
			err := scan(&bytes)
			mutex.Lock()
			defer mutex.Unlock()
			size += bytes
			return err
		})
	})
	if err != nil {
		return 0, fmt.Errorf("read size of archive: %w", err)
	}
	return size, nil
}

// Close saves what is not saved, and closes all connections.
func (a *Archive) Close() error {
	a.storing.Lock()
	defer a.storing.Unlock()
	if a.closed {
		return nil
	}
	a.closed = true
	a.end()
	a.follower.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), openMost)
	defer cancel()
	err := a.saveRetention(ctx)
	if a.implicit != nil {
		err = errors.Join(err, a.implicit.Close())
	}
	a.writes.group.Wait()
	for _, n := range a.nodes() {
		err = errors.Join(err, n.Close())
		if n.reader != nil {
			err = errors.Join(err, n.reader.Close())
		}
	}
	return err
}
