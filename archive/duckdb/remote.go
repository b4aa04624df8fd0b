package duckdb

/*
#include <stdint.h>
#include <stdlib.h>
extern void pillionRemoteBind(void *info);
extern void pillionRemoteInit(void *info);
extern void pillionRemoteRows(void *info, void *chunk);
extern void pillionRemoteEnd(void *scan);
*/
import "C"

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	duckdb "github.com/duckdb/duckdb-go-bindings"

	"pillion.dev/archive"
	"pillion.dev/measure"
)

// remoteFunction is the table function behind the view of a stream; its argument is the
// stream's place.
const remoteFunction = "stream_rows"

// noColumn is the first column of all streams, which the views leave out.
const noColumn = "pillion_no_column"

// scan is a request for the rows of a table of the server.
type scan struct {
	ID      uint32       `json:"id"`
	Stream  string       `json:"stream"`
	Columns []string     `json:"columns"` // none: only the number of rows
	Where   []comparison `json:"where,omitempty"`
}

// scans are the scans of the query that this process answers.
type scans struct {
	out     *frameWriter
	streams []remoteStream
	mutex   sync.Mutex
	open    map[uint32]*remoteScan
	last    uint32
	where   map[string][]comparison
}

// asked are the scans of this process: DuckDB's callbacks are C functions.
var asked *scans

func newScans(out *frameWriter) *scans {
	return &scans{out: out, open: map[uint32]*remoteScan{}, where: map[string][]comparison{}}
}

// remoteScan is one running scan.
type remoteScan struct {
	filler
	id      uint32
	frames  chan frame
	columns []int // of the chunk: the place in the record, or -1
	read    int   // number of columns that are read
	reader  *recordReader
	record  arrow.RecordBatch
	at      int
	count   uint64 // rows without columns
	done    bool
}

// register adds the table function.
func (s *scans) register(c *connection, streams []remoteStream) error {
	asked, s.streams = s, streams
	f := duckdb.CreateTableFunction()
	defer duckdb.DestroyTableFunction(&f)
	duckdb.TableFunctionSetName(f, remoteFunction)
	place := duckdb.CreateLogicalType(duckdb.TypeBigInt)
	defer duckdb.DestroyLogicalType(&place)
	duckdb.TableFunctionAddParameter(f, place)
	duckdb.TableFunctionSupportsProjectionPushdown(f, true)
	duckdb.TableFunctionSetBind(f, unsafe.Pointer(C.pillionRemoteBind))
	duckdb.TableFunctionSetInit(f, unsafe.Pointer(C.pillionRemoteInit))
	duckdb.TableFunctionSetFunction(f, unsafe.Pointer(C.pillionRemoteRows))
	if duckdb.RegisterTableFunction(c.raw, f) == duckdb.StateError {
		return errors.New("register table function: rejected by DuckDB")
	}
	return nil
}

// receive hands a frame to its scan, which has room for it.
func (s *scans) receive(f frame) {
	s.mutex.Lock()
	to := s.open[f.scan]
	s.mutex.Unlock()
	if to != nil {
		to.frames <- f
	}
}

//export pillionRemoteBind
func pillionRemoteBind(raw unsafe.Pointer) {
	info := duckdb.BindInfo{Ptr: raw}
	value := duckdb.BindGetParameter(info, 0)
	place := duckdb.GetInt64(value)
	duckdb.DestroyValue(&value)
	if place < 0 || place >= int64(len(asked.streams)) {
		duckdb.BindSetError(info, "no such stream")
		return
	}
	stream := &asked.streams[place]
	for _, column := range stream.Columns {
		t := logicalType(column.Type)
		duckdb.BindAddResultColumn(info, column.Name, t)
		duckdb.DestroyLogicalType(&t)
	}
	duckdb.BindSetCardinality(info, duckdb.IdxT(stream.Rows), false)
	kept := (*C.uint32_t)(C.malloc(C.sizeof_uint32_t))
	*kept = C.uint32_t(place)
	duckdb.BindSetBindData(info, unsafe.Pointer(kept), unsafe.Pointer(C.free))
}

//export pillionRemoteInit
func pillionRemoteInit(raw unsafe.Pointer) {
	info := duckdb.InitInfo{Ptr: raw}
	stream := &asked.streams[*(*C.uint32_t)(duckdb.InitGetBindData(info))]
	id, err := asked.begin(stream, info)
	if err != nil {
		duckdb.InitSetError(info, err.Error())
		return
	}
	kept := (*C.uint32_t)(C.malloc(C.sizeof_uint32_t))
	*kept = C.uint32_t(id)
	duckdb.InitSetInitData(info, unsafe.Pointer(kept), unsafe.Pointer(C.pillionRemoteEnd))
	duckdb.InitSetMaxThreads(info, 1) // rows keep their order
}

