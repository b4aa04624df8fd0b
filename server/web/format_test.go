package web

import (
	"bytes"
	"context"
	"encoding/csv"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"pillion.dev/api/pillionv1"
	"pillion.dev/api/pillionv1/pillionv1connect"
	"pillion.dev/archive"
)

// readArrow and readParquet are the oracles: independent readers return the records.
func readArrow(t *testing.T, text []byte) []arrow.RecordBatch {
	t.Helper()
	reader, err := ipc.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Release()
	var records []arrow.RecordBatch
	for reader.Next() {
		reader.RecordBatch().Retain()
		records = append(records, reader.RecordBatch())
	}
	if err := reader.Err(); err != nil {
		t.Fatal(err)
	}
	return records
}

func readParquet(t *testing.T, text []byte) []arrow.RecordBatch {
	t.Helper()
	reader, err := file.NewParquetReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	files, err := pqarrow.NewFileReader(reader, pqarrow.ArrowReadProperties{BatchSize: 1500}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	table, err := files.ReadTable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer table.Release()
	rows := array.NewTableReader(table, 1500)
	defer rows.Release()
	var records []arrow.RecordBatch
	for rows.Next() {
		rows.RecordBatch().Retain()
		records = append(records, rows.RecordBatch())
	}
	return records
}

func TestExport(t *testing.T) {
	s := newSite(t)
	for _, kind := range kinds {
		for _, format := range []string{"arrow", "parquet", "csv"} {
			t.Run(format+" by "+kind.name, func(t *testing.T) {
				client, url := s.client(t, kind.transport)
				rows := pillionv1connect.NewDataServiceClient(client, url, append(kind.options, bearer("viewer"))...)
				stream, err := rows.Export(t.Context(), &pillionv1.ExportRequest{Stream: "numbers", Format: format})
				if err != nil {
					t.Fatal(err)
				}
				var text []byte
				for stream.Receive() {
					if n := len(stream.Msg().Data); n == 0 || n > chunkBytes {
						t.Errorf("a chunk of %d bytes", n)
					}
					text = append(text, stream.Msg().Data...)
				}
				if err := stream.Err(); err != nil {
					t.Fatal(err)
				}
				checkFile(t, format, text)
			})
		}
	}
}

func checkFile(t *testing.T, format string, text []byte) {
	t.Helper()
	var records []arrow.RecordBatch
	switch format {
	case "arrow":
		records = readArrow(t, text)
	case "parquet":
		records = readParquet(t, text)
	default:
		checkCSV(t, text)
		return
	}
	want := numbersRecord(1500)
	defer want.Release()
	if len(records) != 3 {
		t.Fatalf("got %d records, want 3", len(records))
	}
	for _, got := range records {
		for j, field := range numbers.Fields {
			if got.ColumnName(j) != field.Name || !array.Equal(got.Column(j), want.Column(j)) {
				t.Errorf("column %s: got %v %v", field.Name, got.ColumnName(j), got.Column(j).DataType())
			}
		}
		got.Release()
	}
}

func checkCSV(t *testing.T, text []byte) {
	t.Helper()
	lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(lines) != 4501 {
		t.Fatalf("got %d lines, %v", len(lines), err)
	}
	want := map[int][]string{
		0: {"time", "flag", "small", "count", "delay_ns", "ratio", "word", "blob", "bounds", "counts", "port"},
		2: {"2026-03-01T12:00:00.12345679Z", "false", "-1", "9223372036854775809", "-1000", "0.25", "with, comma", "AP8B", "[-5,1]", "[1,1]", "1"},
		7: {"2026-03-01T12:00:00.123456795Z", "", "", "", "", "", "", "", "", "", ""},
	}
	for i, line := range want {
		if !slices.Equal(lines[i], line) {
			t.Errorf("line %d: got %q, want %q", i, lines[i], line)
		}
	}
	if lines[3][6] != words[2] || lines[4][6] != words[3] || lines[5][6] != "'"+words[4] {
		t.Errorf("words: got %q, %q, %q", lines[3][6], lines[4][6], lines[5][6])
	}
	if !bytes.HasPrefix(text, []byte("time,flag,")) || !bytes.Contains(text, []byte("port\r\n")) || !bytes.Contains(text, []byte(`"with ""quotes"""`)) {
		t.Error("not as in RFC 4180")
	}
}

func TestExportOfNothing(t *testing.T) {
	s := newSite(t)
	tests := []struct {
		name, path string
		status     int
		want       string
	}{
		{"csv has its header", "/export?stream=empty&format=csv", 200, "agent,time,flag,"},
		{"chosen columns", "/export?stream=empty&columns=word,time", 200, "word,time\r\n"},
		{"own stream before its first row", "/export?stream=packets", 200, "agent,time,session,"},
		{"unknown column", "/export?stream=empty&columns=nothing", 400, "nothing"},
		{"unknown stream", "/export?stream=nothing", 404, "no such stream"},
		{"unknown format", "/export?stream=empty&format=xls", 400, "use arrow, csv or parquet"},
		{"unknown parameter", "/export?stream=empty&form=csv", 400, "unknown parameter"},
		{"bad time", "/export?stream=empty&from=yesterday", 400, "use a time such as"},
		{"name of a file", "/export?stream=../../etc/passwd", 400, "invalid stream name"},
		{"negative limit", "/export?stream=empty&limit=-1", 400, "limit"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			status, body := s.get(t, "tls", test.path, "viewer")
			if status != test.status || !strings.Contains(body, test.want) {
				t.Errorf("got %d %q, want %d %q", status, body, test.status, test.want)
			}
		})
	}
	_, body := s.get(t, "tls", "/export?stream=empty&format=arrow", "viewer")
	if records := readArrow(t, []byte(body)); len(records) != 0 {
		t.Errorf("got %d records", len(records))
	}
	_, body = s.get(t, "tls", "/export?stream=empty&format=parquet", "viewer")
	if reader, err := file.NewParquetReader(strings.NewReader(body)); err != nil || reader.NumRows() != 0 || reader.MetaData().Schema.NumColumns() != 12 {
		t.Errorf("got %v, %v", reader, err)
	}
}

