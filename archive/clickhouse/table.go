package clickhouse

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"pillion.dev/archive"
	"pillion.dev/archive/ledger"
	"pillion.dev/measure"
)

// sqlTypes are the types of columns that can be null, lists excepted. Time is in nanoseconds
// since 1970: it holds every time that a sender can state, on all versions.
var sqlTypes = map[measure.Type]string{
	measure.Bool: "Nullable(UInt8)", measure.Int32: "Nullable(Int32)", measure.Uint32: "Nullable(UInt32)", measure.Int64: "Nullable(Int64)",
	measure.Uint64: "Nullable(UInt64)", measure.Float64: "Nullable(Float64)", measure.String: "Nullable(String)", measure.Binary: "Nullable(String)",
	measure.Time: "Nullable(Int64)", measure.Int64List: "Array(Int64)", measure.Uint64List: "Array(UInt64)",
}

// longTexts are columns of Pillion's own streams whose values are rarely repeated.
var longTexts = []string{"failures", "remarks", "request", "error", "message", "outcome", "path"}

// sqlType is the type of a stream's column.
func sqlType(stream string, f measure.Field) string {
	switch {
	case f.Name == measure.TimeField.Name, f == archive.ArrivalField:
		return "Int64"
	case f.Type == measure.String && measure.FindStandard(stream) != nil && !slices.Contains(longTexts, f.Name):
		return "LowCardinality(Nullable(String))"
	}
	return sqlTypes[f.Type]
}

// Columns of every stream's table besides its own.
const (
	laneColumn     = "_lane"
	commitColumn   = "_commit"
	ownerColumn    = "_owner"
	epochColumn    = "_epoch"
	sequenceColumn = "_sequence"
	oldestColumn   = "_oldest"
	rowColumn      = "_row"
	storedColumn   = "_stored"
	nullPrefix     = "_null_"
)

// tableColumn is one of a table.
type tableColumn struct{ name, kind string }

// columnsOf are the columns of a stream's table, in the order of their definition.
func (f *features) columnsOf(s *measure.Schema) []tableColumn {
	all := []tableColumn{{archive.AgentColumn, "LowCardinality(String)"}}
	for _, one := range s.Fields {
		all = append(all, f.columnsFor(s.Name, one)...)
	}
	for _, name := range []string{laneColumn, commitColumn, ownerColumn, epochColumn, sequenceColumn, oldestColumn} {
		all = append(all, tableColumn{name, "UInt64" + f.codec(measure.String)})
	}
	return append(all, tableColumn{rowColumn, "UInt32" + f.codec(measure.Time)}, tableColumn{storedColumn, "DateTime"})
}

// columnsFor are the columns that a field needs.
func (f *features) columnsFor(stream string, field measure.Field) []tableColumn {
	all := []tableColumn{{field.Name, sqlType(stream, field) + f.codec(field.Type)}}
	if isList(field.Type) {
		all = append(all, tableColumn{nullPrefix + field.Name, "UInt8"})
	}
	return all
}

func isList(t measure.Type) bool { return t == measure.Int64List || t == measure.Uint64List }

// byPair reports whether a stream's rows are asked for by source and agent.
func byPair(stream string) bool {
	return slices.Contains([]string{measure.Flows.Name, measure.Packets.Name}, stream)
}

// granules is the setting of tables whose rows are asked for by source and agent: the rows of
// one pair in an hour are in a few granules of this many. The default of 8192 makes one part
// after the other read as many wide rows.
const granules = "index_granularity = 1024"

// orderOf is the order of the rows of a stream in a part.
func orderOf(s *measure.Schema) string {
	if byPair(s.Name) {
		return "intDiv(time, 3600000000000), agent, ifNull(source, ''), time"
	}
	return "intDiv(time, 3600000000000), agent, time"
}

// quoted quotes a name for SQL.
func quoted(name string) string {
	return "`" + strings.NewReplacer("\\", "\\\\", "`", "\\`").Replace(name) + "`"
}

// literal is a text in SQL.
func literal(text string) string {
	return "'" + strings.NewReplacer("\\", "\\\\", "'", "\\'").Replace(text) + "'"
}

// table is the table from which a stream is read, over all shards.
func (a *Archive) table(stream string) string {
	return quoted(a.location.database) + "." + quoted(stream)
}

const localPrefix = "_local_"

// localName is the name of the table of a stream on a node.
func (a *Archive) localName(stream string) string {
	if a.replicated() {
		return localPrefix + stream
	}
	return stream
}

