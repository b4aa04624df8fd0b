package clickhouse

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"pillion.dev/archive"
	"pillion.dev/archive/query"
	"pillion.dev/internal/test/clickhousetest"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/measuretest"
)

// TestRollSums compares roll-ups of rows with odd values with what ClickHouse adds up.
func TestRollSums(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	a := openAt(t, clickhousetest.Start(t).URL("odd"), &now)
	random := rand.New(rand.NewPCG(1, 2))
	for sequence := range uint64(3) {
		schema := measure.Flows
		schema.Fields = slices.Clone(schema.Fields)
		agent := "b"
		if sequence == 1 { // as a later version may have it
			schema.Fields[schema.Index("sport")].Type, agent = measure.Uint64, archive.OwnAgent
		}
		var rows []measuretest.Fields
		for range 2000 {
			rows = append(rows, oddRow(random, now, sequence == 1))
		}
		batch := archive.Batch{Agent: agent, Key: measure.Key{Stream: schema.Name, Epoch: 1, Sequence: sequence}, Schema: &schema, Record: measuretest.Record(t, &schema, rows...)}
		if _, rejected, err := a.Store(t.Context(), []archive.Batch{batch}); err != nil || len(rejected) > 0 {
			t.Fatal(rejected, err)
		}
	}
	r := a.implicit.rolling
	r.rows, r.sumsMost = rollRowsMost, 10 // too many at first
	if err := r.rollUp(t.Context(), all); err != nil || r.rows != rollRows {
		t.Fatalf("rolled up %d rows at once, %v", r.rows, err)
	}
	for _, l := range levels {
		want, got := rowsAsText(t, a, sumsSQL(a, l)), rowsAsText(t, a, "SELECT "+asText(func(s *query.Summand) string { return s.Name })+" FROM "+a.table(l.name))
		if len(want) < 10 || len(want) != len(got) {
			t.Errorf("%s has %d rows, want %d", l.shown, len(got), len(want))
		}
		for i := range min(len(want), len(got)) {
			if want[i] != got[i] {
				t.Fatalf("%s has\n%s\nwant\n%s", l.shown, got[i], want[i])
			}
		}
	}
}

// oddRow has values at random of which few make sense.
func oddRow(random *rand.Rand, now time.Time, wide bool) measuretest.Fields {
	one := func(values ...any) any { return values[random.IntN(len(values))] }
	row := measuretest.Fields{
		"time": now.Add(time.Duration(random.IntN(3))*time.Hour + time.Duration(random.IntN(100))*time.Second), "source": one(nil, "", "ä'\\", "ä'\\"), "session": one(nil, "s"),
		"src": one("192.0.2.1", nil), "dst": "2001:db8::1", "proto": "udp", "sport": one(nil, 7, math.MaxUint32), "dport": 53,
		"interval_ns":    one(nil, int64(-5), int64(0), int64(time.Second), int64(time.Minute), int64(time.Hour), int64(math.MinInt64), int64(math.MaxInt64)),
		"clock_error_ns": one(nil, 0, 100, -1, 5, 5, 5, int64(math.MaxInt64)), "source_clock_error_ns": one(nil, 0, 100, -1, 5, 5, 5, int64(math.MaxInt64)),
	}
	if wide {
		row["sport"] = one(nil, 7, uint64(math.MaxInt64)+9)
	}
	for _, name := range flows.CountNames {
		row[name] = one(nil, nil, 0, 1, 3, uint64(1)<<32, uint64(1)<<62, uint64(math.MaxUint64))
	}
	times := []any{nil, 0, 1, 1000, -1000, int64(math.MinInt64), int64(math.MaxInt64)}
	bounds := []any{nil, []int64{}, []int64{-128, 0, 64}, []int64{64, 0, -128}, []int64{64, 64, 64}, []int64{5, 1001, 1 << 40}, []int64{math.MinInt64, 0, math.MaxInt64}, []int64{0}}
	counts := []any{nil, []uint64{}, []uint64{1, 2, 3}, []uint64{0, 0, 3}, []uint64{math.MaxUint64, 1 << 40, 1<<40 + 1}, []uint64{0}, []uint64{1, 2, 3, 4}, []uint64{7, 1, 1}}
	offsets := []any{nil, []uint64{}, []uint64{0, 0, 0}, []uint64{5, 0, 9}, []uint64{offsetMost, offsetMost + 1, math.MaxUint64}, []uint64{0}, []uint64{1, 1, 1}}
	for _, of := range query.Distributions {
		row[of+"_count"] = one(nil, 0, 1, 6, 6, 6, uint64(flows.CountMax), uint64(flows.CountMax)+1, uint64(math.MaxUint64))
		row[of+"_min_ns"], row[of+"_mean_ns"], row[of+"_max_ns"] = one(times...), one(times...), one(times...)
		row[of+"_bounds_ns"], row[of+"_counts"] = one(bounds...), one(counts...)
		if of == "delay" {
			row["delay_offsets_ns"] = one(offsets...)
		}
	}
	return row
}

