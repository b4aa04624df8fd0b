// Package sqlite writes tuples of instrumented applications to an SQLite file with the
// layout of OML's server, so that scripts written for such files work. It is an export
// format, not an archive: it does not implement archive.Archive.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	_ "modernc.org/sqlite" // the driver

	"pillion.dev/oml/omsp"
)

// types are OML's types in SQLite.
var types = map[omsp.Type]string{
	omsp.Int32: "INTEGER", omsp.Uint32: "UNSIGNED INTEGER", omsp.Int64: "BIGINT", omsp.Uint64: "UNSIGNED BIGINT",
	omsp.Double: "REAL", omsp.String: "TEXT", omsp.Blob: "BLOB", omsp.GUID: "UNSIGNED BIGINT", omsp.Bool: "INTEGER",
}

// ownColumns precede the fields of each table.
const ownColumns = "oml_tuple_id INTEGER PRIMARY KEY, oml_sender_id INTEGER, oml_seq INTEGER, oml_ts_client REAL, oml_ts_server REAL"

// File is a database that is being written.
type File struct {
	// Metadata is the table of metadata.
	Metadata *Table
	// Negative counts unsigned values that SQLite stores as negative numbers.
	Negative int64

	ctx     context.Context
	db      *sql.DB
	tx      *sql.Tx
	senders map[string]int64
	tables  map[string]bool // names in lower case: SQLite ignores case
}

// Create fills an empty file with the tables that every database has. start is the start
// time of the domain, seconds since 1970.
func Create(ctx context.Context, path string, start int64) (_ *File, err error) {
	// The caller renames the file once it is complete: it needs no journal.
	location := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: "_pragma=journal_mode(off)&_pragma=synchronous(off)"}
	f := &File{ctx: ctx, senders: map[string]int64{}, tables: map[string]bool{"_senders": true}}
	if f.db, err = sql.Open("sqlite", location.String()); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	f.db.SetMaxOpenConns(1)
	if f.tx, err = f.db.BeginTx(ctx, nil); err == nil {
		err = f.execute("CREATE TABLE _senders (name TEXT PRIMARY KEY, id INTEGER UNIQUE)")
	}
	if err == nil {
		f.Metadata, err = f.Table(omsp.Metadata)
	}
	if err == nil {
		err = f.know("start_time", strconv.FormatInt(start, 10))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(false))
	}
	return f, nil
}

func (f *File) execute(statement string, values ...any) error {
	if _, err := f.tx.ExecContext(f.ctx, statement, values...); err != nil {
		return fmt.Errorf("write database: %w", err)
	}
	return nil
}

// know adds metadata of OML's server itself.
func (f *File) know(key, value string) error {
	return f.execute("INSERT INTO _experiment_metadata (key, value) VALUES (?, ?)", key, value)
}

// Close completes the file, or abandons it if it is not whole.
func (f *File) Close(whole bool) error {
	var err error
	switch {
	case f.tx == nil:
	case whole:
		err = f.tx.Commit()
	default:
		f.tx.Rollback()
	}
	return errors.Join(err, f.db.Close())
}

// Table inserts rows into a table.
type Table struct {
	file       *File
	insert     *sql.Stmt
	fieldTypes []omsp.Type
	values     []any
}

// Table creates a table. Names that SQLite considers equal to another get a number.
func (f *File) Table(s omsp.Schema) (*Table, error) {
	s.Name = fresh(s.Name, f.tables)
	columns := map[string]bool{"oml_tuple_id": true, "oml_sender_id": true, "oml_seq": true, "oml_ts_client": true, "oml_ts_server": true}
	create := `CREATE TABLE "` + s.Name + `" (` + ownColumns
	r := &Table{file: f, values: make([]any, 4+len(s.Fields))}
	for _, field := range s.Fields {
		kind := types[field.Type]
		if field.Type.IsVector() {
			kind = "TEXT" // as JSON
		}
		create += `, "` + fresh(field.Name, columns) + `" ` + kind
		r.fieldTypes = append(r.fieldTypes, field.Type)
	}
	if err := f.execute(create + ")"); err != nil {
		return nil, err
	}
	if s.Index = len(f.tables) - 2; s.Name == omsp.MetadataName {
		s.Index = 0
	}
	if err := f.know("table_"+s.Name, s.String()); err != nil {
		return nil, err
	}
	var err error
	r.insert, err = f.tx.PrepareContext(f.ctx, `INSERT INTO "`+s.Name+`" VALUES (NULL`+strings.Repeat(", ?", len(r.values))+")")
	if err != nil {
		return nil, fmt.Errorf("write database: %w", err)
	}
	return r, nil
}

