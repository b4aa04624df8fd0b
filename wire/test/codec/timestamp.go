package codec

import (
	"fmt"
	"time"
)

// NTPUnix is the number of seconds from the NTP epoch (1900) to the UNIX
// epoch (1970), RFC 5905.
const NTPUnix = 2208988800

// A Timestamp is an NTP 64-bit timestamp (RFC 5905, section 6): 32 bits of
// seconds since 1900, UTC, and 32 bits of fraction in units of 2^-32 s. It
// wraps every 2^32 s: era 0 ends on 2036-02-07 06:28:16. Zero stands for "not
// filled in".
type Timestamp uint64

// TimestampOf returns t as a Timestamp, whatever its era. The fraction is
// rounded down, by less than a quarter of a nanosecond; Near restores the
// nanosecond.
func TimestampOf(t time.Time) Timestamp {
	seconds := uint32(t.Unix() + NTPUnix)
	fraction := uint64(t.Nanosecond()) << 32 / 1e9
	return Timestamp(uint64(seconds)<<32 | fraction)
}

// Near returns the time that t stands for in the era that puts it nearest to
// ref, to the nearest nanosecond and in UTC. It is right as long as the true
// time is within 68 years of ref.
func (t Timestamp) Near(ref time.Time) time.Time {
	from := ref.Unix() + NTPUnix
	away := int32(uint32(t>>32) - uint32(from))
	return time.Unix(from+int64(away)-NTPUnix, nanoseconds(uint32(t))).UTC()
}

// Sub returns t-u modulo one era, to the nearest nanosecond: right whenever
// the two are less than 68 years apart, also across the end of an era.
func (t Timestamp) Sub(u Timestamp) time.Duration {
	difference := int64(t - u)
	return time.Duration(difference>>32)*time.Second + time.Duration(nanoseconds(uint32(difference)))
}

// String returns seconds and fraction in hexadecimal, as NTP tools do.
func (t Timestamp) String() string {
	return fmt.Sprintf("%08x.%08x", uint32(t>>32), uint32(t))
}

// nanoseconds rounds a fraction to nanoseconds; the result may be a full second.
func nanoseconds(fraction uint32) int64 {
	return int64((uint64(fraction)*1e9 + 1<<31) >> 32)
}
