package agent

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"pillion.dev/probe/destination"
	"pillion.dev/wire/fivetuple"
)

const (
	recordBulk  = 1024
	recordWait  = 100 * time.Millisecond
	recordTitle = "received_ns,src,dst,proto,sport,dport,sequence,single,packets,bytes,delay_ns,encoding\n"
)

// recordFile writes per-packet records as CSV, one line each.
type recordFile struct {
	file   *os.File
	buffer *bufio.Writer
	line   []byte
	ending chan struct{}
	ended  chan error
}

func createRecordFile(path string) (*recordFile, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create record file: %w", err)
	}
	r := &recordFile{file: file, buffer: bufio.NewWriterSize(file, 1<<16)}
	_, err = r.buffer.WriteString(recordTitle)
	return r, err
}

// follow writes what the probe records until finish is called.
func (r *recordFile) follow(probe *destination.Destination) {
	r.ending, r.ended = make(chan struct{}), make(chan error, 1)
	go func() { r.ended <- r.copy(probe) }()
}

func (r *recordFile) copy(probe *destination.Destination) error {
	records := make([]destination.Record, recordBulk)
	for {
		last := false
		select {
		case <-r.ending:
			last = true
		default:
		}
		n, err := probe.ReadRecords(records, time.Now().Add(recordWait))
		for i := range n {
			if err := r.write(&records[i]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		if last && n == 0 {
			return nil
		}
	}
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

// finish writes what is still in the ring buffer.
func (r *recordFile) finish() error {
	close(r.ending)
	return errors.Join(<-r.ended, r.close())
}

func (r *recordFile) close() error {
	if r.file == nil {
		return nil
	}
	err := errors.Join(r.buffer.Flush(), r.file.Close())
	r.file = nil
	return err
}
