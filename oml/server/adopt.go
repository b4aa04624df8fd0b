package server

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/archive"
	"pillion.dev/bus"
	"pillion.dev/measure"
	"pillion.dev/oml/omsp/relay"
)

// Adopt converts a batch that an agent relayed: it is assigned to the stream of its
// table, and its times are made relative to the start of its domain. The agent column
// is unchanged. A retransmitted batch gets the same key.
//
// An error that is bus.ErrRejected is permanent: the batch is invalid, or the limit of
// tables is reached. Any other error is temporary.
func (k *Backend) Adopt(b archive.Batch) (archive.Batch, error) {
	target, constants, shift, err := k.target("agent "+b.Agent, b.Schema)
	if err == nil {
		b, err = reshape(b, target, constants, shift)
	}
	var disk syscall.Errno
	if err != nil && !errors.As(err, &disk) && !errors.Is(err, errSave) {
		err = fmt.Errorf("%w: %w", bus.ErrRejected, err)
	}
	return b, err
}

// target returns the stream for tuples of a relayed stream, the values of columns that
// the relayed stream lacks, and the offset to add to times, s.
func (k *Backend) target(source string, from *measure.Schema) (to *measure.Schema, constants map[string]string, shift float64, err error) {
	if from.Name == relay.Connections.Name {
		return &Connections, nil, 0, nil
	}
	origin, err := relay.OriginOf(from)
	if err != nil {
		return nil, nil, 0, err
	}
	start, err := k.begin(source, origin.Domain, origin.Start)
	if err != nil {
		return nil, nil, 0, err
	}
	shift = float64(origin.Start - start)
	if origin.IsMetadata() {
		return &Metadata, map[string]string{"domain": origin.Domain}, shift, nil
	}
	origin.Table.Index = 1 // 0 is metadata
	t, err := k.table(source, origin.Domain, origin.Table)
	return t.Schema, nil, shift, err
}

// sources maps columns to their names in the relayed stream where these differ.
var sources = map[string]string{"sender": "oml_sender"}

// shifted columns are times relative to the domain's start.
var shifted = map[string]bool{"oml_ts_client": true, "oml_ts_server": true}

// reshape selects the columns of the target from a batch by name. Missing ones are null.
func reshape(b archive.Batch, target *measure.Schema, constants map[string]string, shift float64) (archive.Batch, error) {
	rows := int(b.Record.NumRows())
	columns := make([]arrow.Array, 0, len(target.Fields))
	defer func() {
		for _, column := range columns {
			column.Release()
		}
	}()
	for _, f := range target.Fields {
		from := b.Schema.Index(f.Name)
		if from < 0 && sources[f.Name] != "" {
			from = b.Schema.Index(sources[f.Name])
		}
		text, constant := constants[f.Name]
		switch {
		case constant:
			columns = append(columns, repeated(text, rows))
		case from < 0:
			columns = append(columns, array.MakeArrayOfNull(memory.DefaultAllocator, measure.ArrowType(f.Type), rows))
		case b.Schema.Fields[from].Type != f.Type:
			return b, fmt.Errorf("%w: column %s is %v, want %v", relay.ErrOrigin, f.Name, b.Schema.Fields[from].Type, f.Type)
		case shifted[f.Name] && shift != 0:
			columns = append(columns, moved(b.Record.Column(from).(*array.Float64), shift))
		default:
			column := b.Record.Column(from)
			column.Retain()
			columns = append(columns, column)
		}
	}
	b.Epoch = epochOf(b.Key)
	b.Stream, b.Schema = target.Name, target
	before := b.Record
	b.Record = array.NewRecordBatch(target.Arrow(), columns, int64(rows))
	before.Release()
	return b, nil
}

// epochOf distinguishes the sequences of several relayed streams that become one stream.
func epochOf(key measure.Key) uint64 {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64([]byte(key.Stream), key.Epoch))
	return binary.LittleEndian.Uint64(sum[:])
}

func repeated(text string, rows int) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	for range rows {
		b.Append(text)
	}
	return b.NewArray()
}

func moved(column *array.Float64, shift float64) arrow.Array {
	b := array.NewFloat64Builder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(column.Len())
	for i := range column.Len() {
		if column.IsNull(i) {
			b.AppendNull()
		} else {
			b.Append(column.Value(i) + shift)
		}
	}
	return b.NewArray()
}
