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
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	duckdb "github.com/duckdb/duckdb-go-bindings"

	"pillion.dev/archive/query"
	"pillion.dev/measure"
)

// question is what a process is started to answer.
type question struct {
	SQL       string
	Arguments []any
	// Rows limits the answer; 0: no limit.
	Rows int64
	// Memory of the process, and what it may spill to disk, bytes.
	Memory, Spill int64
	Threads       int
	Streams       []remoteStream
}

// remoteStream is a table of the server's database.
type remoteStream struct {
	Name    string
	Columns []remoteColumn
	Rows    int64 // estimated
}

type remoteColumn struct {
	Name string
	Type measure.Type
}

// null stands for nil among the arguments: gob has no nil.
type null struct{}

func init() {
	gob.Register(null{})
	gob.Register(time.Time{})
	gob.Register([]string{})
	if len(os.Args) == 2 && os.Args[0] == C.CONFINED_NAME {
		os.Exit(answerQuestion(os.Stdin, os.Stdout))
	}
}

// outcome is how a process ended; Error is empty if it answered.
type outcome struct {
	Error string `json:"error,omitempty"`
	// Memory: it needed more than it may have.
	Memory bool `json:"memory,omitempty"`
}

const (
	// goBytes is what Go's runtime in the process may use before it collects garbage
	// without a pause.
	goBytes = 32 << 20
	// databaseShare of the memory is what DuckDB plans with: part of what an operator uses
	// is not counted by it.
	databaseShare = 0.7
)

// answerer runs one query in a process of its own, which reads the server's tables through
// frames. Go's memory of it is small: rows pass through.
type answerer struct {
	question
	out   *frameWriter
	scans *scans
}

// answerQuestion is the main function of the process.
func answerQuestion(in io.Reader, out io.Writer) int {
	debug.SetMemoryLimit(goBytes)
	first, err := readFrame(in, 1<<30)
	if err != nil {
		return 1
	}
	a := &answerer{out: &frameWriter{to: out}}
	a.scans = newScans(a.out)
	if err := gob.NewDecoder(bytes.NewReader(first.content)).Decode(&a.question); err != nil {
		return 1
	}
	go a.listen(in)
	err = a.run()
	end := outcome{}
	if err != nil {
		end.Error, end.Memory = err.Error(), noMemory(err)
	}
	text, err := json.Marshal(end)
	if err != nil || a.out.send(frameDone, 0, text) != nil {
		return 1
	}
	return 0
}

// listen hands frames to the scans. Without a server there is nobody to answer.
func (a *answerer) listen(in io.Reader) {
	for {
		f, err := readFrame(in, 1<<30)
		if err != nil {
			os.Exit(1)
		}
		a.scans.receive(f)
	}
}

func (a *answerer) run() error {
	db, err := a.open()
	if err != nil {
		return err
	}
	c, err := connect(db)
	if err != nil {
		return err
	}
	if err := a.prepare(c); err != nil {
		return err
	}
	left := int64(C.confine_memory(C.int64_t(a.Memory)))
	if left < 0 {
		return errors.New("limit the memory of the query: /proc/self/statm or setrlimit is not available")
	}
	memory := strconv.FormatInt(int64(float64(left)*databaseShare), 10) + "B"
	if err := c.script("SET memory_limit = '" + memory + "'; SET lock_configuration = true"); err != nil {
		return err
	}
	if err := limitCalls(C.confined_can_spill() != 0); err != nil {
		return fmt.Errorf("limit the system calls of the query: %w", err)
	}
	if whenConfined != nil {
		if err := whenConfined(a.SQL); err != nil {
			return err
		}
	}
	return a.ask(context.Background(), c)
}

// whenConfined lets a test try what the process can do.
var whenConfined func(sql string) error

