package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
)

// copied are the tables whose rows are copied, with the columns that are times in ns, and the
// condition of the rows of the first hour that was measured.
var copied = []struct {
	table, times, condition string
}{
	{"flows", "time", "time > %d AND time <= %d"},
	{"_flows_1m", "time begun ended", "time >= %d AND time < %d"},
	{"_flows_1h", "time begun ended", "time >= %d AND time < %d"},
}

// copyHours copies the rows and roll-ups of the hour that begins at a time into each of the hours
// before it: the same figures, in a fraction of the time that a server takes for them. What a longer
// window than an hour has is forgotten, to be added up of the copies.
func copyHours(ctx context.Context, s *server, begin time.Time, hours int) error {
	options, err := driver.ParseDSN(s.Cluster.URL(database) + "?read_timeout=10m")
	if err != nil {
		return err
	}
	connection, err := driver.Open(options)
	if err != nil {
		return err
	}
	defer connection.Close()
	for _, c := range copied {
		columns, err := columnsOf(ctx, connection, c.table)
		if err != nil {
			return fmt.Errorf("read columns of %s: %w", c.table, err)
		}
		where := fmt.Sprintf(c.condition, begin.UnixNano(), begin.Add(time.Hour).UnixNano())
		for i := 1; i <= hours; i++ {
			sql := fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s WHERE %s", c.table, strings.Join(columns, ", "), strings.Join(earlier(columns, c.times, i), ", "), c.table, where)
			if err := connection.Exec(ctx, sql); err != nil {
				return fmt.Errorf("copy hour of %s: %w", c.table, err)
			}
			fmt.Fprintf(os.Stderr, "copied %d of %d hours of %s\n", i, hours, c.table)
		}
	}
	return forget(ctx, connection, "flows_6h")
}

// forget empties a level and removes its marks.
func forget(ctx context.Context, connection driver.Conn, level string) error {
	for _, sql := range []string{"TRUNCATE TABLE _" + level, "ALTER TABLE _marks DELETE WHERE level = '" + level + "'"} {
		if err := connection.Exec(ctx, sql); err != nil {
			return fmt.Errorf("forget %s: %w", level, err)
		}
	}
	for left := uint64(1); left > 0; {
		err := connection.QueryRow(ctx, "SELECT count() FROM _marks WHERE level = '"+level+"'").Scan(&left)
		if err != nil {
			return fmt.Errorf("read marks of %s: %w", level, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

func columnsOf(ctx context.Context, connection driver.Conn, table string) (list []string, err error) {
	err = connection.QueryRow(ctx, "SELECT groupArray(concat('`', name, '`')) FROM system.columns WHERE database = currentDatabase() AND table = '"+table+"'").Scan(&list)
	return list, err
}

// earlier are columns with their times some hours earlier.
func earlier(columns []string, times string, hours int) []string {
	list := make([]string, len(columns))
	for i, name := range columns {
		switch {
		case strings.Contains(" "+times+" ", " "+strings.Trim(name, "`")+" "):
			list[i] = fmt.Sprintf("%s - %d", name, int64(hours)*int64(time.Hour))
		case name == "`_stored`":
			list[i] = fmt.Sprintf("%s - %d", name, int64(hours)*3600)
		default:
			list[i] = name
		}
	}
	return list
}
