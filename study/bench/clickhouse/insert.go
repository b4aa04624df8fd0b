package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/archive/clickhouse"
	"pillion.dev/measure"
	"pillion.dev/study/bench/result"
)

// ways to store a minute of the mesh, which is one block of either.
var ways = map[string]func(ctx context.Context, s *server, blocks int) (time.Duration, error){"archive": insertByArchive, "plain": insertPlain}

func insertCommand(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	way := f.String("way", "archive", "archive: as a pillion-server stores; plain: blocks of the driver's columns, prepared before, into a table of the same columns")
	blocks := f.Int("blocks", 20, "blocks of 69,360 rows; one more is stored before")
	return func(ctx context.Context) (out result.Result, err error) {
		insert, ok := ways[*way]
		if !ok {
			return nil, fmt.Errorf("invalid -way %q: want archive or plain", *way)
		}
		if *blocks < 1 {
			return nil, fmt.Errorf("invalid -blocks %d: want a positive number", *blocks)
		}
		err = with(ctx, "", func(s *server) error {
			took, err := insert(ctx, s, *blocks)
			rows := *blocks * hosts * batchRows
			out = result.Result{"rows": rows, "rows_per_s": float64(rows) / took.Seconds()}
			return err
		})
		return out, err
	}
}

func insertByArchive(ctx context.Context, s *server, blocks int) (took time.Duration, err error) {
	a, err := s.open(clickhouse.Options{})
	if err != nil {
		return 0, err
	}
	defer a.Close()
	mesh := newBatches()
	for i := range blocks + 1 {
		begun := time.Now()
		if err := storeMinute(ctx, a, mesh, uint64(i), epoch.Add(time.Duration(i)*batchSeconds*time.Second)); err != nil {
			return 0, err
		}
		if i > 0 {
			took += time.Since(begun)
		}
	}
	return took, nil
}

func insertPlain(ctx context.Context, s *server, blocks int) (took time.Duration, err error) {
	c, err := driver.Open(&driver.Options{
		Addr: []string{s.Cluster.Shards[0][0].Address.String()}, Compression: &driver.Compression{Method: driver.CompressionLZ4},
		Settings: driver.Settings{"allow_experimental_low_cardinality_type": 1},
	})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if err := c.Exec(ctx, createPlain()); err != nil {
		return 0, fmt.Errorf("create table: %w", err)
	}
	mesh := newBatches()
	for i := range blocks + 1 {
		block := newBlock(mesh, epoch.Add(time.Duration(i)*batchSeconds*time.Second))
		begun := time.Now()
		if err := block.insert(ctx, c); err != nil {
			return 0, fmt.Errorf("insert block %d: %w", i, err)
		}
		if i > 0 {
			took += time.Since(begun)
		}
	}
	return took, nil
}

// createPlain makes a table with the columns of flows, of the types and in the order that the archive's has them.
func createPlain() string {
	columns := []string{"agent LowCardinality(String)"}
	for _, f := range measure.Flows.Fields {
		kind := map[measure.Type]string{
			measure.Time: "Int64", measure.String: "LowCardinality(Nullable(String))", measure.Uint32: "Nullable(UInt32)", measure.Int64: "Nullable(Int64)",
			measure.Uint64: "Nullable(UInt64)", measure.Int64List: "Array(Int64)", measure.Uint64List: "Array(UInt64)",
		}[f.Type]
		columns = append(columns, f.Name+" "+kind)
	}
	return "CREATE TABLE plain (" + strings.Join(columns, ", ") + ") ENGINE = MergeTree ORDER BY (intDiv(time, 3600000000000), agent, ifNull(source, ''), time)"
}

// block has the values of a minute by column, as the driver takes them.
type block struct{ columns []any }

func newBlock(mesh *batches, begin time.Time) *block {
	b := &block{}
	var agents []string
	records := make([]arrow.RecordBatch, hosts)
	for i := range records {
		records[i] = mesh.at(i, begin)
		defer records[i].Release()
		for range batchRows {
			agents = append(agents, host(i))
		}
	}
	b.columns = append(b.columns, agents)
	for i, f := range measure.Flows.Fields {
		b.columns = append(b.columns, valuesOf(f.Type, i, records))
	}
	return b
}

// valuesOf a column of all records.
func valuesOf(t measure.Type, column int, records []arrow.RecordBatch) any {
	switch t {
	case measure.Time:
		return gather(records, column, func(c *array.Timestamp, i int) int64 { return int64(c.Value(i)) })
	case measure.String:
		texts := map[string]*string{}
		return gather(records, column, func(c *array.String, i int) *string {
			if texts[c.Value(i)] == nil {
				text := strings.Clone(c.Value(i))
				texts[text] = &text
			}
			return texts[c.Value(i)]
		})
	case measure.Uint32:
		return gather(records, column, func(c *array.Uint32, i int) *uint32 { return pointer(c.Value(i)) })
	case measure.Int64:
		return gather(records, column, func(c *array.Int64, i int) *int64 { return pointer(c.Value(i)) })
	case measure.Uint64:
		return gather(records, column, func(c *array.Uint64, i int) *uint64 { return pointer(c.Value(i)) })
	case measure.Int64List:
		return gather(records, column, func(c *array.List, i int) []int64 {
			from, to := c.ValueOffsets(i)
			return append([]int64(nil), c.ListValues().(*array.Int64).Values()[from:to]...)
		})
	}
	return gather(records, column, func(c *array.List, i int) []uint64 {
		from, to := c.ValueOffsets(i)
		return append([]uint64(nil), c.ListValues().(*array.Uint64).Values()[from:to]...)
	})
}

func pointer[T any](v T) *T { return &v }

func gather[C, V any](records []arrow.RecordBatch, column int, value func(c C, i int) V) (all []V) {
	for _, r := range records {
		c := r.Column(column).(C)
		for i := range int(r.NumRows()) {
			all = append(all, value(c, i))
		}
	}
	return all
}

func (b *block) insert(ctx context.Context, c driver.Conn) error {
	names := []string{"agent"}
	for _, f := range measure.Flows.Fields {
		names = append(names, f.Name)
	}
	batch, err := c.PrepareBatch(ctx, "INSERT INTO plain ("+strings.Join(names, ", ")+") VALUES")
	if err != nil {
		return err
	}
	for i, values := range b.columns {
		if err := batch.Column(i).Append(values); err != nil {
			return fmt.Errorf("column %s: %w", names[i], err)
		}
	}
	return batch.Send()
}
