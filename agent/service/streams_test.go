package service

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/measure"
)

// TestStreamsOfPoints: a point's samples are delivered unfiltered and as derived streams.
func TestStreamsOfPoints(t *testing.T) {
	var mu sync.Mutex
	rows := map[string]int64{}
	put := func(schema *measure.Schema, record arrow.RecordBatch) error {
		mu.Lock()
		defer mu.Unlock()
		rows[schema.Name] += record.NumRows()
		return nil
	}
	s, err := openStreams(put, nil, []Stream{
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
	} {
		t.Run(name, func(t *testing.T) {
			stream := good
			change(&stream)
			put := func(*measure.Schema, arrow.RecordBatch) error { return nil }
			_, err := openStreams(put, nil, []Stream{stream}, slog.New(slog.DiscardHandler))
			if !errors.Is(err, ErrConfig) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v", err)
			}
		})
	}
}
