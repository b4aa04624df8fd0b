package service

import (
	"context"
	"log/slog"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/agent/spool"
	"pillion.dev/measure"
	oml "pillion.dev/oml/agent"
)

// TestApplicationsCannotEvictOwnRows: what applications report has a spool of its own. When
// that is full, none of Pillion's rows is dropped, and every row is accounted for.
func TestApplicationsCannotEvictOwnRows(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	config, err := (Config{SpoolBytes: 400 << 10}).complete()
	if err != nil {
		t.Fatal(err)
	}
	config.Folder = t.TempDir()
	backend, err := oml.Open(config.Folder, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	s := &service{config: config, log: log, applications: &applications{backend: backend}}
	own, reported := config.shares()
	if s.spool, err = s.openSpool(t.Context(), "spool", own); err != nil {
		t.Fatal(err)
	}
	if s.applications.spool, err = s.openSpool(t.Context(), "spool-applications", reported); err != nil {
		t.Fatal(err)
	}
	s.config.OML = omlOff
	if err := s.openApplications(); err != nil {
		t.Fatal(err)
	}
	schema := &measure.Schema{Name: "omlx_x", Fields: []measure.Field{measure.TimeField, {Name: "text", Type: measure.String}}}
	fill := func(to *spool.Spool, name string, batches int) {
		one := *schema
		one.Name = name
		b := array.NewRecordBuilder(memory.DefaultAllocator, one.Arrow())
		defer b.Release()
		for range batches {
			b.Field(0).(*array.TimestampBuilder).Append(arrow.Timestamp(1))
			b.Field(1).(*array.StringBuilder).Append(string(make([]byte, 2000)))
			r := b.NewRecordBatch()
			if err := to.Put(&one, r); err != nil {
				t.Fatal(err)
			}
			r.Release()
		}
	}
	fill(s.spool, "host", 90) // below its share
	fill(s.applications.spool, "omlx_x", 1000)
	mine, theirs := s.spool.Stats(), s.applications.spool.Stats()
	if mine.DroppedRows != 0 || mine.HeldRows != 90 || theirs.DroppedRows == 0 || theirs.Bytes > reported {
		t.Errorf("own %+v, applications %+v", mine, theirs)
	}
	if sum := s.spooled(); sum.WrittenRows != 1090 || sum.WrittenRows != sum.SentRows+sum.HeldRows+sum.DroppedRows+sum.RejectedRows || sum.LimitBytes != 400<<10 {
		t.Errorf("sum %+v", sum)
	}
	// The window of one does not hold up the other.
	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan string, 2000)
	go func() {
		_ = s.applications.spool.Run(ctx, func(ctx context.Context, _ measure.Envelope) error { <-ctx.Done(); return ctx.Err() })
	}()
	go func() {
		_ = s.spool.Run(ctx, func(_ context.Context, e measure.Envelope) error { sent <- e.Stream; return nil })
	}()
	if err := s.spool.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	cancel()
	if err := s.close(); err != nil {
		t.Error(err)
	}
	if len(sent) != 90 {
		t.Errorf("%d of Pillion's batches were delivered", len(sent))
	}
}

// TestWithoutApplications: an agent whose program has no backend for applications listens for none.
func TestWithoutApplications(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	s := &service{config: Config{Folder: t.TempDir(), OML: "127.0.0.1:0"}, log: log, applications: &applications{}}
	var err error
	if s.spool, err = s.openSpool(t.Context(), "spool", 1<<20); err != nil {
		t.Fatal(err)
	}
	if s.applications.spool, err = s.openSpool(t.Context(), "spool-applications", 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := s.openApplications(); err != nil || s.applications.collector != nil {
		t.Errorf("collector %v, %v", s.applications.collector, err)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}

// TestSpoolShares: applications have a quarter unless the configuration says otherwise, and
// something is left for Pillion.
func TestSpoolShares(t *testing.T) {
	for name, row := range map[string]struct {
		config        Config
		own, reported int64
		invalid       bool
	}{
		"default": {Config{}, 3 << 28, 1 << 28, false}, "smaller": {Config{SpoolBytes: 4000}, 3000, 1000, false},
		"set": {Config{SpoolBytes: 4000, OMLSpoolBytes: 3999}, 1, 3999, false}, "nothing left": {Config{SpoolBytes: 4000, OMLSpoolBytes: 4000}, 0, 0, true},
		"negative": {Config{OMLSpoolBytes: -1}, 0, 0, true},
	} {
		config, err := row.config.complete()
		if (err != nil) != row.invalid {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if own, reported := config.shares(); err == nil && (own != row.own || reported != row.reported) {
			t.Errorf("%s: %d and %d", name, own, reported)
		}
	}
}
