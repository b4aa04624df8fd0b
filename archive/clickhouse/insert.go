package clickhouse

import (
	"context"
	"fmt"
	"strings"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/measure"
)

// block is one commit of one stream: it becomes one INSERT of one block, hence one part.
type block struct {
	schema              *measure.Schema // of the table
	batches             []*archive.Batch
	lane, commit, owner uint64
	at                  time.Time // of arrival
	// copied: the records have the agent, in their first column, and the time of arrival.
	copied bool
}

// token names the commit to the servers, which drop another insert of the same name.
func (b *block) token() string { return fmt.Sprintf("%d/%d", b.lane, b.commit) }

// insert sends the block to a node.
func (a *Archive) insert(ctx context.Context, n *node, b *block, query string) error {
	f, err := n.identify(ctx)
	if err != nil {
		return err
	}
	names := []string{quoted(archive.AgentColumn)}
	for _, one := range b.schema.Fields {
		names = append(names, quoted(one.Name))
		if isList(one.Type) {
			names = append(names, quoted(nullPrefix+one.Name))
		}
	}
	names = append(names, laneColumn, commitColumn, ownerColumn, epochColumn, sequenceColumn, oldestColumn, rowColumn, storedColumn)
	ctx = driver.Context(ctx, driver.WithQueryID(query), driver.WithSettings(f.insert(b.token(), a.quorum())))
	batch, err := n.PrepareBatch(ctx, fmt.Sprintf("INSERT INTO %s (%s) VALUES", a.local(b.schema.Name), strings.Join(names, ", ")))
	if err != nil {
		return err
	}
	columns := batch.Columns()
	fill := filler{texts: map[string]*string{}}
	for _, one := range b.batches {
		if err := fill.batch(columns, b, one); err != nil {
			_ = batch.Abort()
			return fmt.Errorf("encode batch of %q: %w", b.schema.Name, err)
		}
	}
	return batch.Send()
}

// batch appends the rows of a batch, in the order of the names of the insert.
func (f *filler) batch(columns []column.Interface, b *block, one *archive.Batch) error {
	rows := int(one.Record.NumRows())
	next := func() column.Interface {
		c := columns[0]
		columns = columns[1:]
		return c
	}
	if err := f.agents(next(), b, one, rows); err != nil {
		return err
	}
	for _, field := range b.schema.Fields {
		if field == archive.ArrivalField && !b.copied {
			if err := repeat(next(), b.at.UnixNano(), rows); err != nil {
				return err
			}
			continue
		}
		var from arrow.Array
		if i := one.Schema.Index(field.Name); i >= 0 {
			from = one.Record.Column(i)
			if one.Schema.Fields[i].Type != field.Type {
				from = measure.WidenColumn(from, field.Type)
				defer from.Release()
			}
		}
		var err error
		if to := next(); isList(field.Type) {
			err = f.lists(to, next(), from, rows)
		} else {
			err = f.fill(to, from, rows)
		}
		if err != nil {
			return fmt.Errorf("column %q: %w", field.Name, err)
		}
	}
	for _, value := range []uint64{b.lane, b.commit, b.owner, one.Epoch, one.Sequence, min(one.Oldest, one.Sequence)} {
		if err := repeat(next(), value, rows); err != nil {
			return err
		}
	}
	numbers := make([]uint32, rows)
	for i := range numbers {
		numbers[i] = uint32(i)
	}
	if _, err := next().Append(numbers); err != nil {
		return err
	}
	return repeat(next(), b.at, rows)
}

// agents appends the agents of the rows of a batch.
func (f *filler) agents(to column.Interface, b *block, one *archive.Batch, rows int) error {
	if b.copied {
		return f.fill(to, one.Record.Column(0), rows)
	}
	return repeat(to, f.text(one.Agent), rows)
}

// quorum is the number of replicas that must have a commit.
func (a *Archive) quorum() int {
	least := len(a.shards[0])
	for _, replicas := range a.shards {
		least = min(least, len(replicas))
	}
	if a.location.quorum > 0 {
		return min(a.location.quorum, least)
	}
	return min(2, least)
}
