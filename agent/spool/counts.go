package spool

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// countsFile has a slot for each of the other files, so that Open can tell how many batches are missing in one
// that is damaged, shorter or gone. A slot is written after the batch, and cleared before its file is deleted: if
// the process is killed meanwhile, nothing counts as missing. A slot that is damaged says nothing. Little-endian:
//
//	 0  CRC-32C of what follows
//	 4  number and epoch of the file, u64 each
//	20  batches and rows written to it, then batches and rows of it that are held, u64 each
const (
	countsFile = "counts"
	slotSize   = 52
)

// amount is a number of batches, and of the rows in them.
type amount struct{ batches, rows int64 }

func (a amount) plus(batches, rows int64) amount { return amount{a.batches + batches, a.rows + rows} }

// counts is the open file with the counts. Without it, nothing is counted.
type counts struct {
	file  *os.File
	taken []bool
	// before has the files of the previous process, by number, that Open has not read yet.
	before map[uint64]*file
}

func (c *counts) open(dir string) (err error) {
	c.before = map[uint64]*file{}
	path := filepath.Join(dir, countsFile)
	if c.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		_ = os.Rename(path, path+".damaged")
		c.file, _ = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		return err
	}
	data, err := io.ReadAll(c.file)
	for slot := range slices.Chunk(data, slotSize) {
		c.taken = append(c.taken, false)
		if len(slot) < slotSize || crc32.Checksum(slot[4:], castagnoli) != binary.LittleEndian.Uint32(slot) {
			continue
		}
		var v [6]uint64
		for i := range v {
			v[i] = binary.LittleEndian.Uint64(slot[4+8*i:])
		}
		c.before[v[0]] = &file{
			number: v[0], epoch: v[1], slot: len(c.taken) - 1, written: amount{int64(v[2]), int64(v[3])}, held: amount{int64(v[4]), int64(v[5])},
		}
		c.taken[len(c.taken)-1] = true
	}
	return err
}

// take returns a free slot.
func (c *counts) take() int {
	slot := slices.Index(c.taken, false)
	if slot < 0 {
		slot = len(c.taken)
		c.taken = append(c.taken, false)
	}
	c.taken[slot] = true
	return slot
}

// save writes the slot of a file. If that fails, the slot counts less than there is, or nothing.
func (c *counts) save(f *file) {
	b := make([]byte, 4, slotSize)
	for _, v := range []uint64{f.number, f.epoch, uint64(f.written.batches), uint64(f.written.rows), uint64(f.held.batches), uint64(f.held.rows)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	_, _ = c.file.WriteAt(b, int64(f.slot)*slotSize)
}

// clear frees the slot of a file.
func (c *counts) clear(f *file) error {
	if c.file != nil {
		if _, err := c.file.WriteAt(make([]byte, slotSize), int64(f.slot)*slotSize); err != nil {
			return err
		}
	}
	c.taken[f.slot] = false
	return nil
}

// countLost counts what is missing in a file that was read, and gives it a slot if it has none.
func (s *Spool) countLost(f *file) {
	before := s.counts.before[f.number]
	delete(s.counts.before, f.number)
	if before == nil || before.epoch != f.epoch { // the counts were damaged
		f.slot = s.counts.take()
		s.counts.save(f)
		return
	}
	// Usually the difference of what is held is exact. After a power failure the counts may be older than
	// the file, and have batches as held that were delivered, but none as written that were not.
	missing := amount{
		max(min(before.written.batches-f.written.batches, before.held.batches-f.held.batches), 0),
		max(min(before.written.rows-f.written.rows, before.held.rows-f.held.rows), 0),
	}
	if missing.batches > 0 {
		s.log.Error("batches of the spool are lost: a file is damaged or missing", "file", s.path(f), "batches", missing.batches, "rows", missing.rows)
		s.stats.Damaged += missing.batches
		s.stats.WrittenRows += missing.rows
		s.lose("", missing)
	}
	f.slot = before.slot
	s.counts.save(f)
}

// countMissing counts what was in files that are gone.
func (s *Spool) countMissing() {
	for _, before := range s.counts.before {
		gone := &file{number: before.number, epoch: before.epoch}
		s.number = max(s.number, gone.number)
		s.countLost(gone)
		_ = s.counts.clear(gone) // or it counts again at the next start
	}
}
