// Package duckdb keeps an archive in one DuckDB file: a table for each stream, its
// own tables in the schema pillion. Package query asks most questions, in the dialect of this package.
//
// One goroutine writes, in transactions that end on disk: a large commit in several at
// once, on a connection each, since packing rows takes one processor for each
// transaction. Every question has a connection of its own that only reads. Rows lie in the order in which they came,
// not sorted within a commit: that is the order of time to within seconds already,
// so the zone maps of row groups prune ranges of time, and sorting would cost a
// third of the rate for nothing.
//
// The limit of memory is the whole database's. A question that needs more spills
// to the folder beside the file, or fails; it does not take memory from elsewhere.
package duckdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	duckdb "github.com/duckdb/duckdb-go-bindings"

	"pillion.dev/archive"
	"pillion.dev/archive/ledger"
)

// Options of an archive; the zero value is fit for a small server.
type Options struct {
	// Memory that the database may use, bytes; 0 means 1 GiB.
	Memory int64
	// LogBytes is how long the write-ahead log gets before it is worked into the
	// file; 0 means 64 MiB. The commit that goes over it waits for that.
	LogBytes int64
	// Quota of each agent; zero values are the defaults.
	Quota archive.Quota
	// Now is the time of arrival; default time.Now.
	Now func() time.Time
	// Queries bounds Query; by default four at once, each with a quarter of Memory, at
	// least 64 MiB, and half of the processors.
	Queries archive.Queries
	// Arrivals are the streams whose arrivals are followed.
	Arrivals []string
	// Folder is the server's data directory, of which store.Notices tells what was lost; by default the folder of the file.
	Folder string
}

// Archive implements archive.Archive.
type Archive struct {
	path    string
	options Options

	// state is held for reading by whoever uses db, for writing to open or close it.
	state  sync.RWMutex
	db     duckdb.Database
	live   context.Context // ends when db is to be closed
	cancel context.CancelFunc
	broken atomic.Bool // db must be opened again
	closed bool
	damage atomic.Pointer[error] // the first damaged block that was found
	lost   atomic.Int64          // acknowledged rows that were missing at the start

	queries chan struct{} // one element for each process that answers a query

	// room is cancelled and replaced when storing needs the memory of queries.
	room struct {
		sync.Mutex
		context.Context
		end context.CancelFunc
	}

	// writing is held by whoever uses writer.
	writing  sync.Mutex
	writer   *connection
	more     []*connection // that write parts of a large commit
	revision uint64
	logged   int   // rows of the delivery log
	arrived  int64 // the last time of arrival, ns, if arrivals are followed

	// cache guards what follows; writers hold writing as well.
	cache   sync.Mutex
	catalog *ledger.Catalog
	book    *ledger.Book // has a lock of its own
	// doubt: the last transaction failed, and it is unknown whether it is on disk.
	doubt     bool
	retention map[string]archive.Retention
	unsaved   bool // retention is not on disk yet
	// used is when a stream last got a batch.
	used map[string]time.Time
}

var _ archive.Archive = (*Archive)(nil)

// fileName is the default name of the file in the server's data directory.
const fileName = "archive.duckdb"

func init() {
	archive.Register("duckdb", func(path string, o archive.Options) (archive.Archive, error) {
		return Open(cmp.Or(path, filepath.Join(o.Folder, fileName)), Options{Memory: o.Memory, Quota: o.Quota, Queries: o.Queries, Arrivals: o.Arrivals, Now: o.Now, Folder: o.Folder})
	})
}

var errClosed = errors.New("archive is closed")

