package agent

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"

	"pillion.dev/internal/outfile"
	"pillion.dev/probe/destination"
	"pillion.dev/wire/fivetuple"
)

const recordHeader = "received_ns,src,dst,proto,sport,dport,sequence,single,packets,bytes,delay_ns,encoding\n"

// recordFile writes per-packet records as CSV.
type recordFile struct {
	file   *os.File
	buffer *bufio.Writer
	line   []byte
}

func createRecordFile(path outfile.Path) (*recordFile, error) {
	file, err := path.Grow(0o666, []byte(recordHeader))
	if err != nil {
		return nil, fmt.Errorf("create record file: %w", err)
	}
	r := &recordFile{file: file, buffer: bufio.NewWriterSize(file, 1<<16)}
	return r, nil
}

func (r *recordFile) write(record *destination.Record) error {
	b := r.line[:0]
	b = strconv.AppendInt(b, record.Received.UnixNano(), 10)
	b = append(append(b, ','), addressText(record.Key.Src)...)
	b = append(append(b, ','), addressText(record.Key.Dst)...)
	b = append(append(b, ','), fivetuple.ProtocolName(record.Key.Protocol)...)
	b = strconv.AppendUint(append(b, ','), uint64(record.Key.Sport), 10)
	b = strconv.AppendUint(append(b, ','), uint64(record.Key.Dport), 10)
	b = strconv.AppendUint(append(b, ','), uint64(record.Sequence), 10)
	b = strconv.AppendBool(append(b, ','), record.Single)
	b = strconv.AppendUint(append(b, ','), uint64(record.Packets), 10)
	b = strconv.AppendUint(append(b, ','), uint64(record.Bytes), 10)
	b = strconv.AppendInt(append(b, ','), int64(record.Delay), 10)
	b = append(append(b, ','), record.Encoding.String()...)
	r.line = append(b, '\n')
	if _, err := r.buffer.Write(r.line); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return nil
}

func (r *recordFile) close() error { return errors.Join(r.buffer.Flush(), r.file.Close()) }