// begin asks the server for the columns that the query needs.
func (s *scans) begin(stream *remoteStream, info duckdb.InitInfo) (uint32, error) {
	s.mutex.Lock()
	s.last++
	r := &remoteScan{id: s.last, frames: make(chan frame, scanAhead+2)}
	s.open[r.id] = r
	s.mutex.Unlock()
	request := scan{ID: r.id, Stream: stream.Name, Where: s.where[stream.Name]}
	for i := range duckdb.InitGetColumnCount(info) {
		place := duckdb.InitGetColumnIndex(info, i)
		if place >= duckdb.IdxT(len(stream.Columns)) || stream.Columns[place].Name == noColumn {
			r.columns, r.types = append(r.columns, -1), append(r.types, measure.Bool)
			continue
		}
		r.columns, r.types = append(r.columns, r.read), append(r.types, stream.Columns[place].Type)
		r.read++
		request.Columns = append(request.Columns, stream.Columns[place].Name)
	}
	text, err := json.Marshal(request)
	if err != nil {
		return 0, err
	}
	return r.id, s.out.send(frameScan, r.id, text)
}

//export pillionRemoteRows
func pillionRemoteRows(raw, chunk unsafe.Pointer) {
	info := duckdb.FunctionInfo{Ptr: raw}
	id := uint32(*(*C.uint32_t)(duckdb.FunctionGetInitData(info)))
	asked.mutex.Lock()
	r := asked.open[id]
	asked.mutex.Unlock()
	r.chunk = duckdb.DataChunk{Ptr: chunk}
	n, err := r.fill()
	if err != nil {
		duckdb.FunctionSetError(info, err.Error())
		n = 0
	}
	duckdb.DataChunkSetSize(r.chunk, duckdb.IdxT(n))
}

//export pillionRemoteEnd
func pillionRemoteEnd(kept unsafe.Pointer) {
	id := uint32(*(*C.uint32_t)(kept))
	C.free(kept)
	asked.mutex.Lock()
	r := asked.open[id]
	delete(asked.open, id)
	asked.mutex.Unlock()
	r.pins.Unpin()
	_ = asked.out.send(frameStop, id, nil) // an error means that the server is gone
}

// fill copies the next rows into the chunk.
func (r *remoteScan) fill() (int, error) {
	r.pins.Unpin()
	size := int(duckdb.VectorSize())
	if r.read == 0 {
		return r.fillNone(size)
	}
	for r.record == nil || r.at == int(r.record.NumRows()) {
		if err := r.advance(); err != nil || r.done {
			return 0, err
		}
	}
	n := min(size, int(r.record.NumRows())-r.at)
	p := part{rows: int(r.record.NumRows()), columns: make([]arrow.Array, len(r.columns))}
	for i, place := range r.columns {
		if place >= 0 {
			p.columns[i] = r.record.Column(place)
		}
	}
	if err := r.copy(&p, r.at, n); err != nil {
		return 0, err
	}
	r.at += n
	return n, nil
}

// advance moves to the next record batch, or ends.
func (r *remoteScan) advance() (err error) {
	if r.record != nil {
		r.record.Release()
	}
	r.record, r.at = nil, 0
	if r.done {
		return nil
	}
	if r.reader == nil {
		r.reader = &recordReader{next: r.content}
	}
	if r.record, err = r.reader.read(); err != nil {
		r.record, r.done = nil, true
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// content returns the content of the next frame.
func (r *remoteScan) content() ([]byte, error) {
	f := <-r.frames
	switch {
	case f.kind == frameRows:
		return f.content, asked.out.send(frameMore, r.id, nil)
	case len(f.content) > 0:
		return nil, errors.New(string(f.content))
	}
	return nil, io.EOF
}

// fillNone counts rows of which no column is needed.
func (r *remoteScan) fillNone(size int) (int, error) {
	for !r.done && r.count == 0 {
		f := <-r.frames
		switch {
		case f.kind == frameCount && len(f.content) == 8:
			r.count = binary.LittleEndian.Uint64(f.content)
		case len(f.content) > 0:
			return 0, fmt.Errorf("read rows: %s", f.content)
		default:
			r.done = true
		}
	}
	n := min(uint64(size), r.count)
	r.count -= n
	return int(n), nil
}

// columnsOf lists the columns of a stream's table.
func columnsOf(s *measure.Schema) []remoteColumn {
	columns := []remoteColumn{{noColumn, measure.Bool}, {archive.AgentColumn, measure.String}}
	for _, f := range s.Fields {
		columns = append(columns, remoteColumn{f.Name, f.Type})
	}
	return columns
}
