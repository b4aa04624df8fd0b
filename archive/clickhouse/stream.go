package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure"
)

// Streams lists all streams, including streams of other servers.
func (a *Archive) Streams(ctx context.Context) ([]archive.Stream, error) {
	if err := errors.Join(a.reload(ctx), a.syncRetention(ctx)); err != nil {
		return nil, err
	}
	a.mutex.Lock()
	schemas, retention := maps.Clone(a.catalog.Schemas), maps.Clone(a.retention)
	a.mutex.Unlock()
	var list []archive.Stream
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		s := archive.Stream{Schema: schemas[name], Retention: retention[name]}
		if err := a.measureExtent(ctx, &s, name); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// RollUps implements archive.RolledUp.
func (a *Archive) RollUps(ctx context.Context) ([]archive.Stream, error) {
	if a.options.RollUp < 0 {
		return nil, nil
	}
	if err := errors.Join(a.reload(ctx), a.syncRetention(ctx)); err != nil {
		return nil, err
	}
	a.mutex.Lock()
	schemas := maps.Clone(a.catalog.Schemas)
	a.mutex.Unlock()
	var list []archive.Stream
	for _, l := range levels {
		if schemas[l.shown] != nil { // a stream of an agent, see showViews
			continue
		}
		s := archive.Stream{Schema: l.schema(), Retention: archive.Retention{Age: a.retentionOf(l)}}
		if s.Retention.Age == unlimitedAge {
			s.Retention.Age = 0
		}
		if schemas[measure.Flows.Name] != nil { // else there is no table yet
			if err := a.measureExtent(ctx, &s, l.name); err != nil {
				return nil, err
			}
		}
		list = append(list, s)
	}
	return list, nil
}

// measureExtent counts the rows of a table, and reads the times of the first and the last.
func (a *Archive) measureExtent(ctx context.Context, s *archive.Stream, table string) error {
	err := a.query(ctx, "SELECT toInt64(count()), min(time), max(time) FROM "+a.table(table), func(scan func(...any) error) error {
		var first, last int64
		if err := scan(&s.Rows, &first, &last); err != nil {
			return err
		}
		if s.Rows > 0 {
			s.First, s.Last = time.Unix(0, first).UTC(), time.Unix(0, last).UTC()
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list stream %q: %w", s.Schema.Name, err)
	}
	return nil
}
