package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/apache/arrow-go/v18/arrow"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/api/pillionv1/pillionv1connect"
	"pillion.dev/archive"
	"pillion.dev/measure"
)

const (
	queryTimeout = 2 * time.Minute

	defaultQueryRows = 10_000
	maxQueryRows     = 1_000_000
	defaultPoints    = 300
	maxPoints        = 10_000
	defaultLines     = 100
	maxLines         = 1000
	maxAggregates    = 64
	maxNames         = 512
	// maxValues limits a response with series, which is buffered completely.
	maxValues = 4_000_000
)

// Archive is the part of archive.Archive that this package uses.
type Archive interface {
	Streams(ctx context.Context) ([]archive.Stream, error)
	Query(ctx context.Context, sql string, arguments []any, limits archive.Limits, rows func(arrow.RecordBatch) error) error
	Series(ctx context.Context, question archive.Series) ([]archive.Line, error)
	Windows(ctx context.Context, question archive.Windows) (archive.WindowsAnswer, error)
	Flows(ctx context.Context, question archive.Flows) (archive.FlowsAnswer, error)
	Volumes(ctx context.Context, question archive.Volumes) (archive.VolumesAnswer, error)
	Traces(ctx context.Context, question archive.Traces, rows func(arrow.RecordBatch) error) error
	RouterDelays(ctx context.Context, question archive.RouterDelays) (archive.RouterDelaysAnswer, error)
	Export(ctx context.Context, question archive.Export, rows func(arrow.RecordBatch) error) error
	SetRetention(stream string, retention archive.Retention)
	Size() (int64, error)
}

// data implements DataService.
type data struct {
	archive reads
	// record audits a query or an export.
	record func(ctx context.Context, procedure string, request proto.Message, rows int64, err error) error
	live   Live
	log    *slog.Logger
	now    func() time.Time
	// stopping ends tails.
	stopping <-chan struct{}
	// Limits of concurrent calls.
	questions, queries, exports, tails *slots
}

// ListStreams returns all streams with their columns.
func (d *data) ListStreams(ctx context.Context, _ *pillionv1.ListStreamsRequest) (*pillionv1.ListStreamsResponse, error) {
	release, err := d.questions.take(ctx) // it counts the rows of every stream
	if err != nil {
		return nil, err
	}
	defer release()
	streams, err := d.archive.Streams(ctx)
	if err != nil {
		return nil, fmt.Errorf("list streams: %w", err)
	}
	slices.SortFunc(streams, func(a, b archive.Stream) int { return strings.Compare(a.Schema.Name, b.Schema.Name) })
	response := &pillionv1.ListStreamsResponse{}
	for _, stream := range streams {
		response.Streams = append(response.Streams, streamMessage(stream))
	}
	rollUps, err := d.archive.rollUps(ctx)
	if err != nil {
		return nil, err
	}
	for _, rollUp := range rollUps {
		response.RollUps = append(response.RollUps, streamMessage(rollUp))
	}
	return response, nil
}

// find also returns standard streams that have no rows yet.
func (d *data) find(ctx context.Context, name string) (archive.Stream, error) {
	stream, err := d.archive.stream(ctx, name)
	if err != nil {
		return stream, fmt.Errorf("find stream %q: %w", name, err)
	}
	return stream, nil
}

func streamMessage(s archive.Stream) *pillionv1.Stream {
	message := &pillionv1.Stream{
		Name: s.Schema.Name, Doc: s.Schema.Doc, Rows: s.Rows,
		First: api.TimeMessage(s.First), Last: api.TimeMessage(s.Last),
		Retention: &pillionv1.Retention{
			Age: api.DurationMessage(s.Retention.Age), Rows: s.Retention.Rows, Bytes: s.Retention.Bytes,
		},
	}
	message.Columns = fieldMessages(withAgent(s.Schema).Fields)
	return message
}

func fieldMessages(fields []measure.Field) []*pillionv1.Column {
	var columns []*pillionv1.Column
	for _, f := range fields {
		columns = append(columns, &pillionv1.Column{Name: f.Name, Type: f.Type.String(), Unit: f.Unit, Doc: f.Doc})
	}
	return columns
}