// local is the table of a stream on a node, into which its rows are inserted.
func (a *Archive) local(stream string) string {
	return quoted(a.location.database) + "." + quoted(a.localName(stream))
}

// own is one of the archive's own tables.
func (a *Archive) own(name string) string {
	return quoted(a.location.database) + "." + quoted(name)
}

// engine of a table; a table of all shards has the same rows on all nodes.
func (a *Archive) engine(n *node, kind, table string, all bool, arguments ...string) string {
	if !a.replicated() {
		return kind + "(" + strings.Join(arguments, ", ") + ")"
	}
	return "Replicated" + kind + "(" + strings.Join(append([]string{literal(a.path(n, table, all)), literal(n.address)}, arguments...), ", ") + ")"
}

// path of a table in the coordination service.
func (a *Archive) path(n *node, table string, all bool) string {
	shard := fmt.Sprintf("%d", n.shard+1)
	if all {
		shard = "all"
	}
	return strings.Join([]string{"/clickhouse/pillion", a.location.cluster, a.location.database, shard, table}, "/")
}

// The archive's own tables. _schemas and _shapes only grow: the schema of a stream is the
// widest of its rows, so that several servers can extend it at once.
const (
	schemasTable     = "_schemas"
	retentionTable   = "_retention"
	shapesTable      = "_shapes"
	checkpointsTable = "_checkpoints"
	lanesTable       = "_lanes"
	marksTable       = "_marks"
)

var ownTables = []struct{ name, columns, engine, version, order string }{
	{schemasTable, "stream String, revision UInt64, schema String", "MergeTree", "", "stream"},
	{retentionTable, "stream String, revision UInt64, age_ns Int64, rows Int64, bytes Int64", "ReplacingMergeTree", "revision", "stream"},
	{shapesTable, "agent String, stream String, columns Int64, revision UInt64", "MergeTree", "", "(agent, stream)"},
	{checkpointsTable, "lane UInt64, stream String, agent String, epoch UInt64, commit UInt64, next UInt64, extras Array(UInt64), " +
		"batches Int64, rows Int64, missing Int64, seen_ns Int64", "ReplacingMergeTree", "commit", "(lane, stream, agent, epoch)"},
	{lanesTable, "lane UInt64, owner UInt64", "ReplacingMergeTree", "owner", "lane"},
	{marksTable, "level String, lane UInt64, commit UInt64, stored_ns Int64, marked_ns Int64", "ReplacingMergeTree", "marked_ns", "(level, lane, intDiv(marked_ns, 3600000000000))"},
}

// found creates the database and the archive's own tables on a node.
func (a *Archive) found(ctx context.Context, n *node) error {
	f, err := n.identify(ctx)
	if err != nil {
		return err
	}
	if err := n.exec(ctx, "CREATE DATABASE IF NOT EXISTS "+quoted(a.location.database)); err != nil {
		return err
	}
	for _, t := range ownTables {
		var arguments []string
		if t.version != "" {
			arguments = append(arguments, t.version)
		}
		statement := fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (%s) ENGINE = %s ORDER BY %s%s",
			a.own(t.name), t.columns, a.engine(n, t.engine, t.name, true, arguments...), t.order, f.tableSettings(a.replicated()))
		if err := n.exec(ctx, statement); err != nil {
			return fmt.Errorf("create table %s: %w", t.name, err)
		}
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.founded = true
	return nil
}

// ensure creates on a node the archive's own tables and the tables of all known streams, some of which it may have
// missed while it did not answer.
func (a *Archive) ensure(ctx context.Context, n *node) error {
	n.mutex.Lock()
	founded := n.founded
	n.mutex.Unlock()
	if !founded {
		if err := a.found(ctx, n); err != nil {
			return err
		}
	}
	a.mutex.Lock()
	n.mutex.Lock()
	var missing []*measure.Schema
	for name, s := range a.catalog.Schemas {
		if n.shaped[name] != s {
			missing = append(missing, s)
		}
	}
	n.mutex.Unlock()
	a.mutex.Unlock()
	for _, s := range missing {
		if err := a.shape(ctx, n, s); err != nil {
			return fmt.Errorf("shape table of %q: %w", s.Name, err)
		}
	}
	return nil
}

// complete gives all nodes their tables after an insert that failed for want of replicas: one
// that lacks the table does not count for the quorum, and nothing else may be sent to it.
func (a *Archive) complete(ctx context.Context, failed error) (lacking bool) {
	if lacking = code(failed) == codeFewReplicas; lacking {
		_ = a.everywhere(ctx, a.ensure) // the next try shows whether they have them
	}
	return lacking
}

