package report

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"pillion.dev/measure"
)

// view prints rows as text, or as JSON, one object a line.
type view struct {
	out  *bufio.Writer
	json bool
}

// View is a Report that prints.
func View(out io.Writer, asJSON bool) Report { return &view{out: bufio.NewWriter(out), json: asJSON} }

func (v *view) Put(schema *measure.Schema, sample measure.Sample) error {
	if v.json {
		row := map[string]any{"point": schema.Name}
		for i, f := range schema.Fields {
			row[f.Name] = plain(sample[i])
		}
		return v.object(row)
	}
	fmt.Fprintf(v.out, "%s %s", sample[0].Time().Local().Format("15:04:05.000000"), schema.Name)
	for i, f := range schema.Fields[1:] {
		if value := sample[i+1]; !value.IsNull() {
			fmt.Fprintf(v.out, " %s=%v", f.Name, plain(value))
		}
	}
	_, err := v.out.WriteString("\n")
	return v.flush(err)
}

// flush makes a row visible at once.
func (v *view) flush(err error) error {
	if err == nil {
		err = v.out.Flush()
	}
	if err != nil {
		return fmt.Errorf("print row: %w", err)
	}
	return nil
}

func (v *view) object(row map[string]any) error {
	text, err := json.Marshal(row)
	if err == nil {
		_, err = v.out.Write(append(text, '\n'))
	}
	return v.flush(err)
}

func plain(v measure.Value) any {
	switch v.Type() {
	case measure.Bool:
		return v.Bool()
	case measure.Int32, measure.Int64:
		return v.Int64()
	case measure.Uint32, measure.Uint64:
		return v.Uint64()
	case measure.Float64:
		if x := v.Float64(); !math.IsNaN(x) && !math.IsInf(x, 0) { // JSON cannot encode others
			return x
		}
	case measure.String:
		return v.Text()
	case measure.Binary:
		return v.Bytes()
	case measure.Time:
		return v.Time().Format(time.RFC3339Nano)
	case measure.Int64List, measure.Uint64List:
		return v.List()
	}
	return nil
}

func (v *view) Note(key, value string) error {
	if v.json {
		return v.object(map[string]any{"note": key, "value": value})
	}
	_, err := fmt.Fprintf(v.out, "%s: %s\n", key, strings.ReplaceAll(value, "\n", " "))
	return v.flush(err)
}

func (v *view) Room(context.Context) error { return nil }

func (v *view) Close(context.Context) error { return v.flush(nil) }
