package duckdb

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	duckdb "github.com/duckdb/duckdb-go-bindings"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/measure"
)

var (
	// readingWords begin the statements that a question may be. DuckDB turns some
	// others, pragmas for one, into a SELECT, so the type alone does not tell.
	readingWords = []string{"SELECT", "WITH", "FROM", "VALUES", "EXPLAIN", "DESCRIBE", "SHOW", "SUMMARIZE", "TABLE"}
	readingTypes = []duckdb.StatementType{duckdb.StatementTypeSelect, duckdb.StatementTypeExplain}
	ornament     = regexp.MustCompile(`^(\s+|\(|--[^\n]*(\n|$)|(?s:/\*.*?\*/))+`)
	firstWord    = regexp.MustCompile(`^[A-Za-z]+`)
)

// errEnough ends a query at its limit of rows.
var errEnough = errors.New("enough rows")

// bounded runs work until the context ends, the time limit, or the database closes.
func (a *Archive) bounded(ctx context.Context, limit time.Duration, work func(context.Context) error) error {
	done, err := a.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	caller := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(a.live, func() { cancel(errClosed) })()
	defer context.AfterFunc(a.roomy(), func() { cancel(errRoom) })()
	if err := work(ctx); err != nil && !errors.Is(err, errEnough) {
		return a.explain(caller, ctx, limit, err)
	}
	return nil
}

// reader runs work on a connection of its own in a transaction that cannot write.
func (a *Archive) reader(ctx context.Context, limit time.Duration, work func(context.Context, *connection) error) error {
	return a.bounded(ctx, limit, func(ctx context.Context) error {
		c, err := connect(a.db)
		if err != nil {
			return err
		}
		defer c.close()
		if err := c.exec(ctx, "BEGIN TRANSACTION READ ONLY"); err != nil {
			return err
		}
		return work(ctx, c)
	})
}

