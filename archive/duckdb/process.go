package duckdb

/*
#include "confine.h"
*/
import "C"

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
)

// process answers one query: this program, started again. It has no file of this one
// but two pipes.
type process struct {
	command *exec.Cmd
	folder  string // in which it spills
	in      *os.File
	out     *os.File
	to      *frameWriter
	stderr  complaint
	ended   chan error
}

const (
	// nobody is the user as whom the process runs if the server is root.
	nobody         = 65534
	complaintBytes = 4 << 10
)

// startProcess starts one that uses at most so many processors.
func startProcess(folder string, processors int) (*process, error) {
	p := &process{ended: make(chan error, 1)}
	var err error
	if err = os.MkdirAll(folder, 0o700); err == nil {
		p.folder, err = os.MkdirTemp(folder, "")
	}
	if err != nil {
		return nil, fmt.Errorf("start process for query: %w", err)
	}
	if os.Geteuid() == 0 {
		_ = os.Chown(p.folder, nobody, nobody) // without it the process cannot spill
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, os.Remove(p.folder))
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		in.Close()
		theirIn.Close()
		return nil, errors.Join(err, os.Remove(p.folder))
	}
	p.in, p.out, p.to = in, out, &frameWriter{to: in}
	p.command = &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{C.CONFINED_NAME, strconv.Itoa(processors)}, Env: []string{}, Dir: p.folder,
		Stdin: theirIn, Stdout: theirOut, Stderr: &p.stderr,
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	}
	started := make(chan error, 1)
	go func() {
		// Pdeathsig is about the thread that starts the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.command.Start()
		started <- err
		if err == nil {
			p.ended <- p.command.Wait()
		}
	}()
	err = <-started
	theirIn.Close()
	theirOut.Close()
	if err != nil {
		p.close()
		return nil, fmt.Errorf("start process for query: %w", err)
	}
	return p, nil
}

// kill may be called at any time.
func (p *process) kill() { _ = p.command.Process.Kill() } // an error means that it has ended

// end kills the process and removes its folder.
func (p *process) end() error {
	p.kill()
	err := <-p.ended
	p.close()
	return err
}

func (p *process) close() {
	p.in.Close()
	p.out.Close()
	os.RemoveAll(p.folder)
}

// complaint keeps the first bytes written: of a crash, those say why.
type complaint struct {
	mutex sync.Mutex
	text  []byte
}

// Write implements io.Writer.
func (t *complaint) Write(b []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.text = append(t.text, b[:min(len(b), complaintBytes-len(t.text))]...)
	return len(b), nil
}

func (t *complaint) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return string(t.text)
}

// answering is one query in the server.
type answering struct {
	*process
	archive *Archive
	asked   question
	scope   *archive.Scope // of the rows that the process is sent
	scans   map[uint32]*serving
	pool    *snapshot
	serving sync.WaitGroup
	outcome *outcome
	failed  chan error // of a scan
}

// answer runs a query in a process and passes its rows on.
func (a *Archive) answer(ctx context.Context, q question, scope *archive.Scope, rows func(arrow.RecordBatch) error) (err error) {
	p, err := startProcess(a.queriesFolder(), q.Threads)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &answering{process: p, archive: a, asked: q, scope: scope, scans: map[uint32]*serving{}, pool: &snapshot{archive: a}, failed: make(chan error, 1)}
	defer func() {
		cancel()
		died := p.end()
		w.serving.Wait()
		w.pool.close()
		if err != nil {
			err = w.reason(err, died)
		}
	}()
	defer context.AfterFunc(ctx, p.kill)()
	var first bytes.Buffer
	if err := gob.NewEncoder(&first).Encode(q); err != nil {
		return fmt.Errorf("%w: encode parameters: %w", archive.ErrQuery, err)
	}
	if err := p.to.send(frameQuestion, 0, first.Bytes()); err != nil {
		return fmt.Errorf("ask process for query: %w", err)
	}
	reader := &recordReader{next: func() ([]byte, error) { return w.next(ctx) }}
	for {
		r, err := reader.read()
		if errors.Is(err, io.EOF) {
			return w.verdict()
		}
		if err != nil {
			return err
		}
		err = handle(r, rows)
		r.Release()
		if err != nil {
			return err
		}
	}
}

// handle passes rows on. Arrow panics on arrays whose parts do not fit together.
func handle(r arrow.RecordBatch, rows func(arrow.RecordBatch) error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%w: %v", errFrame, fault)
		}
	}()
	return rows(r)
}

// next returns the next rows of the answer, and serves the process meanwhile.
func (w *answering) next(ctx context.Context) ([]byte, error) {
	for {
		f, err := readFrame(w.out, frameBytes)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		switch f.kind {
		case frameResult:
			return f.content, nil
		case frameDone:
			w.outcome = &outcome{}
			if err := json.Unmarshal(f.content, w.outcome); err != nil {
				return nil, fmt.Errorf("%w: %w", errFrame, err)
			}
			return nil, io.EOF
		case framePlan:
			err = w.pool.plan(ctx, string(f.content))
		case frameScan:
			err = w.serve(ctx, f)
		case frameMore, frameStop:
			if s := w.scans[f.scan]; s != nil {
				s.signal(f.kind == frameMore)
			}
			if f.kind == frameStop {
				delete(w.scans, f.scan)
			}
		default:
			err = fmt.Errorf("%w: frame %q", errFrame, f.kind)
		}
		if err != nil {
			return nil, err
		}
	}
}

// verdict is the error of a process that has reported how it ended.
func (w *answering) verdict() error {
	switch {
	case w.outcome == nil:
		return io.ErrUnexpectedEOF
	case w.outcome.Memory:
		return w.tooLarge()
	case w.outcome.Error != "":
		return fmt.Errorf("%w: %s", archive.ErrQuery, w.outcome.Error)
	}
	return nil
}

func (w *answering) tooLarge() error {
	return fmt.Errorf("%w: query exceeded %d MiB of memory; read fewer columns or a shorter time range, or raise query_memory_bytes of the server",
		archive.ErrQuery, w.asked.Memory>>20)
}

// reason explains a failure by what caused it: an error of a scan, or the end of the
// process.
func (w *answering) reason(err, died error) error {
	select {
	case failed := <-w.failed:
		return failed
	default:
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, syscall.EPIPE) {
		return err
	}
	said := w.stderr.String()
	for _, sign := range []string{"bad_alloc", "out of memory", "cannot allocate memory", "pthread_create failed", "Cannot allocate memory", "Out of Memory"} {
		if strings.Contains(said, sign) {
			return w.tooLarge()
		}
	}
	line, _, _ := strings.Cut(strings.TrimSpace(said), "\n")
	return fmt.Errorf("%w: the process that answered the query ended: %v %s", archive.ErrQuery, died, line)
}
