package experiment

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"

	"pillion.dev/internal/csvfile"
	"pillion.dev/internal/iperf3"
)

// Formats of a run's output.
const (
	formatJSON   = "json"
	formatCSV    = "csv"
	formatIperf3 = "iperf3"
)

// Output is what a run printed.
type Output struct {
	Fields    map[string]any
	Intervals []map[string]any
}

// ParseOutput reads the output of a run.
func (r Run) ParseOutput(text []byte) (Output, error) {
	var o Output
	var err error
	switch r.Format {
	case formatCSV:
		o, err = parseCSV(text)
	case formatIperf3:
		o, err = parseIperf3(text)
	default:
		o, err = r.parseJSON(text)
	}
	if err != nil {
		return o, fmt.Errorf("read output as %s: %w", r.Format, err)
	}
	return o, nil
}

// objects reads the JSON objects of a text.
func objects(text []byte) ([]map[string]any, error) {
	var list []map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var object map[string]any
		switch err := decoder.Decode(&object); {
		case errors.Is(err, io.EOF) && len(list) == 0:
			return nil, errors.New("it is empty")
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, misread(text, decoder.InputOffset(), err)
		case object == nil:
			return nil, errors.New("null in place of an object")
		}
		list = append(list, object)
	}
}

// misread says where a text is not what it should be, and shows the place.
func misread(text []byte, offset int64, err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && syntax.Offset > 0 {
		offset = syntax.Offset - 1
	}
	line, _, _ := bytes.Cut(text[min(max(0, offset-20), int64(len(text))):], []byte("\n"))
	return fmt.Errorf("byte %d: %w, in %.60q; only JSON objects may be there: print messages on standard error", offset, err, line)
}

func (r Run) parseJSON(text []byte) (Output, error) {
	list, err := objects(text)
	if err != nil {
		return Output{}, err
	}
	last := len(list) - 1
	o := Output{Fields: list[last], Intervals: list[:last]}
	if r.Intervals == "" {
		return o, nil
	}
	found, err := o.lookup(r.Intervals)
	if err != nil {
		return o, err
	}
	rows, ok := found.([]any)
	if !ok {
		return o, fmt.Errorf("%s is not a list", r.Intervals)
	}
	o.Intervals = nil
	for i, row := range rows {
		object, ok := row.(map[string]any)
		if !ok {
			return o, fmt.Errorf("%s: entry %d is not an object", r.Intervals, i)
		}
		o.Intervals = append(o.Intervals, object)
	}
	return o, nil
}

// parseCSV makes a list of each column, and an interval of each line.
func parseCSV(text []byte) (Output, error) {
	lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return Output{}, err
	}
	if len(lines) < 2 {
		return Output{}, errors.New("a header and at least one line are needed")
	}
	for i, name := range lines[0] {
		lines[0][i] = csvfile.Plain(name)
	}
	o := Output{Fields: map[string]any{}}
	columns := make([][]any, len(lines[0]))
	for _, line := range lines[1:] {
		row := map[string]any{}
		for i, name := range lines[0] {
			var value any = csvfile.Plain(line[i])
			if number, err := strconv.ParseFloat(strings.TrimSpace(line[i]), 64); err == nil && isFinite(number) {
				value = number
			}
			columns[i], row[name] = append(columns[i], value), value
		}
		o.Intervals = append(o.Intervals, row)
	}
	for i, name := range lines[0] {
		o.Fields[name] = columns[i]
		if len(lines) == 2 {
			o.Fields[name] = columns[i][0]
		}
	}
	return o, nil
}

// iperf3Names are short names of fields of iperf3, each with the fields that it stands for:
// the first that exists counts. What the receiver saw comes before what the sender sent.
var iperf3Names = map[string][]string{
	"bits_per_second":      {"end.sum_received.bits_per_second", "end.sum.bits_per_second"},
	"sent_bits_per_second": {"end.sum_sent.bits_per_second", "end.sum.bits_per_second"},
	"bytes":                {"end.sum_received.bytes", "end.sum.bytes"},
	"seconds":              {"end.sum_received.seconds", "end.sum.seconds"},
	"retransmits":          {"end.sum_sent.retransmits"},
	"packets":              {"end.sum.packets"},
	"lost_packets":         {"end.sum.lost_packets"},
	"lost_percent":         {"end.sum.lost_percent"},
	"jitter_ms":            {"end.sum.jitter_ms"},
	"cpu_host_percent":     {"end.cpu_utilization_percent.host_total"},
	"cpu_remote_percent":   {"end.cpu_utilization_percent.remote_total"},
}

