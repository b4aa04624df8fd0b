package spool

import (
	"bytes"
	"slices"
	"testing"

	"pillion.dev/measure"
)

const testEpoch = 0x1122334455667788

func encoded(t testing.TB, stream string, sequence uint64) []byte {
	t.Helper()
	r := record(schemaOf(stream), sequence, 1, 10)
	defer r.Release()
	e, err := measure.Encode(measure.Key{Stream: stream, Epoch: testEpoch, Sequence: sequence}, r)
	if err != nil {
		t.Fatal(err)
	}
	return append(header(&e), e.Payload...)
}

func TestScanContinuesAfterDamage(t *testing.T) {
	a, b, c := encoded(t, "a", 0), encoded(t, "b", 1), encoded(t, "a", 2)
	flipped := func(at int) []byte {
		bad := bytes.Clone(b)
		bad[at] ^= 0x10
		return bad
	}
	other := header(&measure.Envelope{Key: measure.Key{Stream: "a", Epoch: 5}})
	for _, test := range []struct {
		name    string
		data    []byte
		want    []uint64
		skipped int
	}{
		{"empty", nil, nil, 0},
		{"whole", slices.Concat(a, b, c), []uint64{0, 1, 2}, 0},
		{"magic flipped", slices.Concat(a, flipped(0), c), []uint64{0, 2}, len(b)},
		{"length flipped", slices.Concat(a, flipped(29), c), []uint64{0, 2}, len(b)},
		{"name flipped", slices.Concat(a, flipped(headerSize), c), []uint64{0, 2}, len(b)},
		{"payload flipped", slices.Concat(a, flipped(len(b)-1), c), []uint64{0, 2}, len(b)},
		{"two damaged in a row", slices.Concat(flipped(3), flipped(len(b)-1), c), []uint64{2}, 2 * len(b)},
		{"two damaged apart", slices.Concat(flipped(3), a, flipped(3)), []uint64{0}, 2 * len(b)},
		{"torn header", slices.Concat(a, b[:20]), []uint64{0}, 20},
		{"torn payload", slices.Concat(a, b[:len(b)-1]), []uint64{0}, len(b) - 1},
		{"torn in the middle", slices.Concat(a, b[:len(b)-1], c), []uint64{0, 2}, len(b) - 1},
		{"zeroes", slices.Concat(a, make([]byte, 4096), c), []uint64{0, 2}, 4096},
		{"of another epoch", slices.Concat(other, a), []uint64{0}, len(other)},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []uint64
			skipped := scan(test.data, testEpoch, func(_ int64, e measure.Envelope, _ bool) { got = append(got, e.Sequence) })
			if !slices.Equal(got, test.want) || skipped != int64(test.skipped) {
				t.Errorf("got %v and %d bytes skipped, want %v and %d", got, skipped, test.want, test.skipped)
			}
		})
	}
}

func TestFileName(t *testing.T) {
	for _, name := range []string{"", "lock", "position", "1-2.spool", "000000000001-0000000000000002.spool.gz", "../x.spool"} {
		if _, _, ok := parseFileName(name); ok {
			t.Errorf("%q is treated as a file of batches", name)
		}
	}
	number, epoch, ok := parseFileName((&file{number: 12, epoch: testEpoch}).name())
	if !ok || number != 12 || epoch != testEpoch {
		t.Errorf("got %d, %x, %v", number, epoch, ok)
	}
}

func FuzzScan(f *testing.F) {
	a, b := encoded(f, "a", 0), encoded(f, "b", 1)
	f.Add(slices.Concat(a, b))
	f.Add(slices.Concat(a[:30], b))
	f.Add(slices.Concat(a[:len(a)-3], b))
	f.Add(marker(testEpoch))
	f.Fuzz(func(t *testing.T, data []byte) {
		end, whole := int64(0), int64(0)
		skipped := scan(data, testEpoch, func(offset int64, e measure.Envelope, _ bool) {
			if offset < end {
				t.Fatalf("record at %d begins before the end %d of the one before", offset, end)
			}
			end = offset + recordSize(&e)
			whole += recordSize(&e)
			if end > int64(len(data)) || measure.Checksum(e.Payload) != e.Checksum {
				t.Fatalf("record at %d is incomplete", offset)
			}
		})
		if whole+skipped != int64(len(data)) {
			t.Fatalf("%d bytes intact and %d damaged of %d", whole, skipped, len(data))
		}
	})
}
