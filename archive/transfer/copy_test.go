package transfer_test

import (
	"fmt"
	"hash/fnv"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/archive/archivetest"
	"pillion.dev/archive/clickhouse"
	"pillion.dev/archive/duckdb"
	"pillion.dev/archive/transfer"
	"pillion.dev/internal/test/clickhousetest"
	"pillion.dev/measure"
	"pillion.dev/measure/measuretest"
)

var start = time.Unix(1_700_000_000, 0).UTC()

// source is a filled archive of a single server, whose clock tests set.
type source struct {
	*duckdb.Archive
	now time.Time
}

func newSource(t *testing.T) *source {
	t.Helper()
	s := &source{now: start.Add(-9 * 24 * time.Hour)}
	var err error
	s.Archive, err = duckdb.Open(filepath.Join(t.TempDir(), "archive.duckdb"), duckdb.Options{Now: func() time.Time { return s.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func openTarget(t *testing.T, url string) *clickhouse.Archive {
	t.Helper()
	_, location, _ := strings.Cut(url, ":")
	// Roll-ups are used after a thirtieth of the time.
	a, err := clickhouse.Open(location, clickhouse.Options{RollUp: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// laneOf divides agents among 8 lanes.
func laneOf(agent string) uint64 {
	hash := fnv.New32a()
	hash.Write([]byte(agent))
	return uint64(hash.Sum32() % 8)
}

func (s *source) store(t *testing.T, batches ...archive.Batch) {
	t.Helper()
	_, rejected, err := s.Store(t.Context(), batches)
	if err != nil || len(rejected) > 0 {
		t.Fatal(rejected, err)
	}
}

// typesOf are columns of all types; that of v widens from one version to the next.
func typesOf(v measure.Type, more ...measure.Field) *measure.Schema {
	return &measure.Schema{Name: "everything", Fields: append([]measure.Field{measure.TimeField, {Name: "n", Type: measure.Int64},
		{Name: "b", Type: measure.Bool}, {Name: "v", Type: v}, {Name: "f", Type: measure.Float64}, {Name: "text", Type: measure.String}, {Name: "raw", Type: measure.Binary},
		{Name: "when", Type: measure.Time}, {Name: "il", Type: measure.Int64List}, {Name: "ul", Type: measure.Uint64List}}, more...)}
}

// batch has rows with numbers from one on, some of whose values are null.
func batch(t *testing.T, agent string, schema *measure.Schema, sequence uint64, from, rows int) archive.Batch {
	t.Helper()
	var list []measuretest.Fields
	for i := from; i < from+rows; i++ {
		row := measuretest.Fields{"time": start.Add(time.Duration(i) * time.Millisecond), "n": i}
		if i%7 != 3 {
			row["b"], row["v"], row["f"], row["text"] = i%2 == 0, i, float64(i)/3, fmt.Sprintf("é%d", i)
			row["raw"] = []byte{0, 255, byte(i)}
			row["when"], row["il"], row["ul"] = start.Add(time.Duration(i)), []int64{-int64(i), 5}[:i%3], []uint64{uint64(i), 1 << 63}[:i%3]
		}
		list = append(list, row)
	}
	return archive.Batch{Agent: agent, Key: measure.Key{Stream: schema.Name, Epoch: 9, Sequence: sequence}, Schema: schema, Record: measuretest.Record(t, schema, list...)}
}

// fill stores rows of several streams, agents and days, with gaps in the sequences.
func (s *source) fill(t *testing.T) {
	t.Helper()
	archivetest.Fill(t, s)
	n := 0
	for day := range 4 {
		s.now = s.now.Add(20 * time.Hour)
		for i, agent := range []string{"x", "y", "z"} {
			schema := typesOf([]measure.Type{measure.Int32, measure.Uint32, measure.Int64, measure.Int32}[day])
			if day == 2 {
				schema = typesOf(measure.Int64, measure.Field{Name: "late", Type: measure.Uint32})
			}
			one := batch(t, agent, schema, uint64(day*(i+1)), n, 2000)
			one.Oldest = uint64(max(0, day*(i+1)-2))
			s.store(t, one)
			n += 2000
		}
	}
	s.SetRetention("everything", archive.Retention{Age: 10_000 * 24 * time.Hour})
}

// contents are all rows of a stream by time, with their arrival.
func contents(t *testing.T, a archive.Archive, stream string) string {
	t.Helper()
	var text strings.Builder
	err := a.Export(t.Context(), archive.Export{Stream: stream}, func(r arrow.RecordBatch) error {
		for i := range int(r.NumRows()) {
			for k, column := range r.Columns() {
				fmt.Fprintf(&text, "%s=%s ", r.ColumnName(k), column.ValueStr(i))
			}
			text.WriteByte('\n')
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func same(t *testing.T, from, to archive.Archive) {
	t.Helper()
	for _, stream := range []string{"everything", "flows", "router"} {
		want, got := strings.Split(contents(t, from, stream), "\n"), strings.Split(contents(t, to, stream), "\n")
		if len(want) != len(got) {
			t.Fatalf("%d rows of %s, want %d", len(got)-1, stream, len(want)-1)
		}
		slices.Sort(want) // those of one time may be in any order
		slices.Sort(got)
		for i := range want {
			if want[i] != got[i] {
				t.Fatalf("row %d of %s is\n%s, want\n%s", i, stream, got[i], want[i])
			}
		}
	}
	sums := archive.Windows{From: start.Add(-time.Hour), To: start.Add(8 * 24 * time.Hour), Step: time.Hour}
	want, err := from.Windows(t.Context(), sums)
	got, failed := to.Windows(t.Context(), sums)
	if err != nil || failed != nil || fmt.Sprint(want) != fmt.Sprint(got) || len(got.Windows) == 0 {
		t.Errorf("sums are %v, %v, want %v, %v", got, failed, want, err)
	}
	for _, agent := range []string{"a", "x", "y", "z", "nobody"} {
		had, err := from.Delivered(t.Context(), agent)
		have, failed := to.Delivered(t.Context(), agent)
		if fmt.Sprint(had) != fmt.Sprint(have) || err != nil || failed != nil {
			t.Errorf("delivered of %s: %v, %v, want %v, %v", agent, have, failed, had, err)
		}
	}
}

func complete(t *testing.T, outcomes []transfer.Outcome, err error) {
	t.Helper()
	if err != nil || len(outcomes) == 0 {
		t.Fatal(outcomes, err)
	}
	for _, o := range outcomes {
		if !o.Complete() {
			t.Errorf("%+v", o)
		}
	}
}

// TestAlone: a single server with the new archive knows the batches of the old one.
func TestAlone(t *testing.T) {
	from, servers := newSource(t), clickhousetest.Start(t)
	from.store(t, batch(t, "x", typesOf(measure.Int64), 0, 0, 10), batch(t, "x", typesOf(measure.Int64), 4, 10, 10))
	to := openTarget(t, servers.URL("alone"))
	outcomes, err := transfer.Copy(t.Context(), from, to, transfer.Options{Source: "one"})
	complete(t, outcomes, err)
	for sequence, want := range map[int]bool{0: false, 3: true, 4: false, 5: true} {
		stored, rejected, err := to.Store(t.Context(), []archive.Batch{batch(t, "x", typesOf(measure.Int64), uint64(sequence), 20+sequence, 1)})
		if err != nil || len(rejected) > 0 || stored[0] != want {
			t.Errorf("batch %d: stored %v, %v, %v", sequence, stored, rejected, err)
		}
	}
}
