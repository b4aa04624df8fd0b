package traffic

import (
	"errors"
	"fmt"
	"time"

	"pillion.dev/send/schedule"
)

// Limit bounds what a task sends. Over a time T it sends at most what the rates allow in
// T + 1 s: a train may use the allowance of a second at once.
type Limit struct {
	// BitsPerSecond of frames, without their frame check sequences.
	BitsPerSecond    int64
	PacketsPerSecond int64
}

// ErrLimit marks packets beyond the limits of their task.
var ErrLimit = errors.New("limit exceeded")

// Check returns a function that is called for each packet in order and returns an error for
// those beyond the limit, which are not to be sent.
func (l Limit) Check() func(*schedule.Entry) error {
	bits, packets := float64(l.BitsPerSecond), float64(l.PacketsPerSecond)
	var last time.Duration
	return func(e *schedule.Entry) error {
		passed := (e.Due - last).Seconds()
		last = e.Due
		bits = min(float64(l.BitsPerSecond), bits+passed*float64(l.BitsPerSecond))
		packets = min(float64(l.PacketsPerSecond), packets+passed*float64(l.PacketsPerSecond))
		need := float64(e.Size) * 8
		switch {
		case packets < 1:
			return fmt.Errorf("%w: max_packets is %d packets/s", ErrLimit, l.PacketsPerSecond)
		case bits < need:
			return fmt.Errorf("%w: max_rate is %d bit/s", ErrLimit, l.BitsPerSecond)
		}
		packets--
		bits -= need
		return nil
	}
}