// Open opens the archive in the file at path, or creates it.
func Open(path string, options Options) (*Archive, error) {
	if options.Memory == 0 {
		options.Memory = 1 << 30
	}
	if options.LogBytes == 0 {
		options.LogBytes = 64 << 20
	}
	q := &options.Queries
	q.AtOnce = cmp.Or(q.AtOnce, defaultQueries)
	q.Memory = cmp.Or(q.Memory, max(options.Memory/int64(q.AtOnce), leastQueryMemory))
	q.Processors = cmp.Or(q.Processors, max(runtime.NumCPU()/2, 1))
	options.Quota = options.Quota.Complete()
	if options.Now == nil {
		options.Now = time.Now
	}
	a := &Archive{
		path: path, options: options, queries: make(chan struct{}, q.AtOnce), book: ledger.NewBook(options.Quota), catalog: ledger.NewCatalog(),
		used: map[string]time.Time{},
	}
	// Of processes that were killed with an earlier server.
	if err := os.RemoveAll(a.queriesFolder()); err != nil {
		return nil, fmt.Errorf("open archive %s: %w", path, err)
	}
	if err := a.open(); err != nil {
		if unopened.MatchString(err.Error()) {
			return nil, fmt.Errorf("open archive %s: %w: %w; %s", path, archive.ErrDamaged, err, advice)
		}
		if denied.MatchString(err.Error()) {
			err = fmt.Errorf("%w; %s", err, access)
		}
		return nil, fmt.Errorf("open archive %s: %w", path, err)
	}
	a.compareAcknowledged()
	return a, nil
}

const (
	defaultQueries   = 4
	leastQueryMemory = 64 << 20
)

// queriesFolder is where the processes that answer queries spill.
func (a *Archive) queriesFolder() string { return a.path + ".queries" }

// spillRatio bounds what questions may spill to disk, in multiples of the memory.
const spillRatio = 8

func (a *Archive) settings() map[string]string {
	threads := runtime.GOMAXPROCS(0)
	return map[string]string{
		"memory_limit":                 strconv.FormatInt(a.options.Memory, 10) + "B",
		"temp_directory":               a.path + ".tmp",
		"max_temp_directory_size":      strconv.FormatInt(spillRatio*a.options.Memory, 10) + "B",
		"checkpoint_threshold":         strconv.FormatInt(a.options.LogBytes, 10) + "B",
		"autoinstall_known_extensions": "false",
		"autoload_known_extensions":    "false",
		"threads":                      strconv.Itoa(threads),
		// Threads of the caller. A caller of DuckDB whose work was taken by one of DuckDB's
		// threads spins until it is done, which would waste one of two processors.
		"external_threads": strconv.Itoa(min(2, threads)),
		// What is packed is written at once: at the end of a transaction others wait.
		"write_buffer_row_group_count": "1",
	}
}

// open requires that state is held for writing, or that there is no other user yet.
func (a *Archive) open() error {
	var config duckdb.Config
	if duckdb.CreateConfig(&config) == duckdb.StateError {
		return errors.New("create configuration: rejected by DuckDB")
	}
	defer duckdb.DestroyConfig(&config)
	for name, value := range a.settings() {
		if duckdb.SetConfig(config, name, value) == duckdb.StateError {
			return fmt.Errorf("set %s to %s: rejected by DuckDB", name, value)
		}
	}
	var message string
	if duckdb.OpenExt(a.path, &a.db, config, &message) == duckdb.StateError {
		return &sqlError{duckdb.ErrorTypeErrorIO, message}
	}
	a.live, a.cancel = context.WithCancel(context.Background())
	if err := a.prepare(a.live); err != nil {
		a.shut()
		return err
	}
	return nil
}

// prepare locks the database's settings, then reads what is kept in memory.
func (a *Archive) prepare(ctx context.Context) (err error) {
	if a.writer, err = connect(a.db); err != nil {
		return err
	}
	for range min(runtime.GOMAXPROCS(0), partsMost) - 1 {
		another, err := connect(a.db)
		if err != nil {
			return err
		}
		a.more = append(a.more, another)
	}
	// Copies are written by the server itself, which attaches them.
	copies := "SET allowed_directories = ['" + strings.ReplaceAll(a.path+backupSuffix, "'", "''") + "']"
	for _, setting := range []string{copies, "SET TimeZone = 'UTC'", "SET enable_external_access = false", "SET lock_configuration = true"} {
		// A build without time zones has UTC anyway.
		if err := a.writer.exec(ctx, setting); err != nil && setting != "SET TimeZone = 'UTC'" {
			return fmt.Errorf("%s: %w", setting, err)
		}
	}
	if err := a.writer.script(internals); err != nil {
		return err
	}
	if len(a.options.Arrivals) > 0 {
		if err := a.writer.script(arrivals); err != nil {
			return err
		}
	}
	a.cache.Lock()
	defer a.cache.Unlock()
	if a.catalog.Schemas, err = a.writer.loadSchemas(ctx); err != nil {
		return err
	}
	var states map[ledger.Sender]*ledger.Delivery
	if states, a.revision, a.logged, err = a.writer.loadDeliveries(ctx); err != nil {
		return err
	}
	a.book.Load(states)
	if err := errors.Join(a.loadArrivals(ctx), a.loadShapes(ctx)); err != nil {
		return err
	}
	if a.unsaved {
		return nil // what is in memory is newer
	}
	a.retention, err = a.writer.loadRetention(ctx)
	return err
}

