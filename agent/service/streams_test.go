package service

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/measure"
)

// countRows returns a sink and how many rows of each stream it has received.
func countRows() (rows map[string]int64, put func(*measure.Schema, arrow.RecordBatch) error) {
	var mu sync.Mutex
	rows = map[string]int64{}
	return rows, func(schema *measure.Schema, record arrow.RecordBatch) error {
		mu.Lock()
		defer mu.Unlock()
		rows[schema.Name] += record.NumRows()
		return nil
	}
}

// TestStreamsOfPoints: a point's samples are delivered unfiltered and as derived streams.
func TestStreamsOfPoints(t *testing.T) {
	rows, put := countRows()
	s, err := openStreams(put, put, nil, []Stream{
		{Name: "busy", Point: "host", Filters: []string{"avg(cpu_percent)", "max(load1)"}, Samples: 5},
		{Name: "spread", Point: "host", Filters: []string{"quantiles(cpu_percent; 0.5, 0.99)"}, Every: time.Minute},
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for n := range 12 {
		s.inject(&measure.Host, measure.Sample{
			measure.TimeValue(time.Unix(int64(n), 0)), measure.Float64Value(float64(n)), measure.Uint32Value(2), {}, {}, {}, {},
		})
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if rows["host"] != 12 || rows["busy"] != 3 || rows["spread"] != 1 {
		t.Errorf("rows: %v", rows)
	}
}

// TestChainedStreams: a stream of a stream, in any order of the configuration; replaced
// rows are not delivered.
func TestChainedStreams(t *testing.T) {
	rows, put := countRows()
	s, err := openStreams(put, put, nil, []Stream{
		{Name: "minutes", Point: "seconds", Filters: []string{"max(cpu_percent_avg)"}, Every: time.Minute, Replace: true},
		{Name: "seconds", Point: "host", Filters: []string{"avg(cpu_percent)"}, Every: time.Second, Replace: true},
		{Name: "hours", Point: "minutes", Filters: []string{"count()"}, Every: time.Hour},
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for n := range 240 {
		s.inject(&measure.Host, measure.Sample{
			measure.TimeValue(time.Unix(0, int64(n)*5e8)), measure.Float64Value(float64(n)), measure.Uint32Value(2), {}, {}, {}, {},
		})
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if rows["host"] != 0 || rows["seconds"] != 0 || rows["minutes"] != 2 || rows["hours"] != 1 {
		t.Errorf("rows: %v", rows)
	}
	_, err = openStreams(put, put, nil, []Stream{
		{Name: "a", Point: "b", Filters: []string{"count()"}, Samples: 1}, {Name: "b", Point: "a", Filters: []string{"count()"}, Samples: 1},
	}, slog.New(slog.DiscardHandler))
	if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "of itself") {
		t.Errorf("circle: %v", err)
	}
}

// TestLossesAreLogged: what a derived stream dropped or changed is logged once.
func TestLossesAreLogged(t *testing.T) {
	var text bytes.Buffer
	put := func(*measure.Schema, arrow.RecordBatch) error { return nil }
	s, err := openStreams(put, put, nil, []Stream{
		{Name: "sent", Point: "interfaces", Filters: []string{"count()"}, Every: time.Minute},
		{Name: "busy", Point: "host", Filters: []string{"avg(cpu_percent)"}, Every: time.Minute},
	}, slog.New(slog.NewTextHandler(&text, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for _, second := range []int64{600, 630, 599} { // the last belongs to the window before
		s.inject(&measure.Host, measure.Sample{
			measure.TimeValue(time.Unix(second, 0)), measure.Float64Value(1), measure.Uint32Value(2), {}, {}, {}, {},
		})
	}
	s.derived.reportLosses(s.log)
	if got := text.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "stream=busy samples_dropped=0 samples_late=1 values_saturated=0") {
		t.Errorf("logged %q", got)
	}
	text.Reset()
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if text.Len() != 0 {
		t.Errorf("logged again: %q", text.String())
	}
}

func TestInvalidStreams(t *testing.T) {
	good := Stream{Name: "busy", Point: "host", Filters: []string{"avg(cpu_percent)"}, Every: time.Second}
	for name, change := range map[string]func(*Stream){
		"no name":        func(s *Stream) { s.Name = "" },
		"a point's name": func(s *Stream) { s.Name = "flows" },
		"no point":       func(s *Stream) { s.Point = "weather" },
		"no filters":     func(s *Stream) { s.Filters = nil },
		"bad filter":     func(s *Stream) { s.Filters = []string{"avg(cpu_percent"} },
		"no such column": func(s *Stream) { s.Filters = []string{"avg(cpu)"} },
		"no window":      func(s *Stream) { s.Every = 0 },
		"of itself":      func(s *Stream) { s.Point = s.Name },
		"replaces flows": func(s *Stream) { s.Point, s.Filters, s.Replace = "flows", []string{"sum(packets)"}, true },
	} {
		t.Run(name, func(t *testing.T) {
			stream := good
			change(&stream)
			put := func(*measure.Schema, arrow.RecordBatch) error { return nil }
			_, err := openStreams(put, put, nil, []Stream{stream}, slog.New(slog.DiscardHandler))
			if !errors.Is(err, ErrConfig) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v", err)
			}
		})
	}
}
