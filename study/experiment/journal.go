package experiment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"pillion.dev/internal/store"
)

// Row is one run.
type Row struct {
	Block    int               `json:"block"`
	Position int               `json:"position"`
	Cell     int               `json:"cell"`
	Factors  map[string]string `json:"factors"`
	// Null: the repeated base.
	Null    bool `json:"null"`
	Attempt int  `json:"attempt"`
	// Valid runs are in the analysis; Why says why another is not.
	Valid bool   `json:"valid"`
	Why   string `json:"why"`
	// Kept is false for runs of a block that was begun again after an interruption.
	Kept     bool               `json:"kept"`
	Measures map[string]float64 `json:"measures"`
	// Counters of the treatments, such as marked.
	Counters  map[string]any   `json:"counters,omitempty"`
	Intervals []map[string]any `json:"intervals"`
	// Load is the number of processors that others kept busy in the pause before the load;
	// absent if there was no pause. Steal is the share of the processors' time that a
	// hypervisor withheld during the run.
	Load  *float64 `json:"load"`
	Steal *float64 `json:"steal"`
	Clock *Clock   `json:"clock"`
	// Started is when the first treatment was applied; Seconds are until the last one was
	// undone. Overhead is the part of it that the runner itself needed, without
	// treatments, pauses and load.
	Started  time.Time `json:"started"`
	Seconds  float64   `json:"seconds"`
	Overhead float64   `json:"overhead"`
	// Prepared is how long the runner prepared, in seconds, before the first run after it was
	// started, such as for starting the lab.
	Prepared float64 `json:"prepared,omitempty"`
}

// Clock is the state of the system clock, as the kernel estimates it.
type Clock struct {
	Synchronized bool `json:"synchronized"`
	// OffsetNs is what remains to be corrected, MaxErrorNs a bound of the error.
	OffsetNs   int64 `json:"offset_ns"`
	MaxErrorNs int64 `json:"max_error_ns"`
}

// Names of the files of a result folder.
const (
	SpecFile    = "experiment.yaml"
	DesignFile  = "experiment.json"
	JournalFile = "journal.jsonl"
)

// Journal is the file with a line for each run. A run counts once its line is on disk.
type Journal struct {
	file *os.File
	rows []Row
	// torn says that the last line was incomplete and was dropped.
	torn bool
}

// ReadJournal reads the rows of a result folder. A last line without its end, which a crash
// leaves behind, is no row.
func ReadJournal(folder string) (rows []Row, torn bool, err error) {
	text, err := os.ReadFile(filepath.Join(folder, JournalFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read journal: %w", err)
	}
	rows, torn, err = parseJournal(text)
	if err != nil {
		return nil, false, fmt.Errorf("read journal in %s: %w", folder, err)
	}
	return rows, torn, nil
}

func parseJournal(text []byte) (rows []Row, torn bool, err error) {
	for number := 1; len(text) > 0; number++ {
		line, rest, complete := bytes.Cut(text, []byte("\n"))
		if !complete {
			return rows, true, nil
		}
		var row Row
		if err := json.Unmarshal(line, &row); err != nil {
			return nil, false, fmt.Errorf("line %d: %w", number, err)
		}
		if row.Block < 0 || row.Position < 0 || row.Cell < 0 {
			return nil, false, fmt.Errorf("line %d: a negative block, position or cell", number)
		}
		rows, text = append(rows, row), rest
	}
	return rows, false, nil
}

// OpenJournal opens the journal of a result folder to append to it. Rows of a block that is
// not complete are marked as not kept, since the block runs again; turns is the number of
// runs of a block.
func OpenJournal(folder string, turns int) (*Journal, error) {
	rows, torn, err := ReadJournal(folder)
	if err != nil {
		return nil, err
	}
	j := &Journal{rows: rows, torn: torn}
	complete := Complete(rows, turns)
	changed := torn
	for i := range j.rows {
		if r := &j.rows[i]; r.Kept && r.Block >= complete {
			r.Kept, changed = false, true
		}
	}
	path := filepath.Join(folder, JournalFile)
	if changed {
		if err := store.Replace(path, linesOf(j.rows), 0o644); err != nil {
			return nil, fmt.Errorf("mark runs of an unfinished block: %w", err)
		}
	}
	if j.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644); err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	if err := store.SyncFolder(folder); err != nil {
		return nil, errors.Join(err, j.file.Close())
	}
	return j, nil
}

func linesOf(rows []Row) []byte {
	var text bytes.Buffer
	for _, row := range rows {
		line, err := json.Marshal(row)
		if err != nil { // rows hold finite numbers and texts, and were read or written before
			panic(err)
		}
		text.Write(append(line, '\n'))
	}
	return text.Bytes()
}

// Append adds a run; when it returns, the run is on disk.
func (j *Journal) Append(row Row) error {
	line, err := json.Marshal(row)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	j.rows = append(j.rows, row)
	return nil
}

// Rows are all runs, in the order in which they ended.
func (j *Journal) Rows() []Row { return j.rows }

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }

// Complete is the number of blocks, from the first one, in which every run has a valid row.
func Complete(rows []Row, turns int) int {
	valid := map[int]map[int]bool{}
	for _, row := range rows {
		if row.Kept && row.Valid {
			if valid[row.Block] == nil {
				valid[row.Block] = map[int]bool{}
			}
			valid[row.Block][row.Position] = true
		}
	}
	block := 0
	for len(valid[block]) >= turns && turns > 0 {
		block++
	}
	return block
}
