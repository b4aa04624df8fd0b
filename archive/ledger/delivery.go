// Package ledger knows which batches an archive has stored and what agents may still store:
// it admits each batch once, within the quotas of its agent and with columns that fit its
// stream. It stores nothing itself: archives keep its states with the rows.
package ledger

import (
	"maps"
	"time"

	"pillion.dev/internal/quota"
)

// Sender identifies one sequence of batches.
type Sender struct {
	Agent, Stream string
	Epoch         uint64
}

// Delivery is the state of a sender: all batches below Next have arrived or never will,
// and so have the Extras above it.
type Delivery struct {
	Next                   uint64
	Extras                 map[uint64]bool
	Batches, Rows, Missing int64
	Seen                   time.Time // when the last batch arrived
}

// extrasMax limits the state of a sender that leaves gaps.
const extrasMax = 1 << 14

var errGaps = &quota.Error{Quota: "gaps", Limit: extrasMax, Unit: "batches after a gap for each sequence", Later: true,
	What: "store a batch whose predecessors have not arrived"}

// Clone copies the state.
func (d *Delivery) Clone() *Delivery {
	c := *d
	c.Extras = maps.Clone(d.Extras)
	return &c
}

// Has reports whether a batch has arrived or counts as missing.
func (d *Delivery) Has(sequence uint64) bool { return sequence < d.Next || d.Extras[sequence] }

// settle closes the gaps below oldest: batches missing there will not arrive. It iterates
// over extras, not over numbers, which are not trusted.
func (d *Delivery) settle(oldest uint64) {
	if oldest > d.Next {
		gap := oldest - d.Next
		for extra := range d.Extras {
			if extra < oldest {
				delete(d.Extras, extra)
				gap--
			}
		}
		d.Missing += int64(gap)
		d.Next = oldest
	}
	d.advance()
}

func (d *Delivery) advance() {
	for d.Extras[d.Next] {
		delete(d.Extras, d.Next)
		d.Next++
	}
}

// Add records a new batch.
func (d *Delivery) Add(sequence, oldest uint64, rows int64) error {
	if len(d.Extras) >= extrasMax && sequence != d.Next {
		return errGaps
	}
	d.Replay(sequence, oldest, rows)
	return nil
}

// Replay records a batch that was stored, whatever the limits.
func (d *Delivery) Replay(sequence, oldest uint64, rows int64) {
	if d.Extras == nil {
		d.Extras = map[uint64]bool{}
	}
	d.Extras[sequence] = true
	d.Batches++
	d.Rows += rows
	d.settle(min(oldest, sequence))
}

// Merge adds what another state of the same sender has stored: an earlier or a later one, or
// one of batches that were stored elsewhere.
func (d *Delivery) Merge(other *Delivery) {
	switch {
	case d.covers(other):
		return
	case other.covers(d):
		*d = *other.Clone()
		return
	}
	for extra := range other.Extras {
		if extra >= d.Next {
			if d.Extras == nil {
				d.Extras = map[uint64]bool{}
			}
			d.Extras[extra] = true
		}
	}
	d.Batches, d.Rows = d.Batches+other.Batches, d.Rows+other.Rows
	if other.Next > d.Next {
		for extra := range d.Extras {
			if extra < other.Next {
				delete(d.Extras, extra)
			}
		}
		d.Next = other.Next
	}
	d.advance()
	if other.Seen.After(d.Seen) {
		d.Seen = other.Seen
	}
}

// covers reports whether all that another state has is in this one.
func (d *Delivery) covers(other *Delivery) bool {
	if other.Next > d.Next {
		return false
	}
	for extra := range other.Extras {
		if !d.Has(extra) {
			return false
		}
	}
	return true
}
