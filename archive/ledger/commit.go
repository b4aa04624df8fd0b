package ledger

import (
	"fmt"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure"
)

// Commit is what one call of Store is about to write.
type Commit struct {
	Batches  []archive.Batch
	Stored   []bool
	Rejected map[int]error
	Schemas  map[string]*measure.Schema // changed ones only
	States   map[Sender]*Delivery       // changed ones only
	Streams  map[string][]int           // new batches by stream
	At       time.Time                  // of arrival
	// Shapes are the columns that agents add, by agent and stream.
	Shapes map[string]map[string]int
	// sequences that agents begin.
	sequences map[string]int
}

// Plan sorts out duplicates and batches that cannot be stored. A rejected batch is not noted
// as delivered: once its sender gives it up it counts as missing.
func (b *Book) Plan(k *Catalog, batches []archive.Batch, at time.Time) *Commit {
	c := &Commit{
		Batches: batches, Stored: make([]bool, len(batches)), Rejected: map[int]error{},
		Schemas: map[string]*measure.Schema{}, States: map[Sender]*Delivery{}, Streams: map[string][]int{},
		At: at, sequences: map[string]int{}, Shapes: map[string]map[string]int{},
	}
	for i := range batches {
		one := &batches[i]
		key := SenderOf(one)
		state := c.States[key]
		if state == nil {
			state = b.Get(key)
		}
		if state != nil && state.Has(one.Sequence) {
			b.again(key, c.At)
			continue
		}
		if err := b.admitBatch(c, k, one, key); err != nil {
			c.Rejected[i] = err
			continue
		}
		c.Stored[i] = true
		c.Streams[one.Stream] = append(c.Streams[one.Stream], i)
	}
	return c
}

// SenderOf is the sender of a batch.
func SenderOf(b *archive.Batch) Sender { return Sender{b.Agent, b.Stream, b.Epoch} }

func (b *Book) admitBatch(c *Commit, k *Catalog, one *archive.Batch, key Sender) error {
	if err := inspect(one); err != nil {
		return err
	}
	want, changed, err := k.admit(c, one, b.Quota)
	if err != nil {
		return err
	}
	state := c.States[key]
	if state == nil {
		state = b.Get(key)
		if err := b.admit(c, key, state); err != nil {
			return err
		}
		if state == nil {
			state = &Delivery{}
			if b.Get(Sender{one.Agent, one.Stream, FoldedEpoch}) != nil {
				state.Next = min(one.Oldest, one.Sequence) // what is before may have been counted
			}
		}
		state = state.Clone()
	}
	if err := state.Add(one.Sequence, one.Oldest, one.Record.NumRows()); err != nil {
		return fmt.Errorf("store batch %d of %q: %w", one.Sequence, one.Stream, err)
	}
	state.Seen = c.At
	c.States[key] = state
	if changed {
		c.Schemas[one.Stream] = want
	}
	k.Declared[one.Stream] = k.Declared[one.Stream] || one.Agent == archive.OwnAgent && one.Record.NumRows() == 0
	return nil
}

// Fresh returns the batches to be written.
func (c *Commit) Fresh() []int {
	var all []int
	for i, stored := range c.Stored {
		if stored {
			all = append(all, i)
		}
	}
	return all
}