func TestExportForCurl(t *testing.T) {
	s := newSite(t)
	_, body := s.get(t, "tls1", "/export?stream=numbers&format=parquet&from=2026-01-01T00:00:00Z&where.word=plain&limit=0", "viewer")
	checkFile(t, "parquet", []byte(body))
	got := s.archive.asked[len(s.archive.asked)-1].(archive.Export)
	if got.Where["word"] != "plain" || !got.From.Equal(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) || !got.To.IsZero() {
		t.Errorf("asked %+v", got)
	}
	_, body = s.get(t, "http1", "/export?stream=numbers", "viewer")
	checkFile(t, "csv", []byte(body))
}

// TestTruncatedExport: the client notices that the file is incomplete.
func TestTruncatedExport(t *testing.T) {
	s := newSite(t, func(o *Options) { o.Archive = &brokenExport{o.Archive} })
	client, url := s.client(t, "tls1")
	request, err := http.NewRequest("GET", url+"/export?stream=numbers&format=csv", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer viewer")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.ReadAll(response.Body); err == nil {
		t.Error("the file seems complete")
	}
}

type brokenExport struct{ Archive }

func (b *brokenExport) Export(ctx context.Context, question archive.Export, rows func(arrow.RecordBatch) error) error {
	if err := b.Archive.Export(ctx, question, rows); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

// TestParquetIsBounded: row groups do not grow with the file.
func TestParquetIsBounded(t *testing.T) {
	var text bytes.Buffer
	out := &rowFile{format: "parquet", chunks: &chunks{send: func(p []byte) error { text.Write(p); return nil }}}
	record := numbersRecord(1500)
	defer record.Release()
	for range 100 {
		if err := out.write(record); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.close(); err != nil {
		t.Fatal(err)
	}
	reader, err := file.NewParquetReader(bytes.NewReader(text.Bytes()), file.WithReadProps(parquet.NewReaderProperties(memory.DefaultAllocator)))
	if err != nil {
		t.Fatal(err)
	}
	if reader.NumRows() != 150_000 || reader.NumRowGroups() < 3 {
		t.Errorf("got %d rows in %d groups", reader.NumRows(), reader.NumRowGroups())
	}
	for i := range reader.NumRowGroups() {
		if n := reader.RowGroup(i).NumRows(); n > rowGroupRows {
			t.Errorf("group %d has %d rows", i, n)
		}
	}
}

// TestDescribe: metadata of columns that a database does not keep is restored.
func TestDescribe(t *testing.T) {
	local := arrow.NewSchema([]arrow.Field{
		{Name: "word", Type: arrow.BinaryTypes.String}, {Name: "time", Type: &arrow.TimestampType{Unit: arrow.Nanosecond}, Nullable: true},
		{Name: "count", Type: arrow.PrimitiveTypes.Uint64}, {Name: "other", Type: arrow.PrimitiveTypes.Int64},
	}, nil)
	record, _, err := array.RecordFromJSON(memory.DefaultAllocator, local, strings.NewReader(
		`[{"word":"a","time":"2026-03-01T12:00:00","count":1,"other":2},{"word":"b","time":"2026-03-01T12:00:01","count":3,"other":4}]`))
	if err != nil {
		t.Fatal(err)
	}
	defer record.Release()
	got := describe(record, withAgent(&numbers).Arrow())
	defer got.Release()
	unit, _ := got.Schema().Field(2).Metadata.GetValue("unit")
	if got.Schema().Field(1).Type.String() != "timestamp[ns, tz=UTC]" || unit != "packets" || got.NumRows() != 2 {
		t.Errorf("got %v", got.Schema())
	}
	if text := string(cellsOf(got.Column(1)).text(nil, 1)); text != "2026-03-01T12:00:01Z" {
		t.Errorf("got %s", text)
	}
}
