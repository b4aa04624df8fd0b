package clickhouse

import (
	"encoding/binary"
	"errors"
	"math"

	"pillion.dev/measure/histogram"
)

// packedColumn is the column of roll-ups with a distribution's histogram as of pack, besides the
// lists for users, for which the server and the driver take many times as long. unknownColumn has
// how many rows do not know the offsets of each bucket, which only roll-ups need.
func packedColumn(of string) string  { return of + "_packed" }
func unknownColumn(of string) string { return of + "_packed_unknown" }

// Flags of a packed histogram.
const (
	// packedIndices: bounds are indices of the layout.
	packedIndices = 1 << iota
	// packedOffsets: it has sums of offsets.
	packedOffsets
	// packedUnknown: the offsets of some values are unknown.
	packedUnknown
)

// pack returns the buckets as bytes: their number, the flags, of each bucket the distance of its
// bound from the one before and its count, and then the sums of offsets. Numbers are
// variable-length integers as of package binary, distances signed ones. unknown has the other
// numbers; it is empty if all are 0.
func (b buckets) pack() (packed, unknown []byte) {
	flags, none := uint64(packedIndices), true
	for i := range b {
		if histogram.Bound(histogram.Index(b[i].bound)) != b[i].bound {
			flags &^= packedIndices
		}
		if b[i].offsets != 0 || b[i].unknown == 0 {
			flags |= packedOffsets
		}
		if b[i].unknown != 0 && b[i].count != 0 {
			flags |= packedUnknown
		}
		none = none && b[i].unknown == 0
	}
	packed = binary.AppendUvarint(nil, uint64(len(b)))
	packed = binary.AppendUvarint(packed, flags)
	before := int64(0)
	for i := range b {
		at := b[i].bound
		if flags&packedIndices != 0 {
			at = int64(histogram.Index(at))
		}
		packed = binary.AppendVarint(packed, at-before)
		packed, before = binary.AppendUvarint(packed, b[i].count), at
	}
	for i := range b {
		if flags&packedOffsets != 0 {
			packed = binary.AppendUvarint(packed, b[i].offsets)
		}
		if !none {
			unknown = binary.AppendUvarint(unknown, b[i].unknown)
		}
	}
	return packed, unknown
}

var errPacked = errors.New("damaged histogram of a roll-up")

// packedReader reads numbers.
type packedReader struct {
	text   string
	at     int
	failed bool
}

func (r *packedReader) next() uint64 {
	if r.at < len(r.text) && r.text[r.at] < 0x80 {
		r.at++
		return uint64(r.text[r.at-1])
	}
	return r.long()
}

// long reads a number of several bytes.
func (r *packedReader) long() (n uint64) {
	for i := range min(binary.MaxVarintLen64, len(r.text)-r.at) {
		c := r.text[r.at+i]
		n |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			r.at += i + 1
			return n
		}
	}
	r.at, r.failed = len(r.text), true
	return 0
}

// ended reports whether the text had the numbers that were read, and no more.
func (r *packedReader) ended() bool { return !r.failed && r.at == len(r.text) }

// packedHistogram is what unpack reads; its lists are reused.
type packedHistogram struct {
	// indices: at are indices of the layout, else bounds.
	indices bool
	at      []int64
	// counts are the numbers of values in each bucket, offsets the sums of their offsets; nil if there are none.
	counts, offsets []uint64
	// unknown: some values are not in offsets.
	unknown bool
	memory  []uint64
}

// unpack reads what pack has written.
func (h *packedHistogram) unpack(packed string) error {
	r := packedReader{text: packed}
	n, flags := r.next(), r.next()
	if n > uint64(len(packed)) || flags >= packedUnknown<<1 {
		return errPacked
	}
	h.indices, h.unknown = flags&packedIndices != 0, flags&packedUnknown != 0
	h.at, h.counts, h.offsets = h.at[:0], h.counts[:0], nil
	at := int64(0)
	for range n {
		distance := r.next()
		at += int64(distance>>1) ^ -int64(distance&1)
		if h.indices && (at > indexMost || at < -1-indexMost) {
			return errPacked
		}
		h.at, h.counts = append(h.at, at), append(h.counts, r.next())
	}
	if flags&packedOffsets != 0 {
		h.memory = h.memory[:0]
		for range n {
			h.memory = append(h.memory, r.next())
		}
		h.offsets = h.memory
	}
	if !r.ended() {
		return errPacked
	}
	return nil
}

// indexMost is the largest index of the layout, and -1-indexMost the least one.
var indexMost = int64(histogram.Index(math.MaxInt64))

// bound of a bucket.
func (h *packedHistogram) bound(i int) int64 {
	if h.indices {
		return histogram.Bound(int(h.at[i]))
	}
	return h.at[i]
}

// unpack appends the buckets of a packed histogram, whose memory h is.
func (b buckets) unpack(packed, unknown string, h *packedHistogram) (buckets, error) {
	if err := h.unpack(packed); err != nil {
		return b, err
	}
	r := packedReader{text: unknown}
	for i, count := range h.counts {
		one := bucket{bound: h.bound(i), count: count}
		if h.offsets != nil {
			one.offsets = h.offsets[i]
		}
		if unknown != "" {
			one.unknown = r.next()
		}
		b = append(b, one)
	}
	if !r.ended() {
		return b, errPacked
	}
	return b, nil
}
