package service

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/measure"
	oml "pillion.dev/oml/agent"
	"pillion.dev/oml/omsp"
	"pillion.dev/oml/omsp/relay"
)

// taker collects rows as text.
type taker struct {
	mu   sync.Mutex
	rows map[string][]string
}

func (k *taker) put(schema *measure.Schema, record arrow.RecordBatch) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for row := range int(record.NumRows()) {
		var words []string
		for _, column := range record.Columns() {
			words = append(words, strings.ReplaceAll(column.ValueStr(row), " ", "T"))
		}
		k.rows[schema.Name] = append(k.rows[schema.Name], strings.Join(words[1:], " "))
	}
	return nil
}

var packets = omsp.Schema{Name: "iperf_packets", Fields: []omsp.Field{{Name: "Size", Type: omsp.Int32}}}

// tuples are a batch of a sender, one tuple every 250 ms of the given size.
func tuples(t *testing.T, domain, sender string, sizes ...int32) (*measure.Schema, arrow.RecordBatch) {
	t.Helper()
	schema, err := relay.Origin{Domain: domain, Start: 1000, Table: packets}.Schema()
	if err != nil {
		t.Fatal(err)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema.Arrow())
	defer b.Release()
	for i, size := range sizes {
		b.Field(0).(*array.TimestampBuilder).Append(arrow.Timestamp(1000e9 + int64(i)*250e6))
		b.Field(1).(*array.StringBuilder).Append(sender)
		b.Field(2).(*array.Uint64Builder).Append(5)
		b.Field(3).(*array.Int64Builder).Append(int64(i))
		b.Field(4).(*array.Float64Builder).Append(0)
		b.Field(5).(*array.Float64Builder).Append(0)
		b.Field(6).(*array.Int32Builder).Append(size)
	}
	record := b.NewRecordBatch()
	t.Cleanup(record.Release)
	return schema, record
}

// TestApplicationsAreFiltered: tuples go through the filters of their table, senders apart;
// a chain continues, and the end of a connection ends its windows.
func TestApplicationsAreFiltered(t *testing.T) {
	out := &taker{rows: map[string][]string{}}
	s, err := openStreams(out.put, out.put, nil, []Stream{
		{Name: "rate", Domain: "trial", Point: "iperf_packets", Filters: []string{"sum(size)"}, Every: time.Second, Replace: true},
		{Name: "mean_rate", Point: "rate", Filters: []string{"avg(size_sum)", "count()"}, Every: time.Minute},
		{Name: "all", Domain: "*", Point: "iperf_packets", Filters: []string{"count()"}, Samples: 3, Keys: []string{"oml_sender"}},
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r := s.reported
	r.origin = (&oml.Backend{}).Origin
	if !r.Take(tuples(t, "trial", "a", 1, 2, 3, 4, 5, 6, 7, 8)) {
		t.Error("tuples are stored although rate replaces them")
	}
	r.Take(tuples(t, "trial", "b", 100))
	if r.Take(tuples(t, "other", "a", 1, 1, 1)) {
		t.Error("tuples of another domain are replaced")
	}
	r.Ended("trial", "a")
	within := []string{"trial a 10", "trial a 26"}
	if got := out.rows["rate"]; !slices.Equal(got, within) {
		t.Errorf("rate %q, want %q", got, within)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if got := out.rows["mean_rate"]; !slices.Equal(got, []string{"trial a 18 2", "trial b 100 1"}) {
		t.Errorf("mean rate %q", got)
	}
	got := out.rows["all"]
	slices.Sort(got)
	if !slices.Equal(got, []string{"other a 3", "trial a 2", "trial a 3", "trial a 3", "trial b 1"}) {
		t.Errorf("all %q", got)
	}
	if r.Take(tuples(t, "trial", "c", 1)) {
		t.Error("tuples are replaced after the end")
	}
}

// TestUnsuitableStreams: tuples that the streams do not suit are stored as they are.
func TestUnsuitableStreams(t *testing.T) {
	var text bytes.Buffer
	out := &taker{rows: map[string][]string{}}
	r := newReported(tree{{Name: "rate", Domain: "*", Point: "iperf_packets", Filters: []string{"sum(length)"}, Every: time.Second, Replace: true}},
		out.put, slog.New(slog.NewTextHandler(&text, nil)))
	r.origin = (&oml.Backend{}).Origin
	for range 3 {
		if r.Take(tuples(t, "trial", "a", 1)) {
			t.Error("tuples are lost")
		}
	}
	if got := text.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "length") {
		t.Errorf("logged %q", got)
	}
}

// TestManySenders: the number of windows is bounded.
func TestManySenders(t *testing.T) {
	var text bytes.Buffer
	out := &taker{rows: map[string][]string{}}
	r := newReported(tree{{Name: "rate", Domain: "*", Point: "iperf_packets", Filters: []string{"sum(size)"}, Samples: 2, Replace: true}},
		out.put, slog.New(slog.NewTextHandler(&text, nil)))
	r.origin = (&oml.Backend{}).Origin
	for n := range reportersMax + 2 {
		if r.Take(tuples(t, "trial", fmt.Sprint(n), 1)) != (n < reportersMax) {
			t.Fatalf("sender %d", n)
		}
	}
	if strings.Count(text.String(), "\n") != 1 {
		t.Errorf("logged %q", text.String())
	}
	if err := r.close(); err != nil || len(out.rows["rate"]) != reportersMax {
		t.Errorf("%d rows, %v", len(out.rows["rate"]), err)
	}
}
