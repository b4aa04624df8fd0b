package clickhouse

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"pillion.dev/archive"
	"pillion.dev/measure"
)

// viewsSuffix ends the name of the database that users' statements see. It has a view for
// each stream, without the archive's own columns.
const viewsSuffix = "_views"

// views is the name of the users' database.
func (l *location) views() string { return l.database + viewsSuffix }

// readerOf is the connection of a node by which it answers users' statements.
func (a *Archive) readerOf(ctx context.Context, n *node) (*node, error) {
	if err := a.showViews(ctx, n); err != nil {
		return nil, fmt.Errorf("create views: %w", err)
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.reader == nil {
		reader := *a.location
		reader.home = reader.views()
		if reader.reader != "" {
			reader.user, reader.password = reader.reader, reader.readerPassword
		}
		one, err := reader.node(n.address, n.shard)
		if err != nil {
			return nil, err
		}
		n.reader = one
	}
	return n.reader, nil
}

// showViews creates the views of a node.
func (a *Archive) showViews(ctx context.Context, n *node) error {
	f, err := n.identify(ctx)
	if err != nil {
		return err
	}
	a.mutex.Lock()
	schemas := make([]*measure.Schema, 0, len(a.catalog.Schemas))
	for _, s := range a.catalog.Schemas {
		schemas = append(schemas, s)
	}
	tables := map[string]string{} // of views that are not named after theirs
	if a.catalog.Schemas[measure.Flows.Name] != nil {
		for _, l := range levels {
			if a.catalog.Schemas[l.shown] == nil { // an agent may have such a stream
				schemas, tables[l.shown] = append(schemas, l.schema()), l.name
			}
		}
	}
	a.mutex.Unlock()
	n.viewing.Lock()
	defer n.viewing.Unlock()
	if n.viewed == nil {
		if err := n.exec(ctx, "CREATE DATABASE IF NOT EXISTS "+quoted(a.location.views())); err != nil {
			return err
		}
		n.viewed = map[string]string{}
	}
	schemas = slices.DeleteFunc(schemas, func(s *measure.Schema) bool { return n.viewed[s.Name] == shapeOf(s) })
	for _, s := range schemas {
		name := quoted(a.location.views()) + "." + quoted(s.Name)
		create := "CREATE OR REPLACE VIEW "
		if !f.replaceViews {
			create = "CREATE VIEW "
			if err := n.exec(ctx, "DROP TABLE IF EXISTS "+name); err != nil {
				return err
			}
		}
		if f.definers {
			name += " DEFINER = CURRENT_USER SQL SECURITY DEFINER"
		}
		err := n.exec(ctx, fmt.Sprintf("%s%s AS SELECT %s FROM %s", create, name, strings.Join(f.shown(s), ", "), a.table(cmp.Or(tables[s.Name], s.Name))))
		if err != nil && code(err) != codeTableExists { // another server has created it
			return err
		}
		n.viewed[s.Name] = shapeOf(s)
	}
	return nil
}

// shown are the columns of a stream's view. Where the server has the types, times and
// booleans have their own.
func (f *features) shown(s *measure.Schema) []string {
	list := []string{quoted(archive.AgentColumn)}
	for _, field := range s.Fields {
		name := quoted(field.Name)
		switch {
		case field.Type == measure.Time && f.timestamps:
			name = "fromUnixTimestamp64Nano(" + name + ", 'UTC') AS " + name
		case field.Type == measure.Bool && f.booleans:
			name = "CAST(" + name + " AS Nullable(Bool)) AS " + name
		}
		list = append(list, name)
	}
	return list
}
