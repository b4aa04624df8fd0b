package duckdb

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"

	local "pillion.dev/internal/store"
)

// acknowledgedSize is the size of the file beside the archive that has how many batches and rows were stored in
// it, ever: a log that is cut, or emptied, or gone, looks to DuckDB like one that was not written yet. The file
// is written when a commit is on disk, before its batches are acknowledged, so that it never has more than the
// archive. Little-endian: CRC-32 of what follows, then batches and rows, u64 each.
const acknowledgedSize = 20

func (a *Archive) acknowledgedPath() string { return a.path + ".acknowledged" }

// acknowledge writes it. If that fails, it has less than was stored.
func (a *Archive) acknowledge() {
	stored := a.book.Stored()
	b := binary.LittleEndian.AppendUint64(make([]byte, 4, acknowledgedSize), uint64(stored.Batches))
	b = binary.LittleEndian.AppendUint64(b, uint64(stored.Rows))
	binary.LittleEndian.PutUint32(b, crc32.ChecksumIEEE(b[4:]))
	if file, err := os.OpenFile(a.acknowledgedPath(), os.O_WRONLY|os.O_CREATE, 0o600); err == nil {
		_, _ = file.WriteAt(b, 0)
		_ = file.Close()
	}
}

// compareAcknowledged notes what was acknowledged and is not in the archive any more.
func (a *Archive) compareAcknowledged() {
	b, err := os.ReadFile(a.acknowledgedPath())
	if err != nil || len(b) < acknowledgedSize || crc32.ChecksumIEEE(b[4:acknowledgedSize]) != binary.LittleEndian.Uint32(b) {
		return // missing or damaged: nothing is known
	}
	stored := a.book.Stored()
	batches, rows := int64(binary.LittleEndian.Uint64(b[4:]))-stored.Batches, int64(binary.LittleEndian.Uint64(b[12:]))-stored.Rows
	if batches <= 0 && rows <= 0 {
		return
	}
	a.lost.Store(rows)
	folder := cmp.Or(a.options.Folder, filepath.Dir(a.path))
	local.Notice(filepath.Join(folder, fileName), "%s, or its write-ahead log, is damaged or not the latest: %d rows in %d batches that were acknowledged are lost unless a backup is restored",
		a.path, rows, batches)
}

// Lost is the number of acknowledged rows that were missing when the archive was opened.
func (a *Archive) Lost() int64 { return a.lost.Load() }
