package pillion

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"pillion.dev/api/pillionv1"
)

// isDecimal reports a column of numbers that may exceed 64 bits.
func isDecimal(c *pillionv1.Column) bool { return strings.HasPrefix(c.GetType(), "decimal") }

// nestedType is the type of a column whose values the API has as JSON.
var nestedType = regexp.MustCompile(`^((\w*_)?list|struct|map)<|\[\]$`)

// listOf is a list of numbers, whose bits the API has as int64.
func listOf(values []int64, c *pillionv1.Column) any {
	if c.GetType() != "uint64[]" {
		return append([]int64{}, values...)
	}
	unsigned := make([]uint64, len(values))
	for i, v := range values {
		unsigned[i] = uint64(v)
	}
	return unsigned
}

// valueJSON is one value of a row for JSON; null and times as in messages.
func valueJSON(v *pillionv1.Value, c *pillionv1.Column) any {
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
		if (isDecimal(c) || nestedType.MatchString(c.GetType())) && json.Valid([]byte(k.Text)) {
			return json.RawMessage(k.Text)
		}
		return k.Text
	case *pillionv1.Value_Binary:
		return base64.StdEncoding.EncodeToString(k.Binary)
	case *pillionv1.Value_Time:
		return nanoTime(k.Time).Format(time.RFC3339Nano)
	case *pillionv1.Value_List:
		return listOf(k.List.GetValues(), c)
	}
	return nil
}

func nanoTime(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// valueCell is one value of a row; null is empty in CSV. A time in nanoseconds
// gets a suitable unit for people.
func valueCell(v *pillionv1.Value, c *pillionv1.Column) cell {
	switch k := v.GetKind().(type) {
	case *pillionv1.Value_Bool:
		return text(strconv.FormatBool(k.Bool))
	case *pillionv1.Value_Int:
		if c.GetUnit() == "ns" {
			return nanos(k.Int)
		}
		return number(k.Int)
	case *pillionv1.Value_Uint:
		return number(k.Uint)
	case *pillionv1.Value_Float:
		return cell{shown: strconv.FormatFloat(k.Float, 'g', 6, 64), plain: strconv.FormatFloat(k.Float, 'g', -1, 64)}
	case *pillionv1.Value_Text:
		return cell{k.Text, k.Text, !isDecimal(c)}
	case *pillionv1.Value_Binary:
		return cell{shown: hex.EncodeToString(k.Binary), plain: hex.EncodeToString(k.Binary)}
	case *pillionv1.Value_Time:
		t := nanoTime(k.Time)
		return cell{shown: t.Local().Format("2006-01-02 15:04:05.000"), plain: t.Format(time.RFC3339Nano)}
	case *pillionv1.Value_List:
		words := strings.Trim(fmt.Sprint(listOf(k.List.GetValues(), c)), "[]")
		shown := words
		if n := len(k.List.GetValues()); n > 4 {
			shown = fmt.Sprintf("%d values", n)
		}
		return cell{shown: shown, plain: words}
	}
	return cell{shown: "-"}
}

// rowJSON is a row as an object with its columns' names.
func rowJSON(columns []*pillionv1.Column, row *pillionv1.Row) object {
	o := make(object, len(columns))
	for i, c := range columns {
		o[i] = pair{c.GetName(), valueJSON(valueAt(row, i), c)}
	}
	return o
}

func rowCells(columns []*pillionv1.Column, row *pillionv1.Row) []cell {
	cells := make([]cell, len(columns))
	for i, c := range columns {
		cells[i] = valueCell(valueAt(row, i), c)
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
