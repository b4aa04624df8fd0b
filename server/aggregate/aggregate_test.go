package aggregate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/archive/duckdb"
	"pillion.dev/bus"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
)

func open(t *testing.T, path string, arrivals ...string) *duckdb.Archive {
	t.Helper()
	a, err := duckdb.Open(path, duckdb.Options{Arrivals: arrivals})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// randomRow is one of a few pairs, of the last minutes before a time.
func randomRow(random *rand.Rand, before time.Time) flows.Row {
	names := []string{"north", "south", "east"}
	r := flows.Row{
		End: before.Add(-time.Duration(random.Int64N(int64(3 * time.Minute)))), Interval: time.Second,
		Session: []string{"first", "second"}[random.IntN(2)], Source: names[random.IntN(3)], Destination: names[random.IntN(3)], Device: "eth0",
		Flow:             flows.Flow{Src: fmt.Sprintf("10.0.%d.%d", random.IntN(3), random.IntN(9)), Dst: fmt.Sprintf("2001:db8:%d::%d", random.IntN(3), random.IntN(9)), Proto: "udp"},
		DestinationClock: flows.BoundOf(random.Int64N(1000)), SourceClock: flows.Bound{Ns: 0, Known: random.IntN(5) > 0},
	}
	if random.IntN(20) == 0 {
		r.Interval = time.Minute
	}
	for _, count := range r.Counts.List() {
		*count = random.Uint64N(1000)
	}
	for range random.IntN(20) {
		r.Delay.Add(random.Int64N(1e9) - 1e6)
		r.IPDV.Add(random.Int64N(1e6) - 5e5)
	}
	if random.IntN(10) == 0 {
		r.Delay.Histogram.Offsets = nil
	}
	r.IPDV.Histogram.Offsets = nil // flows has none
	return r
}

func randomRows(random *rand.Rand, before time.Time) (rows []flows.Row) {
	for range random.IntN(20) {
		rows = append(rows, randomRow(random, before))
	}
	return rows
}

// storeRows stores rows, by destination, as batches of that sequence number.
func storeRows(t *testing.T, a archive.Archive, sequence uint64, rows ...flows.Row) {
	t.Helper()
	var batches []archive.Batch
	for _, agent := range []string{"north", "south", "east"} {
		stream, err := measure.NewStream(&measure.Flows, measure.StreamOptions{}, func(schema *measure.Schema, record arrow.RecordBatch) error {
			record.Retain()
			batches = append(batches, archive.Batch{Agent: agent, Key: measure.Key{Stream: schema.Name, Epoch: 1, Sequence: sequence}, Schema: schema, Record: record})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			if rows[i].Destination == agent {
				if err := stream.Append(rows[i].Sample(nil)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := stream.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, rejected, err := a.Store(t.Context(), batches)
	if err != nil || len(rejected) > 0 {
		t.Fatal(rejected, err)
	}
	for _, b := range batches {
		b.Record.Release()
	}
}

// storing sends batches to an archive as a server stores them.
func storing(t *testing.T, to archive.Archive) func(context.Context, string, measure.Envelope) error {
	return func(ctx context.Context, agent string, e measure.Envelope) error {
		schema, record, err := e.Decode()
		if err != nil {
			t.Error(err)
			return err
		}
		defer record.Release()
		_, rejected, err := to.Store(ctx, []archive.Batch{{Agent: "paris/" + agent, Key: e.Key, Oldest: e.Oldest, Schema: schema, Record: record}})
		return errors.Join(err, rejected[0])
	}
}

// sums are those of all rows of an archive, by window and pair.
func sums(t *testing.T, of archive.Archive, m *Merging, site string) map[key]*sum {
	t.Helper()
	s := state{open: map[key]*sum{}}
	err := of.Export(t.Context(), archive.Export{Stream: measure.Flows.Name}, func(record arrow.RecordBatch) error {
		for row, err := range flows.Stored(record) {
			if err != nil {
				return err
			}
			row.Destination = row.Destination[len(site):]
			if !m.Prefixes {
				row.Flow = flows.Flow{}
			}
			s.add(m, row, time.Time{})
		}
		return nil
	})
	if err != nil && !errors.Is(err, archive.ErrUnknown) {
		t.Fatal(err)
	}
	return s.open
}

// compare fails unless what arrived is what the site has: counts, extremes and histograms exactly, means
// to within the nanosecond to which rows round them.
func compare(t *testing.T, site, central archive.Archive, m *Merging) {
	t.Helper()
	want, got := sums(t, site, m, ""), sums(t, central, m, "paris/")
	if len(want) == 0 || len(want) != len(got) {
		t.Fatalf("%d windows of pairs arrived, the site has %d", len(got), len(want))
	}
	for k, w := range want {
		g := got[k]
		if g == nil {
			t.Fatalf("%+v has not arrived", k)
		}
		for _, d := range []struct{ got, want *flows.Distribution }{{&g.Delay, &w.Delay}, {&g.IPDV, &w.IPDV}} {
			if d.got.Count != d.want.Count || d.got.Min != d.want.Min || d.got.Max != d.want.Max || !reflect.DeepEqual(d.got.Histogram, d.want.Histogram) {
				t.Fatalf("%+v: got %+v, want %+v", k, d.got, d.want)
			}
			if off := d.got.Total.Sub(d.want.Total).Abs(); off.ToFloat64(0) > float64(d.want.Count) {
				t.Fatalf("%+v: the totals differ by %v over %d values", k, off, d.want.Count)
			}
		}
		if g.Counts != w.Counts || g.destinationClock != w.destinationClock || g.sourceClock != w.sourceClock {
			t.Fatalf("%+v: got %+v, want %+v", k, g, w)
		}
	}
}

var errCut = errors.New("cut")

// TestEachRowCountsOnce: rows arrive at the central archive once, whatever fails: batches that are lost
// on the way, replies that are, a state that cannot be written, restarts of the aggregator and of the archive at
// any time, and rows that are late.
func TestEachRowCountsOnce(t *testing.T) {
	for name, m := range map[string]Merging{
		"pairs":    {Window: 10 * time.Second, Lateness: 20 * time.Second},
		"prefixes": {Window: time.Minute, Prefixes: true, IPv4: 24, IPv6: 48},
	} {
		t.Run(name, func(t *testing.T) {
			folder, random := t.TempDir(), rand.New(rand.NewPCG(1, 2))
			path := filepath.Join(folder, "site")
			site, central := open(t, path, measure.Flows.Name), open(t, filepath.Join(folder, "central"))
			now := time.Now()
			store, failing := storing(t, central), true
			options := Options{Archive: site, Folder: folder, Merging: m, Now: func() time.Time { return now }}
			options.Send = func(ctx context.Context, agent string, e measure.Envelope) error {
				fate := rand.IntN(3)
				if failing && fate == 0 {
					return errCut
				}
				if err := store(ctx, agent, e); err != nil || !failing || fate == 1 {
					return err
				}
				return errCut
			}
			a, err := Open(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			for round := range 80 {
				now = now.Add(time.Second)
				storeRows(t, site, uint64(round), randomRows(random, now)...)
				state := a.path()
				if spoil := random.IntN(6) == 0; spoil { // it cannot be replaced by a file
					if err := errors.Join(os.Rename(state, state+".saved"), os.MkdirAll(filepath.Join(state, "x"), 0o700)); err != nil {
						t.Fatal(err)
					}
					_, _ = a.Step(t.Context()) // it fails, or has nothing to write
					if err := errors.Join(os.RemoveAll(state), os.Rename(state+".saved", state)); err != nil {
						t.Fatal(err)
					}
					a.stale = true
				}
				for range random.IntN(4) {
					if _, err := a.Step(t.Context()); err != nil && !errors.Is(err, errCut) {
						t.Fatal(err)
					}
				}
				switch random.IntN(8) {
				case 0:
					if err := site.Close(); err != nil {
						t.Fatal(err)
					}
					site = open(t, path, measure.Flows.Name)
					options.Archive = site
					fallthrough
				case 1:
					if a, err = Open(t.Context(), options); err != nil {
						t.Fatal(err)
					}
				}
			}
			failing, now = false, now.Add(time.Hour)
			for range 3 {
				if _, err := a.Step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			compare(t, site, central, &m)
			raw, err := site.Delivered(t.Context(), "north")
			if err != nil {
				t.Fatal(err)
			}
			sent, err := central.Delivered(t.Context(), "paris/north")
			if err != nil || sent["flows"].Missing != 0 || sent["flows"].Rows >= raw["flows"].Rows {
				t.Errorf("%+v of %+v, %v", sent, raw, err)
			}
		})
	}
}

// TestKilled: the same while the process of the aggregator and of both archives is killed.
func TestKilled(t *testing.T) {
	m := Merging{Window: time.Second, Lateness: 100 * time.Millisecond}
	if folder := os.Getenv("PILLION_AGGREGATE_CHILD"); folder != "" {
		runForEver(t, folder, m)
		return
	}
	folder := t.TempDir()
	for n := range 6 {
		child := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		child.Env = append(os.Environ(), "PILLION_AGGREGATE_CHILD="+folder)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		for lines, seen := bufio.NewScanner(out), 0; lines.Scan(); {
			if seen++; seen == 15+7*n { // at another place each time
				_ = child.Process.Kill()
			}
		}
		_ = child.Wait()
	}
	site, central := open(t, filepath.Join(folder, "site"), measure.Flows.Name), open(t, filepath.Join(folder, "central"))
	later := func() time.Time { return time.Now().Add(time.Hour) }
	a, err := Open(t.Context(), Options{Archive: site, Folder: folder, Merging: m, Send: storing(t, central), Now: later})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := a.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	compare(t, site, central, &m)
}

// runForEver prints a line after each of its steps.
func runForEver(t *testing.T, folder string, m Merging) {
	site, central := open(t, filepath.Join(folder, "site"), measure.Flows.Name), open(t, filepath.Join(folder, "central"))
	store := storing(t, central)
	a, err := Open(t.Context(), Options{Archive: site, Folder: folder, Merging: m, Send: func(ctx context.Context, agent string, e measure.Envelope) error {
		defer fmt.Println("sent")
		return store(ctx, agent, e)
	}})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	delivered, err := site.Delivered(t.Context(), "north")
	if err != nil {
		t.Fatal(err)
	}
	for n := uint64(delivered["flows"].Batches + 1000*int64(os.Getpid())); ; n++ {
		storeRows(t, site, n, randomRow(random, time.Now()), randomRow(random, time.Now()))
		fmt.Println("stored")
		if _, err := a.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		fmt.Println("stepped")
	}
}

// TestRejected: what the other server rejects for good is counted, and does not hold up the rest.
func TestRejected(t *testing.T) {
	folder := t.TempDir()
	site, central := open(t, filepath.Join(folder, "site"), measure.Flows.Name), open(t, filepath.Join(folder, "central"))
	store, now := storing(t, central), time.Now()
	a, err := Open(t.Context(), Options{Archive: site, Folder: folder, Merging: Merging{Window: time.Second}, Now: func() time.Time { return now },
		Send: func(ctx context.Context, agent string, e measure.Envelope) error {
			if agent == "north" {
				return bus.ErrRejected
			}
			return store(ctx, agent, e)
		}})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 4))
	north, south := randomRow(random, now), randomRow(random, now)
	north.Destination, south.Destination = "north", "south"
	storeRows(t, site, 0, north, south)
	now = now.Add(time.Hour)
	for range 2 {
		if _, err := a.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := a.Stats(), (Stats{Taken: 2, Sent: 1, Rejected: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestBegins: without a state, rows that are stored already are not sent.
func TestBegins(t *testing.T) {
	folder := t.TempDir()
	site := open(t, filepath.Join(folder, "site"), measure.Flows.Name)
	random := rand.New(rand.NewPCG(5, 6))
	storeRows(t, site, 0, randomRow(random, time.Now()))
	sent := 0
	a, err := Open(t.Context(), Options{Archive: site, Folder: folder, Merging: Merging{Window: time.Second}, Now: func() time.Time { return time.Now().Add(time.Hour) },
		Send: func(context.Context, string, measure.Envelope) error { sent++; return nil }})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := a.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if sent != 0 {
		t.Errorf("%d batches of earlier rows are sent", sent)
	}
	if err := os.WriteFile(a.path(), []byte("?"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), a.options); err == nil {
		t.Error("a damaged state is accepted")
	}
}
