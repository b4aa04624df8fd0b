package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pillion.dev/internal/store"
	"pillion.dev/oml/omsp"
	"pillion.dev/oml/omsp/client"
	"pillion.dev/study/experiment"
)

const (
	collectorPort = "3003"
	dialTimeout   = 3 * time.Second
	// reportedFile says how many rows of the journal a collector has stored.
	reportedFile = "reported"
)

// closeTimeout is how long the collector may store nothing before the last rows are given up; tests wait for less.
var closeTimeout = 30 * time.Second

// ErrReport: rows have not reached the collector; the results are complete nevertheless.
var ErrReport = errors.New("the collector lacks rows")

// warnOfCollector says at the start if the collector cannot be reached; rows wait for it.
func (r *runner) warnOfCollector() {
	if r.stream == nil {
		return
	}
	connection, err := net.DialTimeout("tcp", r.stream.Collector, dialTimeout)
	if err != nil {
		r.say("the collector cannot be reached yet: %v; rows wait for it", err)
		return
	}
	_ = connection.Close() // it was only a question
}

// stream reports rows to the OMSP listener of a server, whose streams they become. Rows are
// reported when their block is complete or will not be, so that each is reported as it
// remains, with a number that follows from its place in the journal. All runners of an
// experiment share a session with the collector, so that a row that was reported just before
// a crash, and again after it, is stored once. A nil stream does nothing.
type stream struct {
	client          *client.Client
	runs, intervals *client.Point
	spec            *experiment.Spec
	hash, path      string
	sent            int // rows
	reported
}

// reported is what has been reported where.
type reported struct {
	Collector string `json:"collector"`
	Domain    string `json:"domain"`
	Session   string `json:"session"`
	// Rows of the journal that are stored there.
	Rows int `json:"rows"`
}

// openStream connects to the collector, if there is one.
func openStream(o Options) (*stream, error) {
	if o.Collector == "" {
		return nil, nil
	}
	address := strings.TrimPrefix(o.Collector, "tcp:")
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(strings.Trim(address, "[]"), collectorPort)
	}
	sender, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("report rows: %w", err)
	}
	s := &stream{spec: o.Spec, path: filepath.Join(o.Folder, reportedFile)}
	if s.hash, err = o.Spec.Hash(); err != nil {
		return nil, err
	}
	if err := s.readReported(address, cmp.Or(o.Domain, o.Spec.Experiment)); err != nil {
		return nil, fmt.Errorf("report rows: %w", err)
	}
	s.client, err = client.New(client.Options{
		Address: address, Domain: s.Domain, Sender: sender, App: "experiment", Session: s.Session, Complete: true,
	})
	if err != nil {
		return nil, fmt.Errorf("report rows: %w", err)
	}
	if s.runs, err = s.client.Point("runs", s.runFields()...); err == nil {
		s.intervals, err = s.client.Point("intervals", omsp.Field{Name: "experiment", Type: omsp.String}, omsp.Field{Name: "hash", Type: omsp.String},
			omsp.Field{Name: "block", Type: omsp.Int64}, omsp.Field{Name: "position", Type: omsp.Int64}, omsp.Field{Name: "attempt", Type: omsp.Int64},
			omsp.Field{Name: "interval", Type: omsp.Int64}, omsp.Field{Name: "field", Type: omsp.String}, omsp.Field{Name: "value", Type: omsp.Double})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("report rows: %w", err), s.client.Close(context.Background()))
	}
	s.client.Note("experiment", o.Spec.Experiment)
	s.client.Note("hash", s.hash)
	s.client.Note("file", string(o.File))
	return s, nil
}

// readReported reads what was reported before. Another collector, or another domain, has
// nothing yet.
func (s *stream) readReported(collector, domain string) error {
	var before reported
	if text, err := os.ReadFile(s.path); err == nil && json.Unmarshal(text, &before) == nil &&
		before.Collector == collector && before.Domain == domain && before.Session != "" {
		s.reported = before
		return nil
	}
	session, err := client.NewSession()
	if err != nil {
		return err
	}
	s.reported = reported{Collector: collector, Domain: domain, Session: session}
	return store.Save(s.path, s.reported, 0o644)
}

// skip passes over the rows that an earlier runner reported and that are stored.
func (s *stream) skip(rows []experiment.Row) {
	if s == nil {
		return
	}
	s.sent = min(s.Rows, len(rows))
	s.runs.Skip(s.sent)
	for _, row := range rows[:s.sent] {
		s.intervals.Skip(len(figures(row)))
	}
}

// figure is one number of an interval.
type figure struct {
	interval int
	field    string
	value    float64
}

