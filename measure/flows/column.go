package flows

import (
	"math"
	"time"

	"pillion.dev/measure"
)

// column connects a column of the stream with a field of Row. set takes values of the
// kind; get returns null where there is no value. Either may be nil.
type column struct {
	kind measure.Type
	set  func(*draft, measure.Value)
	get  func(*Row) measure.Value
}

// columns are the columns of measure.Flows by name, and the archive's agent.
var columns = func() map[string]column {
	all := map[string]column{
		measure.TimeField.Name: {
			measure.Time,
			func(d *draft, v measure.Value) { d.End = v.Time() },
			func(r *Row) measure.Value { return measure.TimeValue(r.End) },
		},
		"interval_ns": {
			measure.Int64,
			func(d *draft, v measure.Value) { d.Interval = time.Duration(v.Int64()) },
			func(r *Row) measure.Value { return measure.DurationValue(r.Interval) },
		},
		"agent":                 textColumn(func(r *Row) *string { return &r.Destination }, false),
		"session":               textColumn(func(r *Row) *string { return &r.Session }, false),
		"source":                textColumn(func(r *Row) *string { return &r.Source }, false),
		"device":                textColumn(func(r *Row) *string { return &r.Device }, false),
		"src":                   textColumn(func(r *Row) *string { return &r.Src }, true),
		"dst":                   textColumn(func(r *Row) *string { return &r.Dst }, true),
		"proto":                 textColumn(func(r *Row) *string { return &r.Proto }, true),
		"sport":                 portColumn(func(r *Row) *uint32 { return &r.Sport }),
		"dport":                 portColumn(func(r *Row) *uint32 { return &r.Dport }),
		"clock_error_ns":        boundColumn(func(r *Row) *Bound { return &r.DestinationClock }),
		"source_clock_error_ns": boundColumn(func(r *Row) *Bound { return &r.SourceClock }),
	}
	for i, name := range CountNames {
		all[name] = column{
			measure.Uint64,
			func(d *draft, v measure.Value) { *d.Counts.List()[i] = v.Uint64() },
			func(r *Row) measure.Value { return measure.Uint64Value(*r.Counts.List()[i]) },
		}
	}
	addDistribution(all, "delay", func(r *Row) *Distribution { return &r.Delay }, func(d *draft) *partial { return &d.delay })
	addDistribution(all, "ipdv", func(r *Row) *Distribution { return &r.IPDV }, func(d *draft) *partial { return &d.ipdv })
	return all
}()

// inOrder are the getters of measure.Flows.
var inOrder = func() []func(*Row) measure.Value {
	all := make([]func(*Row) measure.Value, len(measure.Flows.Fields))
	for i, f := range measure.Flows.Fields {
		all[i] = columns[f.Name].get
	}
	return all
}()

// textColumn writes an empty text as null if it is optional.
func textColumn(field func(*Row) *string, optional bool) column {
	return column{
		measure.String,
		func(d *draft, v measure.Value) { *field(&d.Row) = cut(v.Text()) },
		func(r *Row) measure.Value {
			if text := *field(r); text != "" || !optional {
				return measure.StringValue(text)
			}
			return measure.Value{}
		},
	}
}

func portColumn(field func(*Row) *uint32) column {
	return column{
		measure.Uint32,
		func(d *draft, v measure.Value) { *field(&d.Row) = uint32(v.Uint64()) },
		func(r *Row) measure.Value {
			if port := *field(r); port != 0 {
				return measure.Uint32Value(port)
			}
			return measure.Value{}
		},
	}
}

// boundColumn takes a bound below zero for unknown.
func boundColumn(field func(*Row) *Bound) column {
	return column{
		measure.Int64,
		func(d *draft, v measure.Value) { *field(&d.Row) = Bound{max(0, v.Int64()), v.Int64() >= 0} },
		func(r *Row) measure.Value {
			if b := *field(r); b.Known {
				return measure.Int64Value(b.Ns)
			}
			return measure.Value{}
		},
	}
}

// addDistribution adds the columns of a distribution. The quantiles are written for SQL
// users and never read: the histogram has them.
func addDistribution(to map[string]column, name string, field func(*Row) *Distribution, part func(*draft) *partial) {
	add := func(suffix string, kind measure.Type, at func(*partial) *measure.Value, get func(*Distribution) measure.Value) {
		c := column{kind: kind, get: func(r *Row) measure.Value {
			if d := field(r); d.Count > 0 || suffix == "_count" {
				return get(d)
			}
			return measure.Value{}
		}}
		if at != nil {
			c.set = func(d *draft, v measure.Value) { *at(part(d)) = v }
		}
		to[name+suffix] = c
	}
	add("_count", measure.Uint64, func(p *partial) *measure.Value { return &p.count },
		func(d *Distribution) measure.Value { return measure.Uint64Value(d.Count) })
	add("_min_ns", measure.Int64, func(p *partial) *measure.Value { return &p.min },
		func(d *Distribution) measure.Value { return measure.Int64Value(d.Min) })
	add("_mean_ns", measure.Int64, func(p *partial) *measure.Value { return &p.mean },
		func(d *Distribution) measure.Value { return measure.Int64Value(d.WholeMean()) })
	add("_max_ns", measure.Int64, func(p *partial) *measure.Value { return &p.max },
		func(d *Distribution) measure.Value { return measure.Int64Value(d.Max) })
	for suffix, q := range map[string]float64{"_p50_ns": 0.5, "_p90_ns": 0.9, "_p99_ns": 0.99} {
		add(suffix, measure.Int64, nil, func(d *Distribution) measure.Value {
			if v := d.Quantile(q); !math.IsNaN(v) {
				return measure.Int64Value(int64(v))
			}
			return measure.Value{}
		})
	}
	add("_bounds_ns", measure.Int64List, func(p *partial) *measure.Value { return &p.bounds },
		func(d *Distribution) measure.Value { return measure.Int64ListValue(d.Histogram.Bounds) })
	add("_counts", measure.Uint64List, func(p *partial) *measure.Value { return &p.counts },
		func(d *Distribution) measure.Value { return measure.Uint64ListValue(d.Histogram.Counts) })
	add("_offsets_ns", measure.Uint64List, func(p *partial) *measure.Value { return &p.offsets },
		func(d *Distribution) measure.Value {
			if d.Histogram.Offsets == nil {
				return measure.Value{}
			}
			return measure.Uint64ListValue(d.Histogram.Offsets)
		})
}