// script runs several internal statements.
func (c *connection) script(sql string) error {
	var result duckdb.Result
	defer duckdb.DestroyResult(&result)
	if duckdb.Query(c.raw, sql, &result) == duckdb.StateError {
		return resultError(&result)
	}
	return nil
}

// shut closes the database; state is held as for open.
func (a *Archive) shut() {
	a.cancel()
	if a.writer != nil {
		a.writer.close()
		a.writer = nil
	}
	for _, another := range a.more {
		another.close()
	}
	a.more = nil
	duckdb.Close(&a.db)
}

// enter lets the caller use the database until it calls done. A broken one is
// opened again first.
func (a *Archive) enter(ctx context.Context) (done func(), err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		a.state.RLock()
		if a.closed {
			a.state.RUnlock()
			return nil, errClosed
		}
		if !a.broken.Load() {
			return a.state.RUnlock, nil
		}
		a.state.RUnlock()
		if err := a.heal(); err != nil {
			return nil, err
		}
	}
}

// heal opens a database again that DuckDB has given up, as it does when the disk
// is full in the middle of a commit.
func (a *Archive) heal() error {
	a.state.Lock()
	defer a.state.Unlock()
	if !a.broken.Load() || a.closed {
		return nil
	}
	if a.db.Ptr != nil {
		a.shut()
	}
	if err := a.open(); err != nil {
		if noSpace(err) {
			return fmt.Errorf("reopen archive %s: %w: %w", a.path, archive.ErrFull, err)
		}
		return fmt.Errorf("reopen archive %s: %w", a.path, err)
	}
	a.broken.Store(false)
	return nil
}

// judge names damaged streams, takes note of errors after which the database has to be opened again, and
// turns a full disk into archive.ErrFull. The caller has entered.
func (a *Archive) judge(err error) error {
	if damage := a.damaged(err); damage != nil {
		err = damage
	}
	full := noSpace(err)
	if full || fatal(err) {
		a.broken.Store(true)
		a.cancel()
	}
	if full {
		return fmt.Errorf("%w: %w", archive.ErrFull, err)
	}
	return err
}

// Check implements archive.Archive.
func (a *Archive) Check(ctx context.Context) error {
	if damage := a.damage.Load(); damage != nil {
		return *damage
	}
	return a.reader(ctx, 0, func(ctx context.Context, c *connection) error { return c.exec(ctx, "SELECT 1") })
}

// Size is the size of the file and its write-ahead log, bytes.
func (a *Archive) Size() (int64, error) {
	var size int64
	for _, path := range []string{a.path, a.path + ".wal"} {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("read size of archive: %w", err)
		}
		size += info.Size()
	}
	return size, nil
}

// Close ends all questions and works the log into the file.
func (a *Archive) Close() error {
	if done, err := a.enter(context.Background()); err == nil {
		a.writing.Lock()
		err = a.saveRetention(context.Background())
		a.writing.Unlock()
		done()
		if err != nil {
			return errors.Join(err, a.end())
		}
	}
	return a.end()
}

func (a *Archive) end() error {
	a.state.RLock()
	a.cancel()
	a.state.RUnlock()
	a.state.Lock()
	defer a.state.Unlock()
	if !a.closed {
		a.closed = true
		if a.db.Ptr != nil {
			a.shut()
		}
	}
	return nil
}