// shapeOf tells apart the tables of schemas.
func shapeOf(s *measure.Schema) string {
	var b strings.Builder
	for _, f := range s.Fields {
		fmt.Fprintf(&b, "%s %v,", f.Name, f.Type)
	}
	return b.String()
}

// shape creates the tables of a stream on a node, or adds and widens columns.
func (a *Archive) shape(ctx context.Context, n *node, s *measure.Schema) error {
	f, err := n.identify(ctx)
	if err != nil {
		return err
	}
	want := f.columnsOf(s)
	if err := a.shapeTable(ctx, n, a.localName(s.Name), want, a.createLocal(n, f, s)); err != nil {
		return err
	}
	if a.replicated() {
		if err := a.shapeTable(ctx, n, s.Name, want, a.createDistributed(s.Name)); err != nil {
			return err
		}
	}
	if s.Name == measure.Flows.Name {
		if err := a.shapeLevels(ctx, n, f); err != nil {
			return err
		}
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.shaped[s.Name] = s
	return nil
}

// createPause is between looks at a table that another server is creating on the same node.
const createPause = 50 * time.Millisecond

// shapeTable creates a table, or adds and widens columns. Another server, or another replica, may
// do the same at the same time, with other columns.
func (a *Archive) shapeTable(ctx context.Context, n *node, table string, want []tableColumn, create string) error {
	for {
		have, err := a.columns(ctx, n, table)
		if err != nil {
			return err
		}
		if len(have) > 0 {
			return alter(ctx, n, a.own(table), have, want)
		}
		if err := n.exec(ctx, create); err != nil && code(err) != codeTableExists {
			return err
		} else if err == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(createPause):
		}
	}
}

// createLocal is the statement that creates the table of a stream on a node.
func (a *Archive) createLocal(n *node, f *features, s *measure.Schema) string {
	var columns []string
	for _, c := range f.columnsOf(s) {
		columns = append(columns, quoted(c.name)+" "+c.kind)
	}
	var settings []string
	if byPair(s.Name) {
		settings = append(settings, granules)
	}
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (%s) ENGINE = %s PARTITION BY toYYYYMMDD(%s) ORDER BY (%s)%s", a.local(s.Name), strings.Join(columns, ", "),
		a.engine(n, "MergeTree", s.Name, false), storedColumn, orderOf(s), f.tableSettings(a.replicated(), settings...))
}

// createDistributed is the statement that creates the table of a stream over all shards.
func (a *Archive) createDistributed(stream string) string {
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s AS %s ENGINE = Distributed(%s, %s, %s)", a.table(stream), a.local(stream),
		quoted(a.location.cluster), quoted(a.location.database), quoted(a.localName(stream)))
}

// columns of a table on a node; none if there is no such table.
func (a *Archive) columns(ctx context.Context, n *node, table string) (map[string]string, error) {
	have := map[string]string{}
	err := n.query(ctx, fmt.Sprintf("SELECT name, type FROM system.columns WHERE database = %s AND table = %s", literal(a.location.database), literal(table)),
		func(scan func(...any) error) error {
			var name, kind string
			err := scan(&name, &kind)
			have[name] = kind
			return err
		})
	return have, err
}

// alter adds the columns that a table lacks and changes the types of others. Columns that
// the table has and the schema does not stay: another server has added them.
func alter(ctx context.Context, n *node, table string, have map[string]string, want []tableColumn) error {
	for _, c := range want {
		kind := have[c.name]
		verb := ""
		switch plain, _, _ := strings.Cut(c.kind, " CODEC"); {
		case kind == "":
			verb = "ADD"
		case kind != plain && wider(kind, plain):
			verb = "MODIFY"
		default:
			continue
		}
		err := n.exec(ctx, fmt.Sprintf("ALTER TABLE %s %s COLUMN %s %s", table, verb, quoted(c.name), c.kind))
		if err != nil && code(err) != codeColumnExists {
			return err
		}
	}
	return nil
}

// wider reports whether the second type of SQL holds all values of the first.
func wider(have, want string) bool {
	typeOf := func(text string) measure.Type {
		for _, t := range []measure.Type{measure.Int32, measure.Uint32, measure.Int64, measure.Uint64, measure.Float64} {
			if sqlTypes[t] == text {
				return t
			}
		}
		return 0
	}
	from, to := typeOf(have), typeOf(want)
	if from == 0 || to == 0 {
		return false
	}
	one := func(t measure.Type) *measure.Schema {
		return &measure.Schema{Name: "x", Fields: []measure.Field{measure.TimeField, {Name: "v", Type: t}}}
	}
	out, _, err := measure.Widen(one(from), one(to))
	return err == nil && out.Fields[1].Type == to
}

