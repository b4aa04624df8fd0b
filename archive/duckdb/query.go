package duckdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	duckdb "github.com/duckdb/duckdb-go-bindings"

	"pillion.dev/archive"
	"pillion.dev/archive/query"
	"pillion.dev/measure"
)

var (
	// readingWords begin the statements that a question may be. DuckDB turns some
	// others, pragmas for one, into a SELECT, so the type alone does not tell.
	readingWords = []string{"SELECT", "WITH", "FROM", "VALUES", "EXPLAIN", "DESCRIBE", "SHOW", "SUMMARIZE", "TABLE"}
	readingTypes = []duckdb.StatementType{duckdb.StatementTypeSelect, duckdb.StatementTypeExplain}
)

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
	if err := work(ctx); err != nil && !errors.Is(err, query.ErrEnough) {
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
	if err := query.CheckStatement(sql, readingWords, statementMost); err != nil {
		return err
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
		return a.answer(ctx, q, limits.Scope, query.Limited(limits.Rows, rows))
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

// known returns the schema of a stream.
func (a *Archive) known(stream string) (*measure.Schema, error) {
	a.cache.Lock()
	defer a.cache.Unlock()
	if s := a.catalog.Schemas[stream]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("%w: %q", archive.ErrUnknown, stream)
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
