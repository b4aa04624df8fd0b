// Package archive defines the interface of archives: they store the rows of streams,
// each batch exactly once, and answer queries. Package query below has the SQL that all databases
// share, and answer what does not depend on SQL; what only one database understands stays in the
// package that is named after it, duckdb or clickhouse. ledger knows which batches are stored,
// transfer copies archives, and archivetest is the suite that all archives pass.
//
// In the flow it is between the bus and the API. It does not authorise callers.
package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/internal/quota"
	"pillion.dev/measure"
)

// Errors that callers distinguish.
var (
	// ErrQuery is an error in the query, not of the archive.
	ErrQuery = errors.New("bad query")
	// ErrSchema is a batch whose columns do not match the columns of its stream.
	ErrSchema = errors.New("columns do not match the stream")
	// ErrFull is an archive that cannot write; nothing of the batch is stored.
	ErrFull = errors.New("archive cannot write")
	// ErrDamaged is an archive of which some rows cannot be read.
	ErrDamaged = errors.New("the archive is damaged")
	// ErrUnknownColumn is a batch of a standard stream with a column that this version
	// does not have. It may be stored after an upgrade of the server.
	ErrUnknownColumn = fmt.Errorf("%w column of a standard stream", measure.ErrUnknown)
	// ErrUnknown is a stream that the archive does not have.
	ErrUnknown = errors.New("no such stream")
)

// Columns that the archive puts before the columns of a stream.
const (
	// AgentColumn is the name of the agent that delivered the row.
	AgentColumn = "agent"
	// ArrivalColumn is the name of ArrivalField.
	ArrivalColumn = "arrived"
)

// ArrivalField is the column that the archive adds to the columns of a stream. Retention goes by it, since the time
// column is the sender's claim.
var ArrivalField = measure.Field{Name: ArrivalColumn, Type: measure.Time, Doc: "when the row arrived at the server, by the server's clock"}

// OwnAgent is the agent of rows that the server itself writes: no agent has the name.
const OwnAgent = "server"

// Quota bounds what the archive keeps for one agent besides its rows.
type Quota struct {
	// Streams that it may create or extend, and Columns that it may add to them.
	Streams, Columns int
	// Sequences of batches: each start of an agent begins one in each of its streams.
	Sequences int
	// Gaps are batches stored whose predecessors have not arrived.
	Gaps int
}

// Complete fills in the defaults.
func (q Quota) Complete() Quota {
	return Quota{
		Streams: cmp.Or(q.Streams, 128), Columns: cmp.Or(q.Columns, 2048),
		Sequences: cmp.Or(q.Sequences, 8192), Gaps: cmp.Or(q.Gaps, 1<<16),
	}
}

// Temporary reports whether a rejected batch may be stored later.
func Temporary(rejection error) bool {
	if e := quota.Of(rejection); e != nil {
		return e.Later
	}
	return errors.Is(rejection, ErrUnknownColumn)
}

// Batch is a decoded batch of one agent.
type Batch struct {
	Agent string
	measure.Key
	// Oldest is as in measure.Envelope.
	Oldest uint64
	Schema *measure.Schema
	// Record stays the caller's; Store does not keep it.
	Record arrow.RecordBatch
}

