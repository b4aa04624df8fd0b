package clickhouse

import (
	"context"
	"errors"
	"fmt"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
)

// passedError is an error after rows were passed on: another node must not pass them again.
type passedError struct{ error }

func (e passedError) Unwrap() error { return e.error }

// readSettings are the settings of the archive's own queries: sorting and grouping of more than half a gigabyte use
// the disk, and a statement may list many sessions. Groups are divided into 256 blocks, as writing to disk
// requires, only then: with hundreds of expressions a block takes 1 ms.
var readSettings = driver.Settings{
	"max_bytes_before_external_sort": spillBytes, "max_bytes_before_external_group_by": spillBytes, "group_by_two_level_threshold_bytes": spillBytes,
	"max_query_size": 64 << 20, "max_ast_elements": 10 << 20, "max_expanded_ast_elements": 10 << 20,
}

const spillBytes = 512 << 20

// read sends one node a query of the archive's own and passes the answer in record batches. If want is given, its
// columns are the columns of the statement, and the batches have its types.
func (a *Archive) read(ctx context.Context, sql string, want *arrow.Schema, rows func(arrow.RecordBatch) error) error {
	err := a.anywhere(ctx, func(ctx context.Context, n *node) error {
		return n.records(driver.Context(ctx, driver.WithSettings(readSettings)), sql, want, rows)
	})
	var passed passedError
	if errors.As(err, &passed) {
		err = passed.error
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return blame(err)
}

// blame attributes an error of a server to the question, unless no other one would avoid it.
func blame(err error) error {
	if n := code(err); n != 0 && !transient[n] {
		return fmt.Errorf("%w: %w", archive.ErrQuery, err)
	}
	return err
}

// transient are the errors of a server that no other question would avoid: time-outs and
// failures of connections, missing replicas, full disks.
var transient = map[int32]bool{3: true, 159: true, 202: true, 209: true, 210: true, 225: true, 242: true, 243: true, 279: true, 289: true, 999: true}

// records runs a statement and passes its rows. It ends the statement when rows returns an error.
func (n *node) records(ctx context.Context, sql string, want *arrow.Schema, rows func(arrow.RecordBatch) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	result, err := n.Query(ctx, sql)
	if err != nil {
		return err
	}
	// The statement is cancelled first: closing alone reads the rest of its rows.
	defer result.Close()
	defer cancel()
	r, err := newResult(result, want)
	if err != nil {
		return passedError{err}
	}
	defer r.release()
	for more := true; more; {
		record, err := r.next()
		if err != nil {
			if r.passed {
				return passedError{err}
			}
			return err
		}
		more = record.NumRows() > 0
		if more || !r.passed {
			r.passed = true
			if err := rows(record); err != nil {
				record.Release()
				return passedError{err}
			}
		}
		record.Release()
	}
	return nil
}