func parseIperf3(text []byte) (Output, error) {
	var current []byte // in the form of current versions, up to what is no JSON
	decoder := iperf3.NewDecoder(bytes.NewReader(text))
	object, err := decoder.Next()
	for ; err == nil; object, err = decoder.Next() {
		current = append(current, object...)
	}
	if err != io.EOF {
		current = text // objects says what is wrong
	}
	list, err := objects(current)
	if err != nil {
		return Output{}, err
	}
	o := Output{Fields: list[len(list)-1]}
	if message, failed := o.Fields["error"].(string); failed {
		return o, fmt.Errorf("iperf3 says: %s", message)
	}
	if _, ok := o.Fields["end"].(map[string]any); !ok {
		return o, errors.New("it has no object end: use iperf3 --json")
	}
	if rows, ok := o.Fields["intervals"].([]any); ok {
		for _, row := range rows {
			object, _ := row.(map[string]any)
			if sum, ok := object["sum"].(map[string]any); ok {
				o.Intervals = append(o.Intervals, sum)
			}
		}
	}
	for name, fields := range iperf3Names {
		for _, field := range fields {
			if value, err := o.lookup(field); err == nil {
				o.Fields[name] = value
				break
			}
		}
	}
	return o, nil
}

// lookup finds a field by its path.
func (o Output) lookup(path string) (any, error) {
	if value, ok := o.Fields[path]; ok { // a column of CSV may have dots
		return value, nil
	}
	var value any = o.Fields
	parts := strings.Split(path, ".")
	for i, part := range parts {
		switch inner := value.(type) {
		case map[string]any:
			next, ok := inner[part]
			if !ok {
				return nil, fmt.Errorf("no field %s; %s has %s", path, place(parts[:i]), some(slices.Sorted(maps.Keys(inner))))
			}
			value = next
		case []any:
			if part == "*" {
				return collect(inner, strings.Join(parts[i+1:], "."))
			}
			index, err := strconv.Atoi(part)
			if err != nil || index < 0 || index >= len(inner) {
				return nil, fmt.Errorf("no field %s; %s is a list of %d", path, place(parts[:i]), len(inner))
			}
			value = inner[index]
		default:
			return nil, fmt.Errorf("no field %s; %s is a single value", path, place(parts[:i]))
		}
	}
	return value, nil
}

func place(parts []string) string {
	if len(parts) == 0 {
		return "the output"
	}
	return strings.Join(parts, ".")
}

// some shortens a list for a message.
func some(names []string) string {
	if len(names) > 30 {
		names = append(names[:30:30], "…")
	}
	return strings.Join(names, ", ")
}

// collect looks the rest of a path up in every element of a list.
func collect(list []any, rest string) (any, error) {
	var all []any
	for _, element := range list {
		if rest == "" {
			all = append(all, element)
			continue
		}
		object, ok := element.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("no field %s in an element that is not an object", rest)
		}
		value, err := Output{Fields: object}.lookup(rest)
		if err != nil {
			return nil, err
		}
		if inner, ok := value.([]any); ok {
			all = append(all, inner...)
			continue
		}
		all = append(all, value)
	}
	return all, nil
}

