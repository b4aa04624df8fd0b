package routerreport

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"

	"pillion.dev/internal/outfile"
	"pillion.dev/probe/router"
	"pillion.dev/wire/fivetuple"
)

const recordTitle = "t1_mono_ns,t2_mono_ns,t3_mono_ns,t4_mono_ns,input,output,src,dst,proto,sport,dport," +
	"bytes,merged,segments,last_t1_mono_ns,train,number\n"

// recordFile writes one CSV line per forwarded packet.
type recordFile struct {
	file    *os.File
	buffer  *bufio.Writer
	line    []byte
	names   map[int]string
	written uint64
}

// createRecordFile creates the file; names are those of interfaces by index.
func createRecordFile(path outfile.Path, names map[int]string) (*recordFile, error) {
	file, err := path.Grow(0o666, []byte(recordTitle))
	if err != nil {
		return nil, fmt.Errorf("create record file: %w", err)
	}
	r := &recordFile{file: file, buffer: bufio.NewWriterSize(file, 1<<16), names: names}
	return r, nil
}

func (r *recordFile) write(record router.Record) error {
	b := r.line[:0]
	if record.T1 != 0 { // otherwise no hook observed the arrival: the column is empty
		b = strconv.AppendUint(b, record.T1, 10)
	}
	b = append(b, ',')
	for _, t := range []uint64{record.T2, record.T3, record.T4} {
		b = append(strconv.AppendUint(b, t, 10), ',')
	}
	b = append(r.appendName(b, record.In), ',')
	b = append(r.appendName(b, record.Out), ',')
	b = append(record.Source.Addr().AppendTo(b), ',')
	b = append(record.Destination.Addr().AppendTo(b), ',')
	b = append(append(b, fivetuple.ProtocolName(record.Protocol)...), ',')
	for _, n := range []uint64{
		uint64(record.Source.Port()), uint64(record.Destination.Port()),
		uint64(record.Length), uint64(record.Merged), uint64(record.Segments),
	} {
		b = append(strconv.AppendUint(b, n, 10), ',')
	}
	b = append(strconv.AppendUint(b, record.LastT1, 10), ',')
	if record.Sent { // otherwise both columns are empty
		b = append(strconv.AppendUint(b, uint64(record.Train), 10), ',')
		b = strconv.AppendUint(b, uint64(record.Number), 10)
	} else {
		b = append(b, ',')
	}
	r.line = append(b, '\n')
	if _, err := r.buffer.Write(r.line); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	r.written++
	return nil
}

// appendName appends an interface's name, or its index if it was created later.
func (r *recordFile) appendName(b []byte, index int) []byte {
	if name := r.names[index]; name != "" {
		return append(b, name...)
	}
	return strconv.AppendInt(b, int64(index), 10)
}

func (r *recordFile) close() error {
	if r.file == nil {
		return nil
	}
	err := errors.Join(r.buffer.Flush(), r.file.Close())
	r.file = nil
	if err != nil {
		return fmt.Errorf("close record file: %w", err)
	}
	return nil
}
