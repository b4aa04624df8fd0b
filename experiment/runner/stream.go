package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"pillion.dev/experiment"
	"pillion.dev/omsp"
	"pillion.dev/omsp/client"
)

const (
	collectorPort = "3003"
	closeTimeout  = 10 * time.Second
	// reportedFile has the number of rows of the journal that a collector has stored.
	reportedFile = "reported"
)

// stream reports rows to the OMSP listener of a server, whose streams they become. Rows are
// reported when their block is complete or will not be, so that each is reported as it
// remains. One that was reported just before a crash can be there twice. A nil stream does
// nothing.
type stream struct {
	client          *client.Client
	runs, intervals *client.Point
	spec            *experiment.Spec
	hash, path      string
	sent            int // rows
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
	if text, err := os.ReadFile(s.path); err == nil {
		s.sent, _ = strconv.Atoi(strings.TrimSpace(string(text))) // 0 reports all rows again
	}
	domain := o.Domain
	if domain == "" {
		domain = o.Spec.Experiment
	}
	s.client, err = client.New(client.Options{Address: address, Domain: domain, Sender: sender, App: "experiment"})
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

// describe reports the environment as metadata.
func (s *stream) describe(environment map[string]any) {
	if s == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		s.client.Note("environment."+name, fmt.Sprint(environment[name]))
	}
}

// column makes a name of a column of a name in the file.
func column(kind, name string) string { return kind + "_" + strings.ReplaceAll(name, "-", "_") }

func (s *stream) runFields() []omsp.Field {
	fields := []omsp.Field{
		{Name: "experiment", Type: omsp.String}, {Name: "hash", Type: omsp.String}, {Name: "block", Type: omsp.Int64},
		{Name: "position", Type: omsp.Int64}, {Name: "null_arm", Type: omsp.Bool}, {Name: "attempt", Type: omsp.Int64},
		{Name: "valid", Type: omsp.Bool}, {Name: "kept", Type: omsp.Bool}, {Name: "why", Type: omsp.String},
		{Name: "load", Type: omsp.Double}, {Name: "steal", Type: omsp.Double}, {Name: "clock_error_ns", Type: omsp.Double},
		{Name: "started", Type: omsp.String}, {Name: "seconds", Type: omsp.Double},
	}
	for _, f := range s.spec.Factors {
		fields = append(fields, omsp.Field{Name: column("factor", f.Name), Type: omsp.String})
	}
	for _, m := range s.spec.Measures {
		fields = append(fields, omsp.Field{Name: column("measure", m.Name), Type: omsp.Double})
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
	for i, interval := range row.Intervals {
		for _, field := range slices.Sorted(maps.Keys(interval)) {
			number, ok := interval[field].(float64)
			if !ok {
				continue
			}
			err := s.intervals.InjectAt(row.Started, values(s.spec.Experiment, s.hash, row.Block, row.Position, row.Attempt, i, field, number))
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// mark notes in the folder that everything sent so far is stored, if it is.
func (s *stream) mark() error {
	if s.client.Waiting() > 0 {
		return nil
	}
	return os.WriteFile(s.path, []byte(strconv.Itoa(s.sent)+"\n"), 0o644)
}

// close waits until the collector has everything.
func (s *stream) close() error {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := s.client.Close(ctx); err != nil {
		return fmt.Errorf("report rows: %w; they are in the journal, and resume reports them again", err)
	}
	return s.mark()
}