// open opens an empty database in memory.
func (a *answerer) open() (db duckdb.Database, err error) {
	settings := map[string]string{
		"autoinstall_known_extensions": "false", "autoload_known_extensions": "false",
		"threads": strconv.Itoa(a.Threads), "external_threads": "1",
		"temp_directory": "",
	}
	if C.confined_can_spill() != 0 {
		settings["temp_directory"] = "."
		settings["max_temp_directory_size"] = strconv.FormatInt(a.Spill, 10) + "B"
	}
	var config duckdb.Config
	if duckdb.CreateConfig(&config) == duckdb.StateError {
		return db, errors.New("create configuration: rejected by DuckDB")
	}
	defer duckdb.DestroyConfig(&config)
	for name, value := range settings {
		if duckdb.SetConfig(config, name, value) == duckdb.StateError {
			return db, fmt.Errorf("set %s to %s: rejected by DuckDB", name, value)
		}
	}
	var message string
	if duckdb.OpenExt(":memory:", &db, config, &message) == duckdb.StateError {
		return db, &sqlError{duckdb.ErrorTypeErrorIO, message}
	}
	return db, nil
}

// prepare creates a view for each stream, and locks all settings but the memory limit.
func (a *answerer) prepare(c *connection) error {
	if err := a.scans.register(c, a.Streams); err != nil {
		return err
	}
	var script strings.Builder
	for i, s := range a.Streams {
		// DuckDB asks for the first column if it needs none.
		fmt.Fprintf(&script, "CREATE VIEW %s AS SELECT * EXCLUDE %s FROM %s(%d);\n", tableOf(s.Name), noColumn, remoteFunction, i)
	}
	script.WriteString("SET enable_external_access = false")
	if err := c.script(script.String()); err != nil {
		return err
	}
	// A build without time zones has UTC anyway.
	_ = c.script("SET TimeZone = 'UTC'")
	return nil
}

// ask runs the query in one transaction, so that the plan that was inspected and the one
// that is run agree about the time now.
func (a *answerer) ask(ctx context.Context, c *connection) error {
	if err := c.exec(ctx, "BEGIN TRANSACTION"); err != nil {
		return err
	}
	if err := c.inspectQuestion(ctx, a.SQL); err != nil {
		return err
	}
	statement, err := c.prepareReading(a.SQL)
	defer duckdb.DestroyPrepare(&statement)
	if err != nil {
		return err
	}
	arguments := make([]any, len(a.Arguments))
	for i, argument := range a.Arguments {
		if _, is := argument.(null); !is {
			arguments[i] = argument
		}
	}
	if err := a.plan(ctx, c); err != nil {
		return err
	}
	var to *recordWriter
	err = c.run(ctx, statement, arguments, query.Limited(a.Rows, func(r arrow.RecordBatch) error {
		if to == nil {
			to = &recordWriter{}
		}
		return a.pass(to, r)
	}))
	if errors.Is(err, query.ErrEnough) {
		return nil
	}
	return err
}

// plan tells the server how many scans the query has.
func (a *answerer) plan(ctx context.Context, c *connection) error {
	plan := c.planOf(ctx, a.SQL, a.Streams)
	a.scans.narrow(plan)
	n := len(plan)
	if plan == nil {
		n = unknownScans
	}
	return a.out.send(framePlan, 0, []byte(strconv.Itoa(n)))
}

// pass sends rows, in pieces that the server accepts.
func (a *answerer) pass(to *recordWriter, r arrow.RecordBatch) error {
	content, err := to.encode(r)
	if err != nil {
		return fmt.Errorf("encode rows: %w", err)
	}
	if len(content) <= frameBytes {
		return a.out.send(frameResult, 0, content)
	}
	if r.NumRows() == 1 {
		return &sqlError{message: fmt.Sprintf("a row of the result has %d bytes, limit %d MiB", len(content), frameBytes>>20)}
	}
	for _, half := range [][2]int64{{0, r.NumRows() / 2}, {r.NumRows() / 2, r.NumRows()}} {
		piece := r.NewSlice(half[0], half[1])
		err := a.pass(to, piece)
		piece.Release()
		if err != nil {
			return err
		}
	}
	return nil
}
