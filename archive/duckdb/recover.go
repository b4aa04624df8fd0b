package duckdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	duckdb "github.com/duckdb/duckdb-go-bindings"

	"pillion.dev/archive/transfer"
	local "pillion.dev/internal/store"
)

const (
	// Rows are copied by row groups, and if one is damaged by ever fewer, down to vectors.
	groupRows  = 122_880
	vectorRows = 2048
)

// Recover copies what can be read of an archive that is not open, which is not changed, into a new file. It
// returns the numbers of rows by stream, and by table of the archive itself. Of a damaged write-ahead log
// what precedes the damage is read; walLost is the number of bytes that follow.
func Recover(ctx context.Context, from, to string) (outcomes []transfer.Outcome, walLost int64, err error) {
	if _, err := os.Stat(from); err != nil {
		return nil, 0, err
	}
	if _, err := os.Lstat(to); err == nil { // DuckDB would add to what is there
		return nil, 0, fmt.Errorf("%s: %w", to, os.ErrExist)
	}
	var db duckdb.Database
	var message string
	if duckdb.OpenExt(to, &db, duckdb.Config{}, &message) == duckdb.StateError {
		return nil, 0, errors.New(message)
	}
	defer duckdb.Close(&db)
	if err := os.Chmod(to, 0o600); err != nil {
		return nil, 0, err
	}
	c, err := connect(db)
	if err != nil {
		return nil, 0, err
	}
	defer c.close()
	scratch, err := os.MkdirTemp(filepath.Dir(from), ".recover.*") // a link is within a file system
	if err != nil {
		return nil, 0, err
	}
	defer os.RemoveAll(scratch)
	if walLost, err = c.attachDamaged(ctx, from, filepath.Join(scratch, fileName)); err != nil {
		return nil, 0, fmt.Errorf("nothing can be read: %w", err)
	}
	tables, err := c.tables(ctx, "'damaged'")
	for _, t := range tables {
		if err != nil {
			break
		}
		var o transfer.Outcome
		o, err = c.salvageTable(ctx, t)
		outcomes = append(outcomes, o)
	}
	return outcomes, walLost, errors.Join(err, c.exec(ctx, "DETACH damaged"))
}

// attachDamaged attaches a file, through a link at path, with as much of its write-ahead log as can be read.
func (c *connection) attachDamaged(ctx context.Context, from, path string) (walLost int64, err error) {
	if err := os.Link(from, path); err != nil {
		return 0, err
	}
	wal, err := os.ReadFile(from + ".wal")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	for length := len(wal); ; {
		err := local.Replace(path+".wal", wal[:length], 0o600)
		if length == 0 {
			err = os.RemoveAll(path + ".wal")
		}
		if err == nil {
			err = c.exec(ctx, "ATTACH '"+strings.ReplaceAll(path, "'", "''")+"' AS damaged (READ_ONLY)")
		}
		if err == nil || length == 0 || ctx.Err() != nil {
			return int64(len(wal) - length), err
		}
		at := 0
		if found := corruptLog.FindStringSubmatch(err.Error()); found != nil {
			at, _ = strconv.Atoi(found[1])
		}
		length = min(at, length-1)
	}
}

// salvageTable copies what can be read of a table.
func (c *connection) salvageTable(ctx context.Context, t table) (o transfer.Outcome, err error) {
	o.Stream = t.String()
	for _, sql := range []string{"CREATE SCHEMA IF NOT EXISTS " + quoted(t.schema), "CREATE TABLE " + t.sql() + " AS FROM damaged." + t.sql() + " LIMIT 0"} {
		if err := c.exec(ctx, sql); err != nil {
			return o, err
		}
	}
	if o.Rows, err = c.number(ctx, "SELECT count(*) FROM damaged."+t.sql()); err != nil || o.Rows == 0 {
		return o, err
	}
	last, err := c.number(ctx, "SELECT max(rowid) FROM damaged."+t.sql())
	for at := int64(0); err == nil && at <= last; at += groupRows {
		err = c.salvage(ctx, t, at, groupRows)
	}
	if err == nil {
		o.Copied, err = c.number(ctx, "SELECT count(*) FROM "+t.sql())
	}
	return o, err
}

// salvage copies what can be read of a number of rows.
func (c *connection) salvage(ctx context.Context, t table, from, rows int64) error {
	sql := fmt.Sprintf("INSERT INTO %[1]s SELECT * FROM damaged.%[1]s WHERE rowid >= %[2]d AND rowid < %[3]d", t.sql(), from, from+rows)
	err := c.exec(ctx, sql)
	if err == nil || !corrupt.MatchString(err.Error()) {
		return err
	}
	if rows == vectorRows {
		return nil
	}
	part := max(vectorRows, rows/vectorRows/2*vectorRows)
	return errors.Join(c.salvage(ctx, t, from, part), c.salvage(ctx, t, from+part, rows-part))
}
