package web

import (
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"google.golang.org/protobuf/proto"

	"pillion.dev/api/pillionv1"
)

const (
	// messageRows and messageBytes limit one message of a stream of rows.
	messageRows  = 1000
	messageBytes = 256 << 10
)

// packRows converts a record batch to rows and passes them on in chunks of limited size.
// keep, if set, selects rows.
func packRows(columns []cells, rows int, keep func(i int) bool, send func([]*pillionv1.Row) error) error {
	var piece []*pillionv1.Row
	size := 0
	for i := range rows {
		if keep != nil && !keep(i) {
			continue
		}
		row := rowOf(columns, i)
		piece, size = append(piece, row), size+proto.Size(row)
		if len(piece) < messageRows && size < messageBytes {
			continue
		}
		if err := send(piece); err != nil {
			return err
		}
		piece, size = nil, 0
	}
	if len(piece) == 0 {
		return nil
	}
	return send(piece)
}

func rowOf(columns []cells, i int) *pillionv1.Row {
	row := &pillionv1.Row{Values: make([]*pillionv1.Value, len(columns))}
	for j, c := range columns {
		if c.IsNull(i) {
			row.Values[j] = &pillionv1.Value{}
		} else {
			row.Values[j] = c.value(i)
		}
	}
	return row
}

// allCells returns all columns of a record batch, with their descriptions.
func allCells(record arrow.RecordBatch) ([]cells, []*pillionv1.Column) {
	var columns []cells
	var described []*pillionv1.Column
	for j, field := range record.Schema().Fields() {
		columns = append(columns, cellsOf(record.Column(j)))
		described = append(described, columnOf(field))
	}
	return columns, described
}

// validText makes a string valid UTF-8, as protobuf requires.
func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