// sumsSQL has ClickHouse add up what a level is made of.
func sumsSQL(a *Archive, l *level) string {
	table, of := l.input(a)
	var keys []string
	values := map[string]string{}
	for _, s := range summands {
		name, list, _ := strings.Cut(s.Name, "_")
		switch i := slices.Index([]string{"bounds_ns", "counts", "offsets_ns", "unknown"}, list); {
		case i >= 0:
			values[s.Name] = fmt.Sprintf("tupleElement(%s, %d)", mergedBuckets(of, name), i+1)
		case s.Merge != "":
			values[s.Name] = of.Sum(s.Name)
		case s.Name == "time":
			values[s.Name] = fmt.Sprintf("intDiv(%[1]s, %[2]d) * %[2]d", of.Of(s.Name), int64(l.width))
			keys = append(keys, values[s.Name])
		default:
			values[s.Name] = of.Of(s.Name)
			keys = append(keys, values[s.Name])
		}
	}
	return fmt.Sprintf("SELECT %s FROM %s GROUP BY %s", asText(func(s *query.Summand) string { return values[s.Name] }), table, strings.Join(keys, ", "))
}

// mergedBuckets is the SQL of the sum of histograms.
func mergedBuckets(r query.Representation, of string) string {
	return r.Expand(fmt.Sprintf("sumMap({%[1]s_bounds_ns}, arrayMap(c -> least(c, toUInt64(%[2]d)), {%[1]s_counts}), arrayMap(o -> if(o > %[3]d, toUInt64(0), o), {%[1]s_offsets_ns}), arrayMap((o, u) -> if(o > %[3]d, toUInt64(1), u), {%[1]s_offsets_ns}, {%[1]s_unknown}))",
		of, uint64(flows.CountMax), offsetMost))
}

// asText is the SQL of summands as texts.
func asText(value func(*query.Summand) string) string {
	var list []string
	for i := range summands {
		text := "ifNull(toString(" + value(&summands[i]) + "), 'null')"
		if strings.HasPrefix(summands[i].Kind, "Decimal") { // ClickHouse 18.16 cannot print large ones
			text = value(&summands[i])
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

// rowsAsText are the rows of a statement, in an order of their own.
func rowsAsText(t *testing.T, a *Archive, sql string) (rows []string) {
	t.Helper()
	targets := make([]any, len(summands))
	for i, s := range summands {
		targets[i] = new(string)
		if strings.HasPrefix(s.Kind, "Decimal") {
			targets[i] = new(decimal.Decimal)
		}
	}
	err := a.query(t.Context(), sql, func(scan func(...any) error) error {
		err := scan(targets...)
		row := ""
		for i, s := range summands {
			row += fmt.Sprint(s.Name, "=", reflect.ValueOf(targets[i]).Elem(), " ")
		}
		rows = append(rows, row)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(rows)
	return rows
}

func TestParseList(t *testing.T) {
	for _, c := range []struct {
		text, rest string
		list       []uint64
		fails      bool
	}{
		{text: "[]x", rest: "x"}, {text: "[1,-2][3]", rest: "[3]", list: []uint64{1, math.MaxUint64 - 1}}, {text: "-[1]", rest: "[1]"},
		{text: "", fails: true}, {text: "1]", fails: true}, {text: "[1", fails: true}, {text: "[a]", fails: true},
	} {
		list, rest, _, err := parseList(nil, c.text)
		if (err != nil) != c.fails || err == nil && (rest != c.rest || !slices.Equal(list, c.list)) {
			t.Errorf("%q: %v, rest %q, %v", c.text, list, rest, err)
		}
	}
}