// Archive keeps streams. All methods may be called at once.
type Archive interface {
	// Store commits batches together. When it returns nil every batch is on
	// disk: stored[i] is true if it is new, false if it was stored before. Batches
	// that can never be stored, or not now (see Temporary), are returned in rejected, by
	// index, while the others are stored. An error means that none of the batches is stored.
	Store(ctx context.Context, batches []Batch) (stored []bool, rejected map[int]error, err error)
	// Streams lists all streams.
	Streams(ctx context.Context) ([]Stream, error)
	// Query runs one read-only SQL statement and passes its rows in record batches,
	// which are released after each call.
	Query(ctx context.Context, sql string, arguments []any, limits Limits, rows func(arrow.RecordBatch) error) error
	// Highest returns the largest value of an integer column of a stream among rows
	// whose columns equal the values in where; 0 without such rows.
	Highest(ctx context.Context, stream, column string, where map[string]string) (int64, error)
	// Series computes time series of one stream, thinned to at most Points each.
	Series(ctx context.Context, question Series) ([]Line, error)
	// Windows adds up rows of the stream flows in windows of time.
	Windows(ctx context.Context, question Windows) (WindowsAnswer, error)
	// Flows adds up rows of the stream flows by flow.
	Flows(ctx context.Context, question Flows) (FlowsAnswer, error)
	// Volumes adds up packets and bytes of rows of the stream flows.
	Volumes(ctx context.Context, question Volumes) (VolumesAnswer, error)
	// Traces passes the rows of the stream hops of the last traces of a path.
	Traces(ctx context.Context, question Traces, rows func(arrow.RecordBatch) error) error
	// RouterDelays adds up the rows of a router in windows of time.
	RouterDelays(ctx context.Context, question RouterDelays) (RouterDelaysAnswer, error)
	// Export passes the rows of a stream in a time range, oldest first unless the
	// question says otherwise. Columns have the types of their schema.
	Export(ctx context.Context, question Export, rows func(arrow.RecordBatch) error) error
	// SetRetention takes effect at the next Retain. Other servers that share the archive learn
	// it from the next Streams.
	SetRetention(stream string, retention Retention)
	// Retain removes rows beyond the retention of each stream and returns their
	// number, by stream. Ages are counted to now, by the clock that says when rows arrive.
	Retain(ctx context.Context, now time.Time) (map[string]int64, error)
	// Delivered are the counts of all batches and rows ever stored for an agent,
	// by stream.
	Delivered(ctx context.Context, agent string) (map[string]Delivered, error)
	// Check returns an error if the archive does not answer.
	Check(ctx context.Context) error
	// Size of what is on disk, bytes.
	Size() (int64, error)
	Close() error
}

// Stream is what the archive knows of one stream.
type Stream struct {
	Schema *measure.Schema
	Rows   int64
	// First and Last are the extremes of the time column; zero without rows.
	First, Last time.Time
	Retention   Retention
}

// Delivered counts what was stored of one stream of one agent.
type Delivered struct {
	Batches, Rows int64
	// Missing batches were dropped by the sender's spool: they will not come.
	Missing int64
}

// Retention bounds a stream; zero means no bound.
type Retention struct {
	Age  time.Duration
	Rows int64
	// Bytes of the stream on disk, estimated.
	Bytes int64
}

// Limits bound a question.
type Limits struct {
	Rows int64
	Time time.Duration
	// Scope limits the rows that a statement sees, whatever its text.
	Scope *Scope
}

// Series asks for lines of one stream.
type Series struct {
	Stream string
	// Columns to aggregate, each with a function: avg, min, max, sum, count,
	// first, last, p50, p90, p99; empty chooses what suits the column.
	Columns []Aggregate
	// Where are columns that must equal a value.
	Where map[string]string
	// By are columns whose values distinguish lines.
	By []string
	// From (inclusive), To (exclusive); the zero To is now.
	From, To time.Time
	// Points is the most of each line; steps are To-From divided by it, rounded
	// up to a whole number of milliseconds.
	Points int
	// Lines is the most lines, those with most rows first; 0 means 100.
	Lines int
	Scope *Scope
}

// Aggregate is a column and what is made of it in each step. Weight, if set, is
// a column of counts by which an average is weighted.
type Aggregate struct{ Column, Function, Weight string }

// Line is one series: its labels, and for each step that has rows the step's
// start and one value per Aggregate (NaN for none).
type Line struct {
	Labels map[string]string
	Times  []time.Time
	Values [][]float64
}

// Export asks for the rows of a stream. Where and the range are as in Series.
type Export struct {
	Stream   string
	Columns  []string
	Where    map[string]string
	From, To time.Time
	Limit    int64
	// Newest rows come first; else the oldest do.
	Newest bool
	Scope  *Scope
}
