package duckdb

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
)

var (
	// corrupt is how DuckDB reports a block whose checksum is wrong, or that the file does not have, corruptLog a
	// write-ahead log.
	corrupt    = regexp.MustCompile(`(?:Corrupt database file.* in block at|Could not read enough bytes from file .* from) location (\d+)`)
	corruptLog = regexp.MustCompile(`Corrupt WAL file: entry at byte position (\d+)`)
	// unopened is how it reports files that it cannot open because they are damaged.
	unopened = regexp.MustCompile(`Corrupt|replaying WAL|not a valid DuckDB database|Serialization Error|[Cc]ould not read enough bytes`)
)

const (
	// advice says what to do about a damaged archive, access about one that cannot be opened for another reason.
	advice = "lost: the rows that cannot be read; restore a backup, or save the others with pillion-server archive recover (docs/howto/recover.md)"
	access = "nothing is lost if it can be made readable: check its owner, permissions and disk, or restore a backup (docs/howto/recover.md)"
)

// denied is how DuckDB reports that the system does not let it read a file.
var denied = regexp.MustCompile(`Permission denied|Input/output error|Is a directory`)

const (
	// Blocks of DuckDB's files follow three headers.
	blocksAt  = 3 * 4096
	blockSize = 256 << 10
)

// damaged notes a damaged block, for Check, and names the table that has it. It returns nil if that is
// not what the error is about. The caller has entered.
func (a *Archive) damaged(err error) error {
	found := corrupt.FindStringSubmatch(err.Error())
	if found == nil {
		return nil
	}
	where := "a table that cannot be named"
	location, _ := strconv.ParseInt(found[1], 10, 64)
	if c, failed := connect(a.db); failed == nil {
		if name := c.ownerOf(a.live, (location-blocksAt)/blockSize); name != "" {
			where = name
		}
		c.close()
	}
	err = fmt.Errorf("%w: stream %s: %w; %s", archive.ErrDamaged, where, err, advice)
	a.damage.CompareAndSwap(nil, &err)
	return err
}

// ownerOf returns the table with a block; "" if none has it.
func (c *connection) ownerOf(ctx context.Context, block int64) (owner string) {
	tables, err := c.tables(ctx, "current_database()")
	for _, t := range tables {
		if err == nil && owner == "" {
			sql := "SELECT count(*) FROM pragma_storage_info('" + strings.ReplaceAll(t.sql(), "'", "''") + "') WHERE block_id = ? OR list_contains(additional_block_ids, ?)"
			if n, failed := c.number(ctx, sql, block, block); failed == nil && n > 0 {
				owner = t.String()
			}
		}
	}
	return owner
}

// table is a table of a database: a stream is in the schema main, the archive's own are in pillion.
type table struct{ schema, name string }

func (t table) sql() string { return quoted(t.schema) + "." + quoted(t.name) }

// String is the name of the stream, or of the archive's own table.
func (t table) String() string {
	if t.schema == "main" {
		return t.name
	}
	return t.schema + "." + t.name
}

// tables lists the tables of a database, which is an SQL expression.
func (c *connection) tables(ctx context.Context, database string) (tables []table, err error) {
	err = c.query(ctx, "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = "+database+" ORDER BY ALL", nil,
		answer.Each(func(r answer.Row) { tables = append(tables, table{strings.Clone(r.Text(0)), strings.Clone(r.Text(1))}) }))
	return tables, err
}
