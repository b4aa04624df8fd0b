package pillion

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"pillion.dev/api/pillionv1"
)

// valueJSON is one value of a row for JSON; null and times as in messages.
func valueJSON(v *pillionv1.Value) any {
	switch k := v.GetKind().(type) {
	case *pillionv1.Value_Bool:
		return k.Bool
	case *pillionv1.Value_Int:
		return k.Int
	case *pillionv1.Value_Uint:
		return k.Uint
	case *pillionv1.Value_Float:
		return finite(k.Float)
	case *pillionv1.Value_Text:
		return k.Text
	case *pillionv1.Value_Binary:
		return base64.StdEncoding.EncodeToString(k.Binary)
	case *pillionv1.Value_Time:
		return nanoTime(k.Time).Format(time.RFC3339Nano)
	case *pillionv1.Value_List:
		return append([]int64{}, k.List.GetValues()...)
	}
	return nil
}

func nanoTime(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// valueCell is one value of a row; null is empty in CSV. A time in nanoseconds
// gets a suitable unit for people.
func valueCell(v *pillionv1.Value, unit string) cell {
	switch k := v.GetKind().(type) {
	case *pillionv1.Value_Bool:
		return text(strconv.FormatBool(k.Bool))
	case *pillionv1.Value_Int:
		if unit == "ns" {
			return nanos(k.Int)
		}
		return number(k.Int)
	case *pillionv1.Value_Uint:
		return number(k.Uint)
	case *pillionv1.Value_Float:
		return cell{strconv.FormatFloat(k.Float, 'g', 6, 64), strconv.FormatFloat(k.Float, 'g', -1, 64)}
	case *pillionv1.Value_Text:
		return cell{k.Text, k.Text}
	case *pillionv1.Value_Binary:
		return cell{hex.EncodeToString(k.Binary), hex.EncodeToString(k.Binary)}
	case *pillionv1.Value_Time:
		t := nanoTime(k.Time)
		return cell{t.Local().Format("2006-01-02 15:04:05.000"), t.Format(time.RFC3339Nano)}
	case *pillionv1.Value_List:
		words := strings.Trim(fmt.Sprint(k.List.GetValues()), "[]")
		shown := words
		if n := len(k.List.GetValues()); n > 4 {
			shown = fmt.Sprintf("%d values", n)
		}
		return cell{shown, words}
	}
	return cell{"-", ""}
}

// rowJSON is a row as an object with its columns' names.
func rowJSON(columns []*pillionv1.Column, row *pillionv1.Row) object {
	o := make(object, len(columns))
	for i, c := range columns {
		o[i] = pair{c.GetName(), valueJSON(valueAt(row, i))}
	}
	return o
}

func rowCells(columns []*pillionv1.Column, row *pillionv1.Row) []cell {
	cells := make([]cell, len(columns))
	for i, c := range columns {
		cells[i] = valueCell(valueAt(row, i), c.GetUnit())
	}
	return cells
}

// valueAt is null if the row is too short.
func valueAt(row *pillionv1.Row, i int) *pillionv1.Value {
	if i < len(row.GetValues()) {
		return row.Values[i]
	}
	return nil
}

// rowTable is an empty table with the columns of rows.
func rowTable(columns []*pillionv1.Column) *table {
	t := &table{}
	for _, c := range columns {
		right := true
		switch c.GetType() {
		case "string", "binary", "time", "bool":
			right = false
		}
		t.columns = append(t.columns, column{key: c.GetName(), title: strings.ToUpper(c.GetName()), right: right})
	}
	return t
}