// Series returns time series of aggregates.
func (d *data) Series(ctx context.Context, request *pillionv1.SeriesRequest) (*pillionv1.SeriesResponse, error) {
	question, err := d.seriesOf(request)
	if err != nil {
		return nil, err
	}
	release, err := d.questions.take(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	lines, err := d.archive.Series(ctx, question)
	if err != nil {
		return nil, fmt.Errorf("read series of %s: %w", question.Stream, err)
	}
	span := question.To.Sub(question.From)
	step := (span/time.Duration(question.Points) + time.Millisecond - 1).Truncate(time.Millisecond)
	response := &pillionv1.SeriesResponse{Step: durationpb.New(step)}
	for _, line := range lines {
		response.Lines = append(response.Lines, lineMessage(line, len(question.Columns)))
	}
	return response, nil
}

func (d *data) seriesOf(request *pillionv1.SeriesRequest) (archive.Series, error) {
	question := archive.Series{
		Stream: request.GetStream(), Where: request.GetWhere(), By: request.GetBy(),
		Points: int(request.GetPoints()), Lines: int(request.GetLines()),
	}
	var err error
	if question.From, question.To, err = rangeOf(request.GetFrom(), request.GetTo()); err != nil {
		return question, err
	}
	if question.To.IsZero() {
		question.To = d.now()
	}
	if question.From.IsZero() {
		question.From = question.To.Add(-time.Hour)
	}
	if !question.From.Before(question.To) {
		return question, invalid("from", "read range: %v is not before %v", question.From, question.To)
	}
	if question.Points == 0 {
		question.Points = defaultPoints
	}
	if question.Lines == 0 {
		question.Lines = defaultLines
	}
	if question.Points > maxPoints || question.Points < 0 {
		return question, invalid("points", "read points %d: use at most %d", request.GetPoints(), maxPoints)
	}
	if question.Lines > maxLines || question.Lines < 0 {
		return question, invalid("lines", "read lines %d: use at most %d", request.GetLines(), maxLines)
	}
	if len(request.GetAggregates()) == 0 {
		return question, invalid("aggregates", "read aggregates: want at least one")
	}
	if n := len(request.GetAggregates()); n > maxAggregates || n*question.Points*question.Lines > maxValues {
		return question, invalid("aggregates", "read aggregates: %d of %d points of %d lines: use at most %d of them, and %d values in total",
			n, question.Points, question.Lines, maxAggregates, maxValues)
	}
	for _, a := range request.GetAggregates() {
		question.Columns = append(question.Columns, archive.Aggregate{Column: a.GetColumn(), Function: a.GetFunction(), Weight: a.GetWeight()})
	}
	return question, checkNames(question.Stream, question.By, question.Where)
}

func lineMessage(line archive.Line, aggregates int) *pillionv1.Line {
	message := &pillionv1.Line{Labels: map[string]string{}}
	for name, value := range line.Labels {
		message.Labels[name] = validText(value)
	}
	for range aggregates {
		message.Values = append(message.Values, &pillionv1.Points{})
	}
	for i, at := range line.Times {
		message.TimesMs = append(message.TimesMs, at.UnixMilli())
		for j, points := range message.Values {
			value := math.NaN()
			if j < len(line.Values[i]) {
				value = line.Values[i][j]
			}
			points.Values = append(points.Values, value)
		}
	}
	return message
}

// errEnough ends a query that exceeds its limit of rows.
var errEnough = errors.New("enough rows")

// Query runs one read-only statement.
func (d *data) Query(ctx context.Context, request *pillionv1.QueryRequest, to *connect.ServerStream[pillionv1.QueryResponse]) (err error) {
	limit := request.GetLimit()
	if limit == 0 {
		limit = defaultQueryRows
	}
	if limit < 0 || limit > maxQueryRows {
		return invalid("limit", "read limit %d: use at most %d", limit, maxQueryRows)
	}
	if strings.TrimSpace(request.GetSql()) == "" {
		return invalid("sql", "read sql: empty statement")
	}
	described, left := false, limit
	defer func() {
		err = d.record(ctx, pillionv1connect.DataServiceQueryProcedure, request, limit-left, err)
	}()
	release, err := d.queries.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	asking, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	// One row more than the limit shows whether the result is truncated.
	err = d.archive.Query(asking, request.GetSql(), nil, archive.Limits{Rows: limit + 1, Time: queryTimeout}, func(record arrow.RecordBatch) error {
		columns, descriptions := allCells(record)
		if !described {
			described = true
			if err := to.Send(&pillionv1.QueryResponse{Columns: descriptions}); err != nil {
				return err
			}
		}
		rows := min(record.NumRows(), left)
		left -= rows
		err := packRows(columns, int(rows), nil, func(piece []*pillionv1.Row) error {
			return to.Send(&pillionv1.QueryResponse{Rows: piece})
		})
		if err == nil && rows < record.NumRows() {
			err = errEnough
		}
		return err
	})
	if errors.Is(err, errEnough) {
		return to.Send(&pillionv1.QueryResponse{Truncated: true})
	}
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	return nil
}

// rangeOf reads a time range; either end can be zero.
func rangeOf(from, to *timestamppb.Timestamp) (time.Time, time.Time, error) {
	start, err := api.TimeOf(from)
	if err != nil {
		return start, start, invalid("from", "read from: %w", err)
	}
	end, err := api.TimeOf(to)
	if err != nil {
		return start, end, invalid("to", "read to: %w", err)
	}
	return start, end, nil
}

// checkNames rejects invalid names before they reach the archive, whose query languages
// differ in quoting.
func checkNames(stream string, columns []string, where map[string]string) error {
	if len(columns) > maxNames || len(where) > maxNames {
		return invalid("columns", "read names: %d columns, %d conditions: use at most %d", len(columns), len(where), maxNames)
	}
	if !measure.ValidName(stream) {
		return invalid("stream", "read stream %q: invalid stream name", stream)
	}
	for _, name := range columns {
		if !measure.ValidName(name) {
			return invalid("columns", "read column %q: invalid column name", name)
		}
	}
	for name := range where {
		if !measure.ValidName(name) {
			return invalid("where", "read where %q: invalid column name", name)
		}
	}
	return nil
}