// figures are the numbers of a run's intervals, always in the same order.
func figures(row experiment.Row) []figure {
	var list []figure
	for i, interval := range row.Intervals {
		for _, field := range slices.Sorted(maps.Keys(interval)) {
			if number, ok := interval[field].(float64); ok {
				list = append(list, figure{i, field, number})
			}
		}
	}
	return list
}

// describe reports the environment as metadata.
func (s *stream) describe(environment map[string]any) {
	if s == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		s.client.Note("environment."+name, fmt.Sprint(environment[name]))
	}
}

func (s *stream) runFields() []omsp.Field {
	fields := []omsp.Field{
		{Name: "experiment", Type: omsp.String}, {Name: "hash", Type: omsp.String}, {Name: "block", Type: omsp.Int64},
		{Name: "position", Type: omsp.Int64}, {Name: "null_arm", Type: omsp.Bool}, {Name: "attempt", Type: omsp.Int64},
		{Name: "valid", Type: omsp.Bool}, {Name: "kept", Type: omsp.Bool}, {Name: "why", Type: omsp.String},
		{Name: "load", Type: omsp.Double}, {Name: "steal", Type: omsp.Double}, {Name: "clock_error_ns", Type: omsp.Double},
		{Name: "started", Type: omsp.String}, {Name: "seconds", Type: omsp.Double},
	}
	for _, f := range s.spec.Factors {
		fields = append(fields, omsp.Field{Name: experiment.Column("factor", f.Name), Type: omsp.String})
	}
	for _, m := range s.spec.Measures {
		fields = append(fields, omsp.Field{Name: experiment.Column("measure", m.Name), Type: omsp.Double})
	}
	return fields
}

// values makes a tuple of Go values.
func values(list ...any) []omsp.Value {
	tuple := make([]omsp.Value, len(list))
	for i, value := range list {
		switch value := value.(type) {
		case string:
			tuple[i].SetString(value)
		case int:
			tuple[i].SetInt(omsp.Int64, int64(value))
		case bool:
			tuple[i].SetBool(value)
		case float64:
			tuple[i].SetDouble(value)
		case *float64:
			tuple[i].SetDouble(math.NaN())
			if value != nil {
				tuple[i].SetDouble(*value)
			}
		}
	}
	return tuple
}

// report reports the rows that have not been reported yet.
func (s *stream) report(rows []experiment.Row) error {
	if s == nil {
		return nil
	}
	for _, row := range rows[min(s.sent, len(rows)):] {
		clock := math.NaN()
		if row.Clock != nil && row.Clock.Synchronized {
			clock = float64(row.Clock.MaxErrorNs)
		}
		list := []any{s.spec.Experiment, s.hash, row.Block, row.Position, row.Null, row.Attempt, row.Valid, row.Kept, row.Why,
			row.Load, row.Steal, clock, row.Started.Format(time.RFC3339Nano), row.Seconds}
		for _, f := range s.spec.Factors {
			list = append(list, row.Factors[f.Name])
		}
		for _, m := range s.spec.Measures {
			value, ok := row.Measures[m.Name]
			if !ok {
				value = math.NaN()
			}
			list = append(list, value)
		}
		if err := s.runs.InjectAt(row.Started, values(list...)); err != nil {
			return fmt.Errorf("report run: %w", err)
		}
		if err := s.reportIntervals(row); err != nil {
			return fmt.Errorf("report interval: %w", err)
		}
	}
	s.sent = max(s.sent, len(rows))
	return s.mark()
}

func (s *stream) reportIntervals(row experiment.Row) error {
	for _, f := range figures(row) {
		err := s.intervals.InjectAt(row.Started, values(s.spec.Experiment, s.hash, row.Block, row.Position, row.Attempt, f.interval, f.field, f.value))
		if err != nil {
			return err
		}
	}
	return nil
}

// mark notes in the folder that everything sent so far is stored, if it is.
func (s *stream) mark() error {
	if s.client.Waiting() > 0 {
		return nil
	}
	s.Rows = s.sent
	return store.Save(s.path, s.reported, 0o644)
}

// close waits until the collector has everything, for as long as it stores any of it.
func (s *stream) close() error {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	left := s.client.Waiting()
	ticker := time.NewTicker(closeTimeout)
	defer ticker.Stop()
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if now := s.client.Waiting(); now < left {
				left = now
			} else {
				cancel()
			}
		}
	}()
	if err := s.client.Close(ctx); err != nil {
		return fmt.Errorf("report rows to %s: %w: none was stored for %v: %w; they are in the journal, and resume reports them again", s.Collector, ErrReport, closeTimeout, err)
	}
	return s.mark()
}
