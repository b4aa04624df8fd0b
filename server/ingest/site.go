package ingest

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/bus"
	"pillion.dev/measure"
)

// relayed returns the record of an aggregator's batch with sources as agents of the site: SITE/AGENT.
// It releases the record. Aggregators send rows of flows only.
func relayed(site string, schema *measure.Schema, record arrow.RecordBatch) (arrow.RecordBatch, error) {
	defer record.Release()
	at := schema.Index("source")
	if schema.Name != measure.Flows.Name || at < 0 {
		return nil, fmt.Errorf("%w: aggregators send rows of %s for others, not of %q", bus.ErrRejected, measure.Flows.Name, schema.Name)
	}
	sources, ok := record.Column(at).(*array.String)
	if !ok {
		return nil, fmt.Errorf("%w: sources of type %s", measure.ErrBatch, record.Column(at).DataType())
	}
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	for i := range sources.Len() {
		switch source := sources.Value(i); {
		case sources.IsNull(i):
			b.AppendNull()
		case source == "":
			b.Append("")
		default:
			b.Append(site + "/" + source)
		}
	}
	named := b.NewArray()
	defer named.Release()
	columns := append([]arrow.Array{}, record.Columns()...)
	columns[at] = named
	return array.NewRecordBatch(record.Schema(), columns, record.NumRows()), nil
}
