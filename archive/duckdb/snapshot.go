package duckdb

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/archive/query"
	"pillion.dev/measure"
)

// snapshot are connections whose transactions see the same state of the database, one
// for each scan that runs at once.
type snapshot struct {
	archive *Archive
	mutex   sync.Mutex
	idle    []*connection
	count   int
}

// scansMost limits the scans of one query.
const scansMost = 64

// plan begins as many transactions as the query has scans. Several begin while nothing is
// written.
func (s *snapshot) plan(ctx context.Context, text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || s.count > 0 {
		return fmt.Errorf("%w: %q scans", errFrame, text)
	}
	if n > scansMost {
		return fmt.Errorf("%w: the query reads %d tables, limit %d", archive.ErrQuery, n, scansMost)
	}
	if n > 1 {
		for !s.archive.writing.TryLock() {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Millisecond):
			}
		}
		defer s.archive.writing.Unlock()
	}
	for range n {
		c, err := s.begin(ctx)
		if err != nil {
			return err
		}
		s.idle = append(s.idle, c)
	}
	return nil
}

func (s *snapshot) begin(ctx context.Context) (*connection, error) {
	if s.count >= scansMost {
		return nil, fmt.Errorf("%w: the query reads more than %d tables at once", archive.ErrQuery, scansMost)
	}
	c, err := connect(s.archive.db)
	if err != nil {
		return nil, err
	}
	s.count++
	// A transaction begins with its first statement.
	for _, sql := range []string{"BEGIN TRANSACTION READ ONLY", "SELECT count(*) FROM pillion.streams WHERE false"} {
		if err := c.exec(ctx, sql); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

// take returns a connection; a query that has more scans than its plan sees a newer
// state in them.
func (s *snapshot) take(ctx context.Context) (*connection, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if n := len(s.idle); n > 0 {
		c := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return c, nil
	}
	return s.begin(ctx)
}

// put returns a connection; the transaction of one that failed is aborted.
func (s *snapshot) put(c *connection, sound bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if sound {
		s.idle = append(s.idle, c)
		return
	}
	c.close()
	s.count--
}

func (s *snapshot) close() {
	for _, c := range s.idle {
		c.close()
	}
}

// serving is a scan that sends rows to the process.
type serving struct {
	room   chan struct{}
	cancel context.CancelFunc
}

// signal makes room for a frame, or ends the scan.
func (s *serving) signal(more bool) {
	if !more {
		s.cancel()
		return
	}
	select {
	case s.room <- struct{}{}:
	default: // a process that claims more room than there is
	}
}

// errStopped ends a scan whose rows are not needed.
var errStopped = errors.New("scan stopped")

// serve starts a scan.
func (w *answering) serve(ctx context.Context, f frame) error {
	var request scan
	if err := decodeScan(f.content, &request); err != nil {
		return err
	}
	sql, arguments, err := w.statement(&request)
	if err != nil {
		return err
	}
	if w.scans[f.scan] != nil || len(w.scans) >= scansMost {
		return fmt.Errorf("%w: scan %d of %d", errFrame, f.scan, len(w.scans))
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &serving{room: make(chan struct{}, scanAhead), cancel: cancel}
	for range scanAhead {
		s.room <- struct{}{}
	}
	w.scans[f.scan] = s
	w.serving.Go(func() {
		defer cancel()
		err := w.send(ctx, s, f.scan, len(request.Columns) == 0, sql, arguments)
		if ctx.Err() != nil {
			return
		}
		message := ""
		if err != nil {
			message = err.Error()
			select {
			case w.failed <- err:
			default:
			}
		}
		_ = w.to.send(frameEnd, f.scan, []byte(message)) // an error means that the process has ended
	})
	return nil
}

func decodeScan(text []byte, request *scan) error {
	if err := json.Unmarshal(text, request); err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	return nil
}

// statement builds the SQL of a scan. Streams and columns have the names that the question uses.
func (w *answering) statement(request *scan) (sql string, arguments []any, err error) {
	i := slices.IndexFunc(w.asked.Streams, func(s remoteStream) bool { return s.Name == request.Stream })
	if i < 0 {
		return "", nil, fmt.Errorf("%w: stream %.70q", errFrame, request.Stream)
	}
	columns := w.asked.Streams[i].Columns
	find := func(name string) *remoteColumn {
		if at := slices.IndexFunc(columns, func(c remoteColumn) bool { return c.Name == name }); at >= 0 {
			return &columns[at]
		}
		return nil
	}
	what := []string{}
	for _, name := range request.Columns {
		if find(name) == nil || name == noColumn {
			return "", nil, fmt.Errorf("%w: column %.70q", errFrame, name)
		}
		what = append(what, quoted(name))
	}
	if len(what) == 0 {
		what = []string{"count(*)::UBIGINT"}
	}
	terms := []string{"true"}
	for _, one := range request.Where {
		column := find(one.Column)
		if column == nil || !slices.Contains(comparable, column.Type) || !slices.Contains(operators, one.Operator) {
			return "", nil, fmt.Errorf("%w: comparison of %.70q", errFrame, one.Column)
		}
		value, err := one.argument(column.Type)
		if err != nil {
			return "", nil, fmt.Errorf("%w: comparison of %.70q: %w", errFrame, one.Column, err)
		}
		terms = append(terms, fmt.Sprintf("%s %s CAST(? AS %s)", quoted(one.Column), one.Operator, sqlTypes[column.Type]))
		arguments = append(arguments, value)
	}
	schema, err := w.archive.known(request.Stream)
	if err != nil {
		return "", nil, err
	}
	terms = append(terms, dialect.Scoped(schema, w.scope)...) // the process is not trusted with other rows
	return fmt.Sprintf("SELECT %s FROM %s WHERE %s", strings.Join(what, ", "), tableOf(request.Stream), strings.Join(terms, " AND ")), arguments, nil
}

// send runs a scan and sends its rows as there is room for them.
func (w *answering) send(ctx context.Context, s *serving, id uint32, count bool, sql string, arguments []any) (err error) {
	c, err := w.pool.take(ctx)
	if err != nil {
		return err
	}
	defer func() { w.pool.put(c, err == nil) }()
	var to *recordWriter
	return c.query(ctx, sql, arguments, func(r arrow.RecordBatch) error {
		if count {
			content := binary.LittleEndian.AppendUint64(nil, answer.RowOf(r, 0).Uint(0))
			return w.to.send(frameCount, id, content)
		}
		if r.NumRows() == 0 {
			return nil
		}
		if to == nil {
			to = &recordWriter{}
		}
		select {
		case <-s.room:
		case <-ctx.Done():
			return errStopped
		}
		content, err := to.encode(r)
		if err != nil {
			return err
		}
		return w.to.send(frameRows, id, content)
	})
}

// remoteStreams are the tables that a query can read. Within a scope these are the standard ones, and others with rows in it,
// and their sizes are unknown.
func (a *Archive) remoteStreams(ctx context.Context, c *connection, scope *archive.Scope) ([]remoteStream, error) {
	rows := map[string]int64{}
	if scope == nil {
		err := c.query(ctx, "SELECT table_name, estimated_size FROM duckdb_tables() WHERE schema_name = 'main' AND NOT internal", nil,
			answer.Each(func(r answer.Row) { rows[r.Text(0)] = r.Int(1) }))
		if err != nil {
			return nil, err
		}
	}
	a.cache.Lock()
	schemas := maps.Clone(a.catalog.Schemas)
	a.cache.Unlock()
	var all []remoteStream
	for name, s := range schemas {
		shown, err := c.shows(ctx, s, scope)
		if err != nil {
			return nil, err
		}
		if shown {
			all = append(all, remoteStream{name, columnsOf(s), rows[name]})
		}
	}
	slices.SortFunc(all, func(x, y remoteStream) int { return strings.Compare(x.Name, y.Name) })
	return all, nil
}

// shows reports whether a stream may be known within a scope: the names of the other streams are names of
// applications.
func (c *connection) shows(ctx context.Context, s *measure.Schema, scope *archive.Scope) (shown bool, err error) {
	if scope == nil || archive.OwnershipOf(s).Source != "" && measure.FindStandard(s.Name) != nil {
		return true, nil
	}
	err = c.query(ctx, fmt.Sprintf("SELECT 1 FROM %s WHERE %s LIMIT 1", tableOf(s.Name), query.All(dialect.Scoped(s, scope))), nil, answer.Each(func(answer.Row) { shown = true }))
	return shown, err
}