// reload reads the schemas of all streams.
func (a *Archive) reload(ctx context.Context) error {
	type revision struct {
		number uint64
		schema *measure.Schema
	}
	found := map[string][]revision{}
	err := a.query(ctx, "SELECT revision, schema FROM "+a.own(schemasTable)+" ORDER BY stream, revision, schema", func(scan func(...any) error) error {
		var number uint64
		var text string
		if err := scan(&number, &text); err != nil {
			return err
		}
		s := &measure.Schema{}
		if err := json.Unmarshal([]byte(text), s); err != nil {
			return fmt.Errorf("read schema: %w", err)
		}
		found[s.Name] = append(found[s.Name], revision{number, s})
		return nil
	})
	if err != nil {
		return fmt.Errorf("read schemas: %w", err)
	}
	schemas := map[string]*measure.Schema{}
	for name, all := range found {
		slices.SortStableFunc(all, func(a, b revision) int { return cmp.Compare(a.number, b.number) })
		for _, one := range all {
			if len(one.schema.Fields) == 0 { // dropped
				delete(schemas, name)
			} else if schemas[name] == nil {
				schemas[name] = one.schema
			} else if schemas[name], _, err = measure.Widen(schemas[name], one.schema); err != nil {
				return fmt.Errorf("read schemas: %w", err)
			}
		}
	}
	if !a.learn(schemas) {
		return nil
	}
	// The server that added them may not have created all tables yet.
	return a.everywhere(ctx, a.ensure)
}

// learn sets the schemas of all streams, and reports whether one is new.
func (a *Archive) learn(schemas map[string]*measure.Schema) (fresh bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for name, s := range schemas {
		// The same schema stays the same pointer, by which nodes know that they have it.
		if have := a.catalog.Schemas[name]; have != nil && have.Doc == s.Doc && slices.Equal(have.Fields, s.Fields) {
			schemas[name] = have
		} else {
			fresh = true
		}
	}
	a.catalog.Schemas = schemas
	return fresh
}

// extend makes the tables of a commit have its columns.
func (a *Archive) extend(ctx context.Context, c *ledger.Commit) error {
	if len(c.Schemas) == 0 && len(c.Shapes) == 0 {
		return nil
	}
	revision := uint64(time.Now().UnixNano())
	var err error
	if len(c.Schemas) > 0 {
		var rows [][]any
		for name, s := range c.Schemas {
			text, err := json.Marshal(s)
			if err != nil {
				return fmt.Errorf("encode schema of %q: %w", name, err)
			}
			rows = append(rows, []any{name, revision, string(text)})
		}
		err = a.write(ctx, schemasTable, []string{"stream", "revision", "schema"}, rows...)
	}
	if err == nil && len(c.Shapes) > 0 {
		var rows [][]any
		for agent, streams := range c.Shapes {
			for stream, n := range streams {
				rows = append(rows, []any{agent, stream, int64(n), revision})
			}
		}
		err = a.write(ctx, shapesTable, []string{"agent", "stream", "columns", "revision"}, rows...)
	}
	if err != nil {
		return fmt.Errorf("save schemas: %w", err)
	}
	a.mutex.Lock()
	for agent, streams := range c.Shapes {
		for stream, n := range streams {
			a.catalog.AddShape(agent, stream, n)
		}
	}
	a.mutex.Unlock()
	if err := a.reload(ctx); err != nil { // with what other servers added
		return err
	}
	return a.everywhere(ctx, a.ensure)
}

// loadShapes reads who created or extended streams.
func (a *Archive) loadShapes(ctx context.Context) error {
	found := ledger.NewCatalog()
	err := a.query(ctx, "SELECT agent, stream, columns FROM "+a.own(shapesTable), func(scan func(...any) error) error {
		var agent, stream string
		var n int64
		err := scan(&agent, &stream, &n)
		found.AddShape(agent, stream, int(n))
		return err
	})
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.catalog.Shapes = found.Shapes
	return err
}

// schema of a stream, which another server may have created.
func (a *Archive) schema(ctx context.Context, stream string) (*measure.Schema, error) {
	for range 2 {
		a.mutex.Lock()
		s := a.catalog.Schemas[stream]
		a.mutex.Unlock()
		if s != nil {
			return s, nil
		}
		if err := a.reload(ctx); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w %q", archive.ErrUnknown, stream)
}
