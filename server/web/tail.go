package web

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"connectrpc.com/connect"

	"pillion.dev/api/pillionv1"
	"pillion.dev/archive"
	"pillion.dev/measure"
)

// tailBuffer is how many batches a client may lag behind.
const tailBuffer = 256

var errStopping = connect.NewError(connect.CodeUnavailable, errors.New("the server is stopping"))

// tail is one client that follows live rows.
type tail struct {
	request *pillionv1.TailRequest
	scope   *archive.Scope
	// sent are the columns last sent, by stream.
	sent   map[string][]measure.Field
	missed func() uint64
	send   func(*pillionv1.TailResponse) error
}

// Tail sends rows as they are stored, until the client disconnects.
func (d *data) Tail(ctx context.Context, request *pillionv1.TailRequest, to *connect.ServerStream[pillionv1.TailResponse]) error {
	for _, name := range append([]string{"all"}, request.GetStreams()...) {
		if err := checkNames(name, request.GetColumns(), request.GetWhere()); err != nil {
			return err
		}
	}
	release, err := d.tails.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	subscription := d.live.Subscribe(request.GetStreams(), tailBuffer)
	defer subscription.Close()
	t := &tail{request: request, scope: scopeOf(ctx), sent: map[string][]measure.Field{}, missed: subscription.Missed, send: to.Send}
	// An empty message first, so that the client knows that the tail has started.
	if err := to.Send(&pillionv1.TailResponse{}); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.stopping:
			return errStopping
		case batch, open := <-subscription.Batches():
			if !open {
				return errStopping
			}
			err := t.write(batch)
			batch.Record.Release()
			if err != nil {
				return err
			}
		}
	}
}

// write sends the requested rows of a batch.
func (t *tail) write(batch archive.Batch) error {
	rows := int(batch.Record.NumRows())
	fields, columns := tailColumns(batch)
	keep, possible := t.filter(batch.Schema, fields, columns)
	if !possible {
		return nil
	}
	if chosen := t.request.GetColumns(); len(chosen) > 0 {
		fields, columns = choose(chosen, fields, columns)
	}
	return packRows(columns, rows, keep, func(piece []*pillionv1.Row) error {
		message := &pillionv1.TailResponse{Stream: batch.Stream, Rows: piece, Missed: t.missed()}
		if last, known := t.sent[batch.Stream]; !known || !slices.Equal(last, fields) {
			message.Columns = fieldMessages(fields)
			t.sent[batch.Stream] = fields
		}
		return t.send(message)
	})
}

// tailColumns are the columns of a batch as in the archive.
func tailColumns(batch archive.Batch) ([]measure.Field, []cells) {
	fields, columns := []measure.Field{agentField}, []cells{agentCells(batch)}
	for j, field := range batch.Schema.Fields {
		if field.Name != archive.AgentColumn {
			fields, columns = append(fields, field), append(columns, cellsOf(batch.Record.Column(j)))
		}
	}
	return fields, columns
}

// agentCells is a constant column. It uses the first column, the time, for its length:
// that is never null.
func agentCells(batch archive.Batch) cells {
	return cells{batch.Record.Column(0), func(int) *pillionv1.Value {
		return &pillionv1.Value{Kind: &pillionv1.Value_Text{Text: batch.Agent}}
	}, func(to []byte, _ int) []byte { return append(to, batch.Agent...) }, true}
}

// filter returns a predicate for rows in the scope; possible is false if the stream lacks a column.
func (t *tail) filter(schema *measure.Schema, fields []measure.Field, columns []cells) (keep func(int) bool, possible bool) {
	var tests []func(int) bool
	var scratch []byte
	if t.scope != nil {
		owners := archive.OwnershipOf(schema)
		tests = append(tests, func(i int) bool {
			return t.scope.Owns(owners, func(column string) string {
				j := slices.IndexFunc(fields, func(f measure.Field) bool { return f.Name == column })
				if j < 0 || columns[j].IsNull(i) {
					return ""
				}
				return string(columns[j].text(nil, i))
			})
		})
	}
	for name, want := range t.request.GetWhere() {
		j := slices.IndexFunc(fields, func(f measure.Field) bool { return f.Name == name })
		if j < 0 {
			return nil, false
		}
		column, wanted := columns[j], []byte(want)
		tests = append(tests, func(i int) bool {
			if column.IsNull(i) {
				return false
			}
			scratch = column.text(scratch[:0], i)
			return bytes.Equal(scratch, wanted)
		})
	}
	return func(i int) bool {
		for _, passes := range tests {
			if !passes(i) {
				return false
			}
		}
		return true
	}, true
}

// choose selects columns by name, in the requested order, without those that the stream
// lacks.
func choose(names []string, fields []measure.Field, columns []cells) ([]measure.Field, []cells) {
	var chosen []measure.Field
	var kept []cells
	for _, name := range names {
		if j := slices.IndexFunc(fields, func(f measure.Field) bool { return f.Name == name }); j >= 0 {
			chosen, kept = append(chosen, fields[j]), append(kept, columns[j])
		}
	}
	return chosen, kept
}
