package server_test

import (
	"errors"
	"testing"
	"time"

	"pillion.dev/bus"
	"pillion.dev/measure"
	"pillion.dev/oml/omsp"
	"pillion.dev/oml/omsp/relay"
	oml "pillion.dev/oml/server"
)

// tupleOf is a tuple of a relayed stream with one field.
func tupleOf(seq int64, clock float64) measure.Sample {
	return measure.Sample{
		measure.TimeValue(time.Now()), measure.StringValue("sender"), measure.Uint64Value(1), measure.Int64Value(seq),
		measure.Float64Value(clock), measure.Float64Value(clock), measure.Int64Value(seq),
	}
}

// TestHostileRelay: an agent forges reports of applications. It can write to streams
// named by the server only by the rules, and invalid batches are rejected.
func TestHostileRelay(t *testing.T) {
	s := start(t, t.TempDir()+"/data")
	hostile := s.agent(t, "hostile")
	client := s.client(t, s.operator)
	table := omsp.Schema{Name: "load", Fields: []omsp.Field{{Name: "n", Type: omsp.Int64}}}
	origin, err := relay.Origin{Domain: `../x'; DROP TABLE events; --`, Start: 1000, Table: table}.Schema()
	if err != nil {
		t.Fatal(err)
	}
	good := batchOf(t, origin, 0, tupleOf(1, 1), tupleOf(2, 2))
	for range 2 { // the second time it exists already
		if err := hostile.Send(t.Context(), good); err != nil {
			t.Fatal(err)
		}
	}
	renamed := func(change func(*measure.Schema)) *measure.Schema {
		other := *origin
		other.Fields = append([]measure.Field(nil), origin.Fields...)
		change(&other)
		return &other
	}
	row := tupleOf(3, 3)
	for name, e := range map[string]measure.Envelope{
		"a stream that the server names": batchOf(t, renamed(func(s *measure.Schema) { s.Name = "oml_x_load" }), 1, row),
		"the server's own":               batchOf(t, &oml.Connections, 1),
		"no description":                 batchOf(t, renamed(func(s *measure.Schema) { s.Doc = "" }), 2, row),
		"another domain":                 batchOf(t, renamed(func(s *measure.Schema) { s.Fields[1].Doc = `"y"` }), 3, row),
		"another start":                  batchOf(t, renamed(func(s *measure.Schema) { s.Doc = "oml 1 -5 load" }), 4, row),
		"another column":                 batchOf(t, renamed(func(s *measure.Schema) { s.Fields[6].Name = "agent" }), 5, row),
		"no tuple":                       batchOf(t, &measure.Schema{Name: "omlx_x", Fields: []measure.Field{measure.TimeField}}, 6, row[:1]),
	} {
		if err := hostile.Send(t.Context(), e); !errors.Is(err, bus.ErrRejected) {
			t.Errorf("%s: %v", name, err)
		}
	}
	const stream = "oml____x___drop_table_events_____load"
	// The process that answers users' queries has streams as views.
	const names = "(SELECT table_name AS name FROM duckdb_tables() UNION ALL SELECT view_name FROM duckdb_views())"
	for sql, want := range map[string]int64{
		"SELECT count(*) FROM " + stream + " WHERE agent = 'hostile'":                  2,
		"SELECT count(*) FROM " + names + " WHERE name LIKE 'omlx%'":                   0,
		"SELECT count(*) FROM " + names + " WHERE name = 'oml_x_load'":                 0,
		"SELECT count(*) FROM " + names + " WHERE name = 'events'":                     1,
		"SELECT CAST(sum(oml_ts_client) AS BIGINT) FROM " + stream + " WHERE n < 1000": 3,
	} {
		if n := number(t, client, sql); n != want {
			t.Errorf("%s: %d, want %d", sql, n, want)
		}
	}
}
