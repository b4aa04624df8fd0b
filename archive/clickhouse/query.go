package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/archive/query"
)

// readingWords begin the statements that a question may be.
var readingWords = []string{"SELECT", "WITH", "EXPLAIN", "DESCRIBE", "DESC", "SHOW", "EXISTS"}

const (
	// statementMost is the largest statement, bytes.
	statementMost = 1 << 20
	// queryTimeMost is how long a statement runs without a limit of its caller.
	queryTimeMost = 10 * time.Minute
	// queriesAtOnce is the default number of statements at once.
	queriesAtOnce = 4
	// queryMemory is the default memory of a statement, bytes.
	queryMemory = 1 << 30
)

// Query implements archive.Archive, as the user of ClickHouse that the URL names as reader,
// in the dialect of the server. It ends without an error at limits.Rows: who wants to know
// whether there were more asks for one more.
func (a *Archive) Query(ctx context.Context, sql string, arguments []any, limits archive.Limits, rows func(arrow.RecordBatch) error) error {
	if limits.Scope != nil { // system tables, and functions that read others, are beyond what a view or a row policy can cover
		return fmt.Errorf("%w: ClickHouse cannot limit SQL to some rows; use the other questions, or an archive in DuckDB", archive.ErrScope)
	}
	if err := query.CheckStatement(sql, readingWords, statementMost); err != nil {
		return err
	}
	bound, err := bind(sql, arguments)
	if err != nil {
		return fmt.Errorf("%w: %w", archive.ErrQuery, err)
	}
	caller := ctx
	if limits.Time <= 0 || limits.Time > queryTimeMost {
		limits.Time = queryTimeMost
	}
	ctx, cancel := context.WithTimeout(ctx, limits.Time)
	defer cancel()
	select {
	case a.queries <- struct{}{}:
		defer func() { <-a.queries }()
	case <-ctx.Done():
		return caller.Err()
	}
	if err := a.reload(ctx); err != nil {
		return err
	}
	settings := a.querySettings(limits)
	var said error
	limited := query.Limited(limits.Rows, rows)
	err = a.anywhere(ctx, func(ctx context.Context, n *node) error {
		reader, err := a.readerOf(ctx, n)
		if err != nil {
			return err
		}
		return reader.records(driver.Context(ctx, driver.WithSettings(settings)), bound, nil, func(r arrow.RecordBatch) error {
			said = limited(r)
			return said
		})
	})
	switch {
	case said != nil && errors.Is(err, said):
		if errors.Is(said, query.ErrEnough) {
			return nil
		}
		return said
	case caller.Err() != nil:
		return caller.Err()
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%w: exceeded the time limit of %v", archive.ErrQuery, limits.Time)
	}
	return blame(err)
}

// querySettings limit a statement. A reader of its own has limits of its own: a user in
// read-only mode cannot change settings.
func (a *Archive) querySettings(limits archive.Limits) driver.Settings {
	if a.location.reader != "" {
		return nil
	}
	memory := a.options.Queries.Memory
	if memory <= 0 {
		memory = queryMemory
	}
	seconds := int((limits.Time + time.Second - 1) / time.Second)
	s := driver.Settings{"readonly": 1, "max_execution_time": seconds, "max_memory_usage": int(memory)}
	if n := a.options.Queries.Processors; n > 0 {
		s["max_threads"] = n
	}
	return s
}