// summaryOf returns a function that makes one figure of a list; nil for the empty name.
func summaryOf(name string) (func([]float64) float64, error) {
	quantile := func(p float64) func([]float64) float64 {
		return func(v []float64) float64 {
			sorted := slices.Sorted(slices.Values(v))
			return stat.Quantile(p, stat.LinInterp, sorted, nil)
		}
	}
	switch name {
	case "":
		return nil, nil
	case "mean":
		return func(v []float64) float64 { return stat.Mean(v, nil) }, nil
	case "median":
		return func(v []float64) float64 {
			sorted, n := slices.Sorted(slices.Values(v)), len(v)
			return (sorted[(n-1)/2] + sorted[n/2]) / 2
		}, nil
	case "min":
		return slices.Min[[]float64], nil
	case "max":
		return slices.Max[[]float64], nil
	case "sum":
		return func(v []float64) float64 { return stat.Mean(v, nil) * float64(len(v)) }, nil
	case "first":
		return func(v []float64) float64 { return v[0] }, nil
	case "last":
		return func(v []float64) float64 { return v[len(v)-1] }, nil
	case "count":
		return func(v []float64) float64 { return float64(len(v)) }, nil
	}
	if digits, ok := strings.CutPrefix(name, "p"); ok {
		if p, err := strconv.ParseFloat(digits, 64); err == nil && p > 0 && p < 100 {
			return quantile(p / 100), nil
		}
	}
	return nil, fmt.Errorf("%q is not one of mean, median, min, max, sum, first, last, count or a percentile such as p99", name)
}

// Value is the figure of a measure.
func (m Measure) Value(o Output) (float64, error) {
	value, err := m.value(o)
	if err != nil {
		return 0, fmt.Errorf("measure %s: %w", m.Name, err)
	}
	return value, nil
}

func (m Measure) value(o Output) (float64, error) {
	found, err := o.lookup(m.Field)
	if err != nil {
		return 0, err
	}
	summary, err := summaryOf(m.Summary)
	if err != nil {
		return 0, err
	}
	list, isList := found.([]any)
	switch {
	case isList && summary == nil:
		return 0, fmt.Errorf("%s is a list of %d values: give a summary, such as mean or p99", m.Field, len(list))
	case isList && len(list) == 0:
		return 0, fmt.Errorf("%s is an empty list", m.Field)
	case !isList:
		list = []any{found}
	}
	numbers := make([]float64, len(list))
	for i, element := range list {
		number, ok := element.(float64)
		if !ok || !isFinite(number) {
			return 0, fmt.Errorf("%s is %v, not a number", m.Field, element)
		}
		numbers[i] = number
	}
	if summary == nil {
		return numbers[0], nil
	}
	result := summary(numbers)
	if !isFinite(result) {
		return 0, fmt.Errorf("the %s of %s is %g", m.Summary, m.Field, result)
	}
	return result, nil
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Measured are the measures of a run: fields of its output or, where that has none of the
// name, counters of its treatments.
func (s *Spec) Measured(o Output, counters map[string]any) (map[string]float64, error) {
	values := map[string]float64{}
	for _, m := range s.Measures {
		from := o
		if _, err := o.lookup(m.Field); err != nil {
			if _, err := (Output{Fields: counters}).lookup(m.Field); err == nil {
				from = Output{Fields: counters}
			}
		}
		value, err := m.Value(from)
		if err != nil {
			return values, err
		}
		values[m.Name] = value
	}
	if s.Response != nil && !(values[s.Response.LogRatio] > 0) {
		return values, fmt.Errorf("measure %s: %g has no logarithm, which the response needs", s.Response.LogRatio, values[s.Response.LogRatio])
	}
	return values, nil
}

// counterNames are those that conditions can use, such as session.packets.
func counterNames(counters map[string]any) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		inner, ok := counters[name].(map[string]any)
		if !ok {
			names = append(names, name)
		}
		for _, field := range slices.Sorted(maps.Keys(inner)) {
			names = append(names, name+"."+field)
		}
	}
	return names
}

// Names resolves the names of an expression: counters first, then measures, then fields of
// the output.
func Names(counters map[string]any, measures map[string]float64, o Output) func(string) (any, error) {
	return func(name string) (any, error) {
		if value, ok := measures[name]; ok {
			return value, nil
		}
		value, err := Output{Fields: counters}.lookup(name)
		if err != nil {
			value, err = o.lookup(name)
		}
		if err != nil && len(counters) > 0 {
			return nil, fmt.Errorf("%w; treatments counted %s", err, some(counterNames(counters)))
		}
		if err != nil {
			return nil, err
		}
		switch value.(type) {
		case float64, string, bool:
			return value, nil
		}
		return nil, fmt.Errorf("%s is neither a number nor a text nor true or false", name)
	}
}
