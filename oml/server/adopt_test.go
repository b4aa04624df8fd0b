package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/archive"
	"pillion.dev/bus"
	"pillion.dev/measure"
	"pillion.dev/oml/omsp"
	"pillion.dev/oml/omsp/relay"
	oml "pillion.dev/oml/server"
	"pillion.dev/server/store"
)

// nothing accepts all batches and has no rows.
type nothing struct{}

func (nothing) Put(_ *measure.Schema, _ arrow.RecordBatch, done func(error)) {
	done(nil)
}

func (nothing) Export(context.Context, archive.Export, func(arrow.RecordBatch) error) error {
	return archive.ErrUnknown
}

func (nothing) Highest(context.Context, string, string, map[string]string) (int64, error) {
	return 0, archive.ErrUnknown
}

func backend(t *testing.T, folder string) *oml.Backend {
	t.Helper()
	k, err := oml.New(store.NewFiles(folder), nothing{}, nothing{}, oml.Quota{}, wall{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

// batch is one of two rows, as an agent relays it: client times 1.5 and null.
func batch(t *testing.T, schema *measure.Schema, epoch, sequence uint64) archive.Batch {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema.Arrow())
	defer b.Release()
	for row := range 2 {
		for i, f := range schema.Fields {
			if clock, ok := b.Field(i).(*array.Float64Builder); ok && row == 0 {
				clock.Append(1.5)
			} else if text, ok := b.Field(i).(*array.StringBuilder); ok {
				text.Append(f.Name)
			} else if i == 0 {
				b.Field(i).AppendEmptyValue()
			} else {
				b.Field(i).AppendNull()
			}
		}
	}
	return archive.Batch{
		Agent: "north", Key: measure.Key{Stream: schema.Name, Epoch: epoch, Sequence: sequence}, Schema: schema, Record: b.NewRecordBatch(),
	}
}

func stream(t *testing.T, domain string, start int64, text string) *measure.Schema {
	t.Helper()
	table, err := omsp.ParseSchema(text)
	if err != nil {
		t.Fatal(err)
	}
	table.Index = 0
	s, err := relay.Origin{Domain: domain, Start: start, Table: table}.Schema()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const notes = "0 _experiment_metadata subject:string key:string value:string"

// values of one column, as text.
func values(t *testing.T, b archive.Batch, column string) string {
	t.Helper()
	i := b.Schema.Index(column)
	if i < 0 {
		t.Fatalf("%s has no column %s", b.Schema.Name, column)
	}
	var all []string
	for row := range int(b.Record.NumRows()) {
		all = append(all, b.Record.Column(i).ValueStr(row))
	}
	return strings.Join(all, " ")
}

// TestAdopt: tuples are assigned to the table of their domain, on its time base, and a
// retransmitted batch has the same key.
func TestAdopt(t *testing.T) {
	k := backend(t, t.TempDir())
	if _, err := k.Start("Lab", 1000); err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for _, row := range []struct {
		name, domain string
		start        int64
		text         string
		want, clock  string
	}{
		{"later start", "Lab", 1010, "1 load n:int64", "oml_lab_load", "11.5 (null)"},
		{"earlier start", "Lab", 990, "1 load n:int64", "oml_lab_load", "-8.5 (null)"},
		{"other fields", "Lab", 1000, "1 load n:uint64", "oml_lab_load_2", "1.5 (null)"},
		{"new domain", "x", 77, "4 load n:int64", "oml_x_load", "1.5 (null)"},
	} {
		b, err := k.Adopt(batch(t, stream(t, row.domain, row.start, row.text), 5, uint64(len(keys))))
		if err != nil || b.Stream != row.want || b.Schema.Name != row.want || b.Agent != "north" {
			t.Errorf("%s: %s of %s, %v", row.name, b.Stream, b.Agent, err)
			continue
		}
		if got := values(t, b, "oml_ts_client"); got != row.clock || values(t, b, "oml_ts_server") != row.clock {
			t.Errorf("%s: times %s, want %s", row.name, got, row.clock)
		}
		keys[fmt.Sprint(b.Key)] = true
		again, err := k.Adopt(batch(t, stream(t, row.domain, row.start, row.text), 5, b.Sequence))
		if err != nil || again.Key != b.Key {
			t.Errorf("%s: retransmitted with key %v, %v, want %v", row.name, again.Key, err, b.Key)
		}
	}
	for _, domain := range []string{"Lab", "x"} {
		b, err := k.Adopt(batch(t, stream(t, domain, 1000, notes), 5, 0))
		if err != nil || b.Stream != oml.Metadata.Name || keys[fmt.Sprint(b.Key)] {
			t.Fatalf("metadata of %s: %v, %v", domain, b.Key, err)
		}
		keys[fmt.Sprint(b.Key)] = true
		if got := values(t, b, "domain") + " " + values(t, b, "key"); got != domain+" "+domain+" key key" {
			t.Errorf("metadata is %s", got)
		}
	}
	b, err := k.Adopt(batch(t, &relay.Connections, 5, 0))
	if err != nil || b.Stream != oml.Connections.Name || values(t, b, "reason") != "reason reason" {
		t.Errorf("connections: %v, %v", b.Key, err)
	}
}

// TestAdoptRefuses: invalid relayed streams and those beyond the limits are rejected
// permanently; a failing disk is a temporary error.
func TestAdoptRefuses(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "server")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	k := backend(t, folder)
	forged := *stream(t, "lab", 5, "1 t n:int64")
	forged.Doc = strings.Replace(forged.Doc, " t", " u", 1)
	mistyped := relay.Connections
	mistyped.Fields = append([]measure.Field(nil), mistyped.Fields...)
	mistyped.Fields[2].Type = measure.Int64
	for name, s := range map[string]*measure.Schema{
		"forged": &forged, "connections of other types": &mistyped,
		"no tuples": {Name: relay.Prefix + "x", Fields: []measure.Field{measure.TimeField}},
	} {
		before := batch(t, s, 1, 0)
		if b, err := k.Adopt(before); !errors.Is(err, bus.ErrRejected) || b.Record != before.Record {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Rename(folder, folder+".away"); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Adopt(batch(t, stream(t, "lab", 5, "1 t n:int64"), 1, 0)); err == nil || errors.Is(err, bus.ErrRejected) {
		t.Errorf("failing disk: %v", err)
	}
	if err := os.Rename(folder+".away", folder); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for i := range 900 {
		if _, err := k.Adopt(batch(t, stream(t, "lab", 5, fmt.Sprintf("1 t%d n:int64", i)), 1, 0)); errors.Is(err, bus.ErrRejected) {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if refused < 100 {
		t.Errorf("%d tables beyond the limit are refused", refused)
	}
}

// wall is a Clock that nobody sets.
type wall struct{}

func (wall) Now() time.Time    { return time.Now() }
func (wall) Cutoff() time.Time { return time.Now() }
