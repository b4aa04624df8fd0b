package clickhouse

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"pillion.dev/archive"
)

// Streams lists all streams, with those of other servers.
func (a *Archive) Streams(ctx context.Context) ([]archive.Stream, error) {
	if err := a.reload(ctx); err != nil {
		return nil, err
	}
	a.mutex.Lock()
	schemas, retention := maps.Clone(a.catalog.Schemas), maps.Clone(a.retention)
	a.mutex.Unlock()
	var list []archive.Stream
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		s := archive.Stream{Schema: schemas[name], Retention: retention[name]}
		err := a.query(ctx, "SELECT toInt64(count()), min(time), max(time) FROM "+a.table(name), func(scan func(...any) error) error {
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
			return nil, fmt.Errorf("list stream %q: %w", name, err)
		}
		list = append(list, s)
	}
	return list, nil
}
