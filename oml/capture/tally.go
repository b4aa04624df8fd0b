package capture

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pillion.dev/measure"
)

// Tally counts packets by outcome. For packets that pass the filter:
// Seen = Decoded + the sum of Partial + the sum of Skipped. On a device also:
// packets the kernel received for us = Seen + Filtered + Dropped + Unread.
type Tally struct {
	Seen uint64 `json:"seen"`
	// Decoded packets gave rows for every supported header.
	Decoded uint64 `json:"decoded"`
	// Partial packets gave rows for outer headers but not for an inner one, by reason.
	Partial map[string]uint64 `json:"partial,omitempty"`
	// Skipped packets gave no row, by reason.
	Skipped map[string]uint64 `json:"skipped,omitempty"`
	// Filtered packets did not match the filter. It is 0 on a device, where the kernel filters and
	// does not count them.
	Filtered uint64 `json:"filtered"`
	// Dropped packets were dropped by the kernel because the buffer of the socket was full.
	Dropped uint64 `json:"dropped"`
	// Unread packets were still in the buffer of the socket at the end.
	Unread uint64 `json:"unread"`
}

// Reasons for which a packet is skipped, or decoded in part.
const (
	reasonShort     = "short"     // truncated within a header, by the snapshot length or before
	reasonMalformed = "malformed" // an invalid header
	reasonLink      = "link"      // an unsupported link layer
	reasonTime      = "time"      // no time in the file
	reasonDevice    = "device"    // received on another device before the socket was bound
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

// Sample returns the counts as a row of Counts, with the reasons in one text.
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

// String is a one-line summary.
func (t Tally) String() string {
	return fmt.Sprintf("%d packets = %d decoded + %s partial + %s skipped; %d filtered out, %d dropped by the kernel, %d unread",
		t.Seen, t.Decoded, reasons(t.Partial), reasons(t.Skipped), t.Filtered, t.Dropped, t.Unread)
}

func reasons(counts map[string]uint64) string {
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
