package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api/pillionv1"
	"pillion.dev/api/pillionv1/pillionv1connect"
	"pillion.dev/archive"
	"pillion.dev/measure"
)

// Export sends a stream's rows as a file, in chunks.
func (d *data) Export(ctx context.Context, request *pillionv1.ExportRequest, to *connect.ServerStream[pillionv1.ExportResponse]) error {
	question, err := exportOf(request)
	if err != nil {
		return err
	}
	file := &rowFile{format: request.GetFormat()}
	file.chunks = &chunks{send: func(piece []byte) error {
		return to.Send(&pillionv1.ExportResponse{Data: piece, Rows: file.rows})
	}}
	return d.export(ctx, request, question, file)
}

func exportOf(request *pillionv1.ExportRequest) (archive.Export, error) {
	if _, known := formats[request.GetFormat()]; !known {
		return archive.Export{}, invalid("format", "read format %q: use arrow, csv or parquet", request.GetFormat())
	}
	from, to, err := rangeOf(request.GetFrom(), request.GetTo())
	if err != nil {
		return archive.Export{}, err
	}
	if request.GetLimit() < 0 {
		return archive.Export{}, invalid("limit", "read limit %d: use 0 (all) or more", request.GetLimit())
	}
	if err := checkNames(request.GetStream(), request.GetColumns(), request.GetWhere()); err != nil {
		return archive.Export{}, err
	}
	return archive.Export{
		Stream: request.GetStream(), Columns: request.GetColumns(), Where: request.GetWhere(),
		From: from, To: to, Limit: request.GetLimit(),
	}, nil
}

// export buffers one record batch and one chunk of the file at a time, and a row
// group for Parquet.
func (d *data) export(ctx context.Context, request *pillionv1.ExportRequest, question archive.Export, file *rowFile) (err error) {
	defer func() {
		err = d.record(ctx, pillionv1connect.DataServiceExportProcedure, request, file.rows, err)
	}()
	release, err := d.exports.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	stream, err := d.find(ctx, question.Stream)
	if err != nil {
		return err
	}
	whole := withAgent(stream.Schema).Arrow()
	err = d.archive.Export(ctx, question, func(record arrow.RecordBatch) error {
		described := describe(record, whole)
		defer described.Release()
		return file.write(described)
	})
	if err != nil && (!errors.Is(err, archive.ErrUnknown) || measure.FindStandard(question.Stream) == nil) {
		return fmt.Errorf("export %s: %w", question.Stream, err)
	}
	if file.writer == nil { // no rows: write the columns anyway
		schema, err := chosenColumns(whole, question)
		if err != nil {
			return err
		}
		if err := file.open(schema); err != nil {
			return fmt.Errorf("export %s: %w", question.Stream, err)
		}
	}
	if err := file.close(); err != nil {
		return fmt.Errorf("export %s: %w", question.Stream, err)
	}
	return nil
}

func chosenColumns(whole *arrow.Schema, question archive.Export) (*arrow.Schema, error) {
	if len(question.Columns) == 0 {
		return whole, nil
	}
	var fields []arrow.Field
	for _, name := range question.Columns {
		i := whole.FieldIndices(name)
		if len(i) == 0 {
			return nil, invalid("columns", "read columns: stream %s has no column %q", question.Stream, name)
		}
		fields = append(fields, whole.Field(i[0]))
	}
	metadata := whole.Metadata()
	return arrow.NewSchema(fields, &metadata), nil
}

// describe restores the metadata of a stream's columns and the time zone of its times,
// which a database may not preserve. No value is copied.
func describe(record arrow.RecordBatch, whole *arrow.Schema) arrow.RecordBatch {
	fields := record.Schema().Fields()
	columns := make([]arrow.Array, len(fields))
	for j := range fields {
		columns[j] = record.Column(j)
		i := whole.FieldIndices(fields[j].Name)
		if len(i) == 0 {
			continue
		}
		known := whole.Field(i[0])
		fields[j].Metadata = known.Metadata
		own, isTime := fields[j].Type.(*arrow.TimestampType)
		if utc, ok := known.Type.(*arrow.TimestampType); isTime && ok && own.Unit == utc.Unit && own.TimeZone != utc.TimeZone {
			from := record.Column(j).Data()
			retyped := array.NewData(utc, from.Len(), from.Buffers(), from.Children(), from.NullN(), from.Offset())
			defer retyped.Release()
			columns[j] = array.NewTimestampData(retyped)
			defer columns[j].Release()
			fields[j].Type = utc
		}
	}
	metadata := whole.Metadata()
	return array.NewRecordBatch(arrow.NewSchema(fields, &metadata), columns, record.NumRows())
}

// withAgent prepends the agent column, unless the schema has it.
func withAgent(schema *measure.Schema) *measure.Schema {
	if schema.Index(archive.AgentColumn) >= 0 {
		return schema
	}
	return &measure.Schema{Name: schema.Name, Doc: schema.Doc, Fields: slices.Insert(slices.Clone(schema.Fields), 0, agentField)}
}

var agentField = measure.Field{Name: archive.AgentColumn, Type: measure.String, Doc: "agent that delivered the row"}

// serveExport is Export for curl: GET /export?stream=S&format=F, and from, to (RFC
// 3339), columns (a,b), limit, where.COLUMN=VALUE.
func (d *data) serveExport(w http.ResponseWriter, r *http.Request) error {
	request, err := exportQuery(r)
	if err != nil {
		return err
	}
	question, err := exportOf(request)
	if err != nil {
		return err
	}
	format, begun := formats[request.GetFormat()], false
	file := &rowFile{format: request.GetFormat()}
	file.chunks = &chunks{send: func(piece []byte) error {
		if !begun {
			begun = true
			w.Header().Set("Content-Type", format.contentType)
			w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", question.Stream+"."+format.extension))
		}
		_, err := w.Write(piece)
		return err
	}}
	err = d.export(r.Context(), request, question, file)
	if err != nil && begun {
		d.log.Warn("export aborted", "stream", question.Stream, "error", err)
		panic(http.ErrAbortHandler) // so that the client notices the truncation
	}
	return err
}

func exportQuery(r *http.Request) (*pillionv1.ExportRequest, error) {
	request := &pillionv1.ExportRequest{Format: "csv", Where: map[string]string{}}
	for name, values := range r.URL.Query() {
		value, err := values[len(values)-1], error(nil)
		switch name {
		case "stream":
			request.Stream = value
		case "format":
			request.Format = value
		case "from":
			request.From, err = timeQuery(value)
		case "to":
			request.To, err = timeQuery(value)
		case "columns":
			request.Columns = strings.Split(value, ",")
		case "limit":
			request.Limit, err = strconv.ParseInt(value, 10, 64)
		default:
			column, isWhere := strings.CutPrefix(name, "where.")
			if !isWhere {
				err = errors.New("unknown parameter; use stream, format, from, to, columns, limit, where.COLUMN")
			}
			request.Where[column] = value
		}
		if err != nil {
			return nil, invalid(name, "read %s=%q: %w", name, value, err)
		}
	}
	return request, nil
}

func timeQuery(text string) (*timestamppb.Timestamp, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return nil, errors.New("use a time such as 2026-01-31T12:00:00Z")
	}
	return timestamppb.New(t), nil
}