// explain attributes an error to the query, the caller or the archive.
func (a *Archive) explain(caller, inner context.Context, limit time.Duration, err error) error {
	var said *sqlError
	switch {
	case caller.Err() != nil:
		return caller.Err()
	case errors.Is(inner.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%w: exceeded the time limit of %v", archive.ErrQuery, limit)
	case errors.Is(context.Cause(inner), errRoom):
		return fmt.Errorf("%w: %w", archive.ErrQuery, errRoom)
	case inner.Err() != nil:
		return errClosed
	case corrupt.MatchString(err.Error()):
		return a.judge(err)
	case errors.As(err, &said):
		// A question that spills more than it may is at fault, not the disk.
		if fatal(err) || noSpace(err) && !strings.Contains(err.Error(), "max_temp_directory_size") {
			return a.judge(err)
		}
		return fmt.Errorf("%w: %w", archive.ErrQuery, err)
	}
	return err
}

// Query implements archive.Archive, in a process of its own. It ends without an error at
// limits.Rows: who wants to know whether there were more asks for one more. TIMESTAMP_NS
// columns come as Arrow timestamps without a zone, and mean UTC.
func (a *Archive) Query(ctx context.Context, sql string, arguments []any, limits archive.Limits, rows func(arrow.RecordBatch) error) error {
	word := strings.ToUpper(firstWord.FindString(ornament.ReplaceAllString(sql, "")))
	if !slices.Contains(readingWords, word) {
		return fmt.Errorf("%w: only read-only statements are allowed (%s), not %q", archive.ErrQuery, strings.Join(readingWords, ", "), word)
	}
	if strings.ContainsRune(sql, 0) {
		return fmt.Errorf("%w: it contains a NUL byte", archive.ErrQuery)
	}
	if len(sql) > statementMost {
		return fmt.Errorf("%w: the statement has %d bytes, limit %d", archive.ErrQuery, len(sql), statementMost)
	}
	q := question{
		SQL: sql, Rows: limits.Rows, Memory: a.options.Queries.Memory, Spill: spillRatio * a.options.Queries.Memory, Threads: a.options.Queries.Processors,
	}
	for _, argument := range arguments {
		if argument == nil {
			argument = null{}
		}
		q.Arguments = append(q.Arguments, argument)
	}
	return a.bounded(ctx, limits.Time, func(ctx context.Context) error {
		select {
		case a.queries <- struct{}{}:
			defer func() { <-a.queries }()
		case <-ctx.Done():
			return ctx.Err()
		}
		c, err := connect(a.db)
		if err != nil {
			return err
		}
		q.Streams, err = a.remoteStreams(ctx, c, limits.Scope)
		c.close()
		if err != nil {
			return err
		}
		return a.answer(ctx, q, limits.Scope, limited(limits.Rows, rows))
	})
}

// prepareReading prepares the one statement of a question; the caller destroys it.
func (c *connection) prepareReading(sql string) (statement duckdb.PreparedStatement, err error) {
	var all duckdb.ExtractedStatements
	defer duckdb.DestroyExtracted(&all)
	count := duckdb.ExtractStatements(c.raw, sql, &all)
	if message := duckdb.ExtractStatementsError(all); message != "" {
		return statement, &sqlError{duckdb.ErrorTypeParser, message}
	}
	if count != 1 {
		return statement, &sqlError{duckdb.ErrorTypeParser, fmt.Sprintf("%d statements, want one", count)}
	}
	if duckdb.PrepareExtractedStatement(c.raw, all, 0, &statement) == duckdb.StateError {
		return statement, prepareError(statement)
	}
	if !slices.Contains(readingTypes, duckdb.PreparedStatementType(statement)) {
		return statement, &sqlError{duckdb.ErrorTypePermission, "only read-only statements are allowed"}
	}
	return statement, nil
}

// limited passes on at most most rows; 0 means all.
func limited(most int64, rows func(arrow.RecordBatch) error) func(arrow.RecordBatch) error {
	if most <= 0 {
		return rows
	}
	return func(r arrow.RecordBatch) error {
		if r.NumRows() < most {
			most -= r.NumRows()
			return rows(r)
		}
		head := r.NewSlice(0, most)
		defer head.Release()
		if err := rows(head); err != nil {
			return err
		}
		return errEnough
	}
}

// known returns the schema of a stream.
func (a *Archive) known(stream string) (*measure.Schema, error) {
	a.cache.Lock()
	defer a.cache.Unlock()
	if s := a.catalog.Schemas[stream]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("%w: %q", archive.ErrUnknown, stream)
}

// condition is the WHERE of a scope, a range of time and of equalities. A zero end is open.
func condition(s *measure.Schema, scope *archive.Scope, where map[string]string, from, to time.Time) (sql string, arguments []any, err error) {
	terms := []string{"true"}
	if term, more := scoped(s, scope); term != "" {
		terms, arguments = append(terms, term), append(arguments, more...)
	}
	if !from.IsZero() {
		terms, arguments = append(terms, "time >= ?"), append(arguments, from)
	}
	if !to.IsZero() {
		terms, arguments = append(terms, "time < ?"), append(arguments, to)
	}
	columns := make([]string, 0, len(where))
	for column := range where {
		columns = append(columns, column)
	}
	slices.Sort(columns)
	for _, column := range columns {
		t, err := answer.ColumnType(s, column)
		if err != nil {
			return "", nil, err
		}
		terms = append(terms, fmt.Sprintf("%s = CAST(?::VARCHAR AS %s)", quoted(column), sqlTypes[t]))
		arguments = append(arguments, where[column])
	}
	return strings.Join(terms, " AND "), arguments, nil
}

// Highest implements archive.Archive.
func (a *Archive) Highest(ctx context.Context, stream, column string, where map[string]string) (highest int64, err error) {
	s, err := a.known(stream)
	if err != nil {
		return 0, err
	}
	if _, err := answer.ColumnType(s, column); err != nil {
		return 0, err
	}
	terms, arguments, err := condition(s, nil, where, time.Time{}, time.Time{})
	if err != nil {
		return 0, err
	}
	sql := fmt.Sprintf("SELECT max(%s)::BIGINT FROM %s WHERE %s", quoted(column), tableOf(s.Name), terms)
	err = a.reader(ctx, 0, func(ctx context.Context, c *connection) error {
		highest, err = c.number(ctx, sql, arguments...)
		return err
	})
	return highest, err
}

// Streams implements archive.Archive.
func (a *Archive) Streams(ctx context.Context) ([]archive.Stream, error) {
	a.cache.Lock()
	var names []string
	for name := range a.catalog.Schemas {
		names = append(names, name)
	}
	a.cache.Unlock()
	slices.Sort(names)
	streams := []archive.Stream{}
	err := a.reader(ctx, 0, func(ctx context.Context, c *connection) error {
		for _, name := range names {
			s, err := a.known(name)
			if err != nil {
				return err
			}
			out := archive.Stream{Schema: s}
			if out.Rows, err = c.number(ctx, "SELECT count(*) FROM "+tableOf(name)); err != nil {
				return err
			}
			if out.Rows > 0 {
				first, err := c.number(ctx, "SELECT epoch_ns(min(time)) FROM "+tableOf(name))
				if err != nil {
					return err
				}
				last, err := c.number(ctx, "SELECT epoch_ns(max(time)) FROM "+tableOf(name))
				if err != nil {
					return err
				}
				out.First, out.Last = time.Unix(0, first).UTC(), time.Unix(0, last).UTC()
			}
			a.cache.Lock()
			out.Retention = a.retention[name]
			a.cache.Unlock()
			streams = append(streams, out)
		}
		return nil
	})
	return streams, err
}