// fresh returns a name that is not used in upper or lower case, and marks it as used.
func fresh(name string, used map[string]bool) string {
	if strings.HasPrefix(strings.ToLower(name), "sqlite_") {
		name = "_" + name // a reserved prefix
	}
	for n, plain := 2, name; used[strings.ToLower(name)]; n++ {
		name = fmt.Sprintf("%s_%d", plain, n)
	}
	used[strings.ToLower(name)] = true
	return name
}

// sender returns the number of a sender.
func (f *File) sender(name string) (int64, error) {
	if id, known := f.senders[name]; known {
		return id, nil
	}
	name = strings.Clone(name)
	id := int64(len(f.senders) + 1)
	f.senders[name] = id
	return id, f.execute("INSERT INTO _senders (name, id) VALUES (?, ?)", name, id)
}

// Add inserts a batch whose columns are the sender, sequence number, both times and fields.
func (r *Table) Add(batch arrow.RecordBatch) error {
	if int(batch.NumCols()) != len(r.values) {
		return fmt.Errorf("read rows: %d columns instead of %d", batch.NumCols(), len(r.values))
	}
	senders, ok := batch.Column(0).(*array.String)
	if !ok {
		return fmt.Errorf("read rows: column of senders has type %v", batch.Column(0).DataType())
	}
	for i := range int(batch.NumRows()) {
		id, err := r.file.sender(senders.Value(i))
		if err != nil {
			return err
		}
		r.values[0] = id
		for j := 1; j < len(r.values); j++ {
			t := omsp.Double
			if j > 3 {
				t = r.fieldTypes[j-4]
			}
			if r.values[j], err = r.value(t, batch.Column(j), i); err != nil {
				return err
			}
		}
		if _, err := r.insert.ExecContext(r.file.ctx, r.values...); err != nil {
			return fmt.Errorf("write database: %w", err)
		}
	}
	return nil
}

// value returns a value as OML's server stores it.
func (r *Table) value(t omsp.Type, column arrow.Array, i int) (any, error) {
	if column.IsNull(i) {
		return nil, nil
	}
	switch c := column.(type) {
	case *array.Int32:
		return int64(c.Value(i)), nil
	case *array.Uint32:
		return int64(c.Value(i)), nil
	case *array.Int64:
		return c.Value(i), nil
	case *array.Uint64:
		if c.Value(i) > math.MaxInt64 {
			r.file.Negative++
		}
		if t == omsp.GUID && c.Value(i) == 0 {
			return nil, nil // no guid
		}
		return int64(c.Value(i)), nil
	case *array.Float64:
		return c.Value(i), nil
	case *array.Boolean:
		return c.Value(i), nil
	case *array.Binary:
		return c.Value(i), nil
	case *array.String:
		if t.IsVector() {
			return spaced(strings.Split(strings.Trim(c.Value(i), "[]"), ", ")), nil
		}
		return c.Value(i), nil
	case *array.List:
		return vector(t, c, i)
	}
	return nil, fmt.Errorf("read rows: unsupported column type %v", column.DataType())
}

// vector writes a list as JSON.
func vector(t omsp.Type, list *array.List, i int) (any, error) {
	from, to := list.ValueOffsets(i)
	var words []string
	for k := int(from); k < int(to); k++ {
		switch c := list.ListValues().(type) {
		case *array.Int64:
			words = append(words, strconv.FormatInt(c.Value(k), 10))
		case *array.Uint64:
			if t == omsp.Bool|omsp.Vector {
				words = append(words, strconv.FormatBool(c.Value(k) != 0))
				continue
			}
			words = append(words, strconv.FormatUint(c.Value(k), 10))
		default:
			return nil, fmt.Errorf("read rows: unsupported list of %v", c.DataType())
		}
	}
	return spaced(words), nil
}

// spaced formats a JSON list with OML's spaces.
func spaced(words []string) string {
	if text := strings.Join(words, ", "); text != "" {
		return "[ " + text + " ]"
	}
	return "[ ]"
}
