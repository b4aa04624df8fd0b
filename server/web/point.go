package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/module"
	"pillion.dev/measure/point"
	"pillion.dev/session"
)

// ListPoints returns the points that sessions can measure besides marked packets, the modules
// of marks, and the settings of sessions.
func (s *sessions) ListPoints(context.Context, *pillionv1.ListPointsRequest) (*pillionv1.ListPointsResponse, error) {
	response := &pillionv1.ListPointsResponse{Settings: settingMessages()}
	for _, d := range point.All() {
		message := api.Message[pillionv1.Point](*d)
		for _, schema := range d.Schemas {
			message.Streams = append(message.Streams, pointStream(schema))
		}
		response.Points = append(response.Points, message)
	}
	for _, d := range module.All() {
		response.Modules = append(response.Modules, &pillionv1.Point{
			Name: d.Name, Doc: d.Doc, Cost: d.Cost(), Views: api.Messages[pillionv1.PointView](d.Views),
			Streams: []*pillionv1.PointStream{pointStream(d.Schema)},
		})
	}
	return response, nil
}

func settingMessages() []*pillionv1.PointOption {
	var messages []*pillionv1.PointOption
	for _, s := range session.Settings() {
		message := api.Message[pillionv1.PointOption](s)
		message.Title = cmp.Or(s.Title, s.Label)
		messages = append(messages, message)
	}
	return messages
}

func pointStream(s *measure.Schema) *pillionv1.PointStream {
	return &pillionv1.PointStream{Name: s.Name, Doc: s.Doc, Columns: fieldMessages(withAgent(s).Fields)}
}

const (
	defaultListRows = 1000
	maxListRows     = 10_000
)

// ListRows returns the newest rows of a stream in a range of time.
func (d *data) ListRows(ctx context.Context, request *pillionv1.ListRowsRequest) (*pillionv1.ListRowsResponse, error) {
	from, to, err := rangeOf(request.GetFrom(), request.GetTo())
	if err != nil {
		return nil, err
	}
	limit := cmp.Or(request.GetLimit(), defaultListRows)
	if limit > maxListRows {
		return nil, invalid("limit", "read limit %d: use at most %d", limit, maxListRows)
	}
	if err := checkNames(request.GetStream(), request.GetColumns(), request.GetWhere()); err != nil {
		return nil, err
	}
	release, err := d.questions.take(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	stream, err := d.find(ctx, request.GetStream())
	if err != nil {
		return nil, err
	}
	fields := withAgent(stream.Schema).Fields
	if len(request.GetColumns()) > 0 {
		whole := withAgent(stream.Schema)
		fields = nil
		for _, name := range request.GetColumns() {
			i := whole.Index(name)
			if i < 0 {
				return nil, invalid("columns", "read columns: stream %s has no column %q", request.GetStream(), name)
			}
			fields = append(fields, whole.Fields[i])
		}
	}
	response := &pillionv1.ListRowsResponse{Columns: fieldMessages(fields)}
	err = d.archive.Export(ctx, archive.Export{
		Stream: request.GetStream(), Columns: request.GetColumns(), Where: request.GetWhere(),
		From: from, To: to, Limit: int64(limit), Newest: true,
	}, func(record arrow.RecordBatch) error {
		columns, _ := allCells(record)
		return packRows(columns, int(record.NumRows()), nil, func(rows []*pillionv1.Row) error {
			for _, row := range rows {
				own(row)
			}
			response.Rows = append(response.Rows, rows...)
			return nil
		})
	})
	if err != nil && (!errors.Is(err, archive.ErrUnknown) || measure.FindStandard(request.GetStream()) == nil) {
		return nil, fmt.Errorf("list rows of %s: %w", request.GetStream(), err)
	}
	return response, nil
}

// own copies the values that a row shares with its record batch, which is released before
// the row is sent.
func own(row *pillionv1.Row) {
	for _, value := range row.Values {
		switch kind := value.Kind.(type) {
		case *pillionv1.Value_Text:
			kind.Text = strings.Clone(kind.Text)
		case *pillionv1.Value_Binary:
			kind.Binary = slices.Clone(kind.Binary)
		}
	}
}
