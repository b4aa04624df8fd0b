package capture

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pillion.dev/measure"
)

// Tally counts what became of packets. Of those that the filter let through:
// Seen = Decoded + the sum of Partial + the sum of Skipped. Of a device also:
// what the kernel had for us = Seen + Filtered + Dropped + Unread.
type Tally struct {
	Seen uint64 `json:"seen"`
	// Decoded packets gave rows for every header that we know.
	Decoded uint64 `json:"decoded"`
	// Partial packets gave rows for outer headers, not for an inner one, by reason.
	Partial map[string]uint64 `json:"partial,omitempty"`
	// Skipped packets gave no row, by reason.
	Skipped map[string]uint64 `json:"skipped,omitempty"`
	// Filtered did not fit the filter; a device's filter works in the kernel, which
	// does not count.
	Filtered uint64 `json:"filtered"`
	// Dropped by the kernel since we were too slow.
	Dropped uint64 `json:"dropped"`
	// Unread were still in the kernel at the end.
	Unread uint64 `json:"unread"`
}

// Reasons.
const (
	reasonShort     = "short"     // cut within a header, by the snap length or on the way
	reasonMalformed = "malformed" // a header that cannot be
	reasonLink      = "link"      // a link layer that is not known
	reasonDevice    = "device"    // of another device, before the socket was bound
)

func (t *Tally) count(o outcome) {
	t.Seen++
	switch {
	case o.reason == "":
		t.Decoded++
	case o.rows > 0:
		add(&t.Partial, o.reason)
	default:
		add(&t.Skipped, o.reason)
	}
}

func (t Tally) clone() Tally {
	t.Partial, t.Skipped = maps.Clone(t.Partial), maps.Clone(t.Skipped)
	return t
}

// Sample is a row of Counts.
func (t Tally) Sample(now time.Time, device string) measure.Sample {
	partial, why := counted(t.Partial)
	skipped, whyNot := counted(t.Skipped)
	return measure.Sample{
		measure.TimeValue(now), measure.StringValue(device), measure.Uint64Value(t.Seen), measure.Uint64Value(t.Decoded),
		measure.Uint64Value(partial), measure.Uint64Value(skipped), measure.Uint64Value(t.Dropped),
		measure.StringValue(strings.Join(append(why, whyNot...), ", ")),
	}
}

func add(counts *map[string]uint64, reason string) {
	if *counts == nil {
		*counts = map[string]uint64{}
	}
	(*counts)[reason]++
}

// String is one line for people.
func (t Tally) String() string {
	return fmt.Sprintf("%d packets = %d decoded + %s in part + %s skipped; %d filtered out, %d dropped by the kernel, %d unread",
		t.Seen, t.Decoded, told(t.Partial), told(t.Skipped), t.Filtered, t.Dropped, t.Unread)
}

func told(counts map[string]uint64) string {
	sum, words := counted(counts)
	if sum == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", sum, strings.Join(words, ", "))
}

func counted(counts map[string]uint64) (sum uint64, words []string) {
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		sum += counts[reason]
		words = append(words, fmt.Sprintf("%s %d", reason, counts[reason]))
	}
	return sum, words
}
