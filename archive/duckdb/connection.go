package duckdb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	duckdb "github.com/duckdb/duckdb-go-bindings"

	"pillion.dev/measure"
)

// sqlError is an error of DuckDB.
type sqlError struct {
	kind    duckdb.ErrorType
	message string
}

// Error is the message in one line, without the excerpt with a caret that follows it.
func (e *sqlError) Error() string {
	text, _, _ := strings.Cut(e.message, "\n\nLINE ")
	return strings.Join(strings.Fields(text), " ")
}

// noSpace reports whether an error means that the disk is full.
func noSpace(err error) bool {
	text := err.Error()
	for _, sign := range []string{"No space left", "Disk quota exceeded", "File too large", "max_temp_directory_size"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// fatal reports whether DuckDB will refuse all work until it is opened again.
func fatal(err error) bool {
	var said *sqlError
	if !errors.As(err, &said) {
		return false
	}
	return said.kind == duckdb.ErrorTypeFatal || said.kind == duckdb.ErrorTypeInternal ||
		strings.Contains(said.message, "has been invalidated")
}

// connection is one session with the database; one goroutine uses it at a time.
type connection struct {
	raw   duckdb.Connection
	stuck bool // in a failed transaction that could not be rolled back
}

func connect(db duckdb.Database) (*connection, error) {
	c := &connection{}
	if duckdb.Connect(db, &c.raw) == duckdb.StateError {
		return nil, errors.New("connect to database: rejected by DuckDB")
	}
	return c, nil
}

func (c *connection) close() { duckdb.Disconnect(&c.raw) }

// interruptEvery is how often a statement whose context has ended is interrupted:
// an interrupt that comes just before the statement starts is forgotten by DuckDB.
const interruptEvery = 20 * time.Millisecond

// watch interrupts what runs on the connection once the context has ended, until
// the function that it returns is called.
func (c *connection) watch(ctx context.Context) (stop func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		ticker := time.NewTicker(interruptEvery)
		defer ticker.Stop()
		for {
			duckdb.Interrupt(c.raw)
			select {
			case <-done:
				return
			case <-ticker.C:
			}
		}
	}()
	return func() { close(done); <-gone }
}

// exec runs an internal statement and discards its rows.
func (c *connection) exec(ctx context.Context, sql string, arguments ...any) error {
	return c.query(ctx, sql, arguments, func(arrow.RecordBatch) error { return nil })
}

// query runs one statement and passes its rows on.
func (c *connection) query(ctx context.Context, sql string, arguments []any, rows func(arrow.RecordBatch) error) error {
	if c.stuck {
		if err := c.rollback(); err != nil {
			return err
		}
	}
	var statement duckdb.PreparedStatement
	defer duckdb.DestroyPrepare(&statement)
	if duckdb.Prepare(c.raw, sql, &statement) == duckdb.StateError {
		return prepareError(statement)
	}
	return c.run(ctx, statement, arguments, rows)
}

func prepareError(statement duckdb.PreparedStatement) error {
	return &sqlError{duckdb.ErrorTypeInvalid, duckdb.PrepareError(statement)}
}

// run executes a prepared statement as a stream, so that no more than a few chunks
// of its result are in memory.
func (c *connection) run(ctx context.Context, statement duckdb.PreparedStatement, arguments []any, rows func(arrow.RecordBatch) error) error {
	if err := bind(statement, arguments); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	defer c.watch(ctx)()
	var pending duckdb.PendingResult
	defer duckdb.DestroyPending(&pending)
	if duckdb.PendingPreparedStreaming(statement, &pending) == duckdb.StateError {
		return because(ctx, &sqlError{duckdb.ErrorTypeInvalid, duckdb.PendingError(pending)})
	}
	var result duckdb.Result
	defer duckdb.DestroyResult(&result)
	if duckdb.ExecutePending(pending, &result) == duckdb.StateError {
		return because(ctx, resultError(&result))
	}
	schema, err := resultSchema(&result)
	if err != nil {
		return err
	}
	defer schema.free()
	for handed := false; ; handed = true {
		chunk := duckdb.FetchChunk(result)
		if chunk.Ptr == nil {
			if duckdb.ResultError(&result) != "" {
				return because(ctx, resultError(&result))
			}
			if err := ctx.Err(); err != nil || handed {
				return err
			}
			return schema.handNone(rows)
		}
		err := schema.hand(chunk, rows)
		duckdb.DestroyDataChunk(&chunk)
		if err != nil {
			return err
		}
	}
}

func resultError(result *duckdb.Result) error {
	return &sqlError{duckdb.ResultErrorType(result), duckdb.ResultError(result)}
}

// because returns the context's error, if it has one, instead of its consequence.
func because(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil {
		return cause
	}
	return err
}

func bind(statement duckdb.PreparedStatement, arguments []any) error {
	if n := duckdb.NParams(statement); int(n) != len(arguments) {
		return &sqlError{duckdb.ErrorTypeInvalidInput, fmt.Sprintf("the statement has %d parameters, but %d values were given", n, len(arguments))}
	}
	for i, argument := range arguments {
		value, err := valueOf(argument)
		if err != nil {
			return err
		}
		state := duckdb.BindValue(statement, duckdb.IdxT(i+1), value)
		duckdb.DestroyValue(&value)
		if state == duckdb.StateError {
			return &sqlError{duckdb.ErrorTypeInvalidInput, fmt.Sprintf("parameter %d cannot be %v", i+1, argument)}
		}
	}
	return nil
}

func valueOf(argument any) (duckdb.Value, error) {
	switch v := argument.(type) {
	case nil:
		return duckdb.CreateNullValue(), nil
	case bool:
		return duckdb.CreateBool(v), nil
	case int:
		return duckdb.CreateInt64(int64(v)), nil
	case int32:
		return duckdb.CreateInt32(v), nil
	case int64:
		return duckdb.CreateInt64(v), nil
	case uint32:
		return duckdb.CreateUInt32(v), nil
	case uint64:
		return duckdb.CreateUInt64(v), nil
	case float64:
		return duckdb.CreateDouble(v), nil
	case string:
		return duckdb.CreateVarcharLength(v, duckdb.IdxT(len(v))), nil
	case []byte:
		return duckdb.CreateBlob(v), nil
	case []string:
		texts := make([]duckdb.Value, len(v))
		for i, text := range v {
			texts[i], _ = valueOf(text)
			defer duckdb.DestroyValue(&texts[i])
		}
		text := logicalType(measure.String)
		defer duckdb.DestroyLogicalType(&text)
		return duckdb.CreateListValue(text, texts), nil
	case time.Time:
		return duckdb.CreateTimestampNS(duckdb.NewTimestampNS(v.UnixNano())), nil
	}
	return duckdb.Value{Ptr: unsafe.Pointer(nil)}, &sqlError{duckdb.ErrorTypeInvalidInput, fmt.Sprintf("a parameter cannot be a %T", argument)}
}
