package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// account is what one run of an application has sent.
type account struct {
	// sent is the number of rows, as last told; stored of them were acknowledged.
	sent, stored int64
	// complete: the application has ended in order, so sent is exact.
	complete bool
}

// ledger has the accounts by the name of the run.
type ledger struct {
	mu   sync.Mutex
	runs map[string]account
}

func newLedger() *ledger { return &ledger{runs: map[string]account{}} }

func (l *ledger) set(run string, a account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[run] = a
}

func (l *ledger) copy() map[string]account {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.runs)
}

// archived is what the archive has of one run.
type archived struct {
	Sender            string `json:"sender"`
	Rows, Rows1, Last int64
}

// archivedRows asks for the rows of each run, those with different numbers, and the
// highest number. A row is identified by its run and number.
const archivedRows = "SELECT oml_sender AS sender, count(*) AS rows, count(DISTINCT oml_seq) AS rows1, max(oml_seq) AS last FROM " + stream + " GROUP BY ALL"

func parseArchived(text []byte) (map[string]archived, error) {
	found := map[string]archived{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	for decoder.More() {
		var a archived
		if err := decoder.Decode(&a); err != nil {
			return nil, fmt.Errorf("read answer: %w", err)
		}
		found[a.Sender] = a
	}
	return found, nil
}

// balance compares the ledger with the archive.
type balance struct {
	Acknowledged, Archived, Duplicates, Lost int64
	faults                                   []string
}

func balanceOf(runs map[string]account, found map[string]archived) balance {
	var b balance
	for _, run := range slices.Sorted(maps.Keys(runs)) {
		a, is := runs[run], found[run]
		b.Acknowledged += a.stored
		b.Archived += is.Rows
		if n := is.Rows - is.Rows1; n > 0 {
			b.Duplicates += n
			b.faults = append(b.faults, fmt.Sprintf("%s: %d rows are duplicates", run, n))
		}
		expected := a.stored
		if a.complete {
			expected = a.sent
		}
		// What is there is contiguous: a gap is a loss, too.
		if n := max(expected, is.Last) - is.Rows1; n > 0 {
			b.Lost += n
			b.faults = append(b.faults, fmt.Sprintf("%s: %d rows are missing of %d, of which %d were acknowledged; the last is %d", run, n, a.sent, a.stored, is.Last))
		}
		if a.complete && is.Last > a.sent {
			b.faults = append(b.faults, fmt.Sprintf("%s: row %d was never sent", run, is.Last))
		}
	}
	return b
}
