package duckdb

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	duckdb "github.com/duckdb/duckdb-go-bindings"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/measure"
)

// Time is TIMESTAMP_NS: the other timestamps of DuckDB would lose nanoseconds.
var sqlTypes = map[measure.Type]string{
	measure.Bool: "BOOLEAN", measure.Int32: "INTEGER", measure.Uint32: "UINTEGER", measure.Int64: "BIGINT",
	measure.Uint64: "UBIGINT", measure.Float64: "DOUBLE", measure.String: "VARCHAR", measure.Binary: "BLOB",
	measure.Time: "TIMESTAMP_NS", measure.Int64List: "BIGINT[]", measure.Uint64List: "UBIGINT[]",
}

var plainTypes = map[measure.Type]duckdb.Type{
	measure.Bool: duckdb.TypeBoolean, measure.Int32: duckdb.TypeInteger, measure.Uint32: duckdb.TypeUInteger,
	measure.Int64: duckdb.TypeBigInt, measure.Uint64: duckdb.TypeUBigInt, measure.Float64: duckdb.TypeDouble,
	measure.String: duckdb.TypeVarchar, measure.Binary: duckdb.TypeBlob, measure.Time: duckdb.TypeTimestampNS,
}

// logicalType must be destroyed.
func logicalType(t measure.Type) duckdb.LogicalType {
	element := duckdb.TypeBigInt
	switch t {
	case measure.Uint64List:
		element = duckdb.TypeUBigInt
	case measure.Int64List:
	default:
		return duckdb.CreateLogicalType(plainTypes[t])
	}
	child := duckdb.CreateLogicalType(element)
	defer duckdb.DestroyLogicalType(&child)
	return duckdb.CreateListType(child)
}

// quoted quotes a name for SQL.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// tableOf is the table of a stream.
func tableOf(stream string) string { return "main." + quoted(stream) }

// tableTypes are the types of a stream's table: the agent's column comes first.
func tableTypes(s *measure.Schema) []measure.Type {
	types := []measure.Type{measure.String}
	for _, f := range s.Fields {
		types = append(types, f.Type)
	}
	return types
}

// internals are the archive's internal tables, in a separate schema. The table delivery is
// append-only: the row with the highest revision is valid. shapes has the columns that agents added, by stream.
const internals = `
CREATE SCHEMA IF NOT EXISTS pillion;
CREATE TABLE IF NOT EXISTS pillion.streams (stream VARCHAR, schema VARCHAR);
CREATE TABLE IF NOT EXISTS pillion.retention (stream VARCHAR, age_ns BIGINT, rows BIGINT, bytes BIGINT);
CREATE TABLE IF NOT EXISTS pillion.delivery (revision UBIGINT, agent VARCHAR, stream VARCHAR, epoch UBIGINT,
	next UBIGINT, extras UBIGINT[], batches BIGINT, rows BIGINT, missing BIGINT, seen_ns BIGINT);
CREATE TABLE IF NOT EXISTS pillion.shapes (agent VARCHAR, stream VARCHAR, columns BIGINT);`

// inTransaction runs work and commits; any failure rolls back all of it.
func (c *connection) inTransaction(ctx context.Context, work func() error) error {
	if err := c.exec(ctx, "BEGIN"); err != nil {
		return err
	}
	err := work()
	if err == nil {
		if err = c.exec(ctx, "COMMIT"); err == nil {
			return nil
		}
	}
	_ = c.rollback() // or before the next statement
	return err
}

// rollback rolls a transaction back. If queries use all the memory even that fails, and
// the connection is unusable until it succeeds.
func (c *connection) rollback() error {
	c.stuck = false
	err := c.exec(context.Background(), "ROLLBACK")
	if err == nil || strings.Contains(err.Error(), "no transaction is active") { // a failed commit has undone it
		return nil
	}
	c.stuck = true
	return err
}

// widen creates the table of a stream, or adds missing columns. have is nil for a new
// stream. also runs in the same transaction.
func (c *connection) widen(ctx context.Context, have, want *measure.Schema, also func() error) error {
	text, err := json.Marshal(want)
	if err != nil {
		return fmt.Errorf("encode schema of %q: %w", want.Name, err)
	}
	var changes []string
	if have == nil {
		columns := []string{quoted(archive.AgentColumn) + " VARCHAR"}
		for _, f := range want.Fields {
			columns = append(columns, quoted(f.Name)+" "+sqlTypes[f.Type])
		}
		changes = append(changes, fmt.Sprintf("CREATE TABLE %s (%s)", tableOf(want.Name), strings.Join(columns, ", ")))
	} else {
		for i, f := range want.Fields {
			if i >= len(have.Fields) {
				changes = append(changes, fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", tableOf(want.Name), quoted(f.Name), sqlTypes[f.Type]))
			} else if f.Type != have.Fields[i].Type {
				changes = append(changes, fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s TYPE %s", tableOf(want.Name), quoted(f.Name), sqlTypes[f.Type]))
			}
		}
	}
	return c.inTransaction(ctx, func() error {
		for _, change := range changes {
			if err := c.exec(ctx, change); err != nil {
				return fmt.Errorf("shape table of %q: %w", want.Name, err)
			}
		}
		if err := c.exec(ctx, "DELETE FROM pillion.streams WHERE stream = ?", want.Name); err != nil {
			return err
		}
		if err := c.exec(ctx, "INSERT INTO pillion.streams VALUES (?, ?)", want.Name, string(text)); err != nil {
			return err
		}
		return also()
	})
}

// loadSchemas reads the catalog.
func (c *connection) loadSchemas(ctx context.Context) (map[string]*measure.Schema, error) {
	schemas := map[string]*measure.Schema{}
	err := c.query(ctx, "SELECT schema FROM pillion.streams", nil, func(r arrow.RecordBatch) error {
		for i := range int(r.NumRows()) {
			s := &measure.Schema{}
			if err := json.Unmarshal([]byte(answer.RowOf(r, i).Text(0)), s); err != nil {
				return fmt.Errorf("read catalog: %w", err)
			}
			schemas[s.Name] = s
		}
		return nil
	})
	return schemas, err
}
