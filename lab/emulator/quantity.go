package emulator

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time, written as Go writes it: 5ms, 200us, 1.5s.
type Duration time.Duration

// Fraction is a probability from 0 to 1, written as a percentage: 0.1%.
type Fraction float64

// Rate is a speed in bits per second, written as tc writes it: 100mbit. Zero
// means no limit.
type Rate int64

// Queue limits what waits for the rate, in packets (1000) or in bytes (64kB).
type Queue struct {
	Packets int64
	Bytes   int64
}

const (
	maxDuration = Duration(time.Hour)
	maxRate     = Rate(1e12)
	maxQueue    = 1 << 40
)

// UnmarshalText parses a duration from 0 to one hour.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(strings.TrimSpace(string(text)))
	if err != nil || parsed < 0 || Duration(parsed) > maxDuration {
		return fmt.Errorf("parse duration %q: not a time from 0s to 1h such as 5ms or 200us", text)
	}
	*d = Duration(parsed)
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText parses a percentage from 0% to 100%. Only zero needs no sign,
// because 1 could mean one percent or always.
func (f *Fraction) UnmarshalText(text []byte) error {
	number, percent := strings.CutSuffix(strings.TrimSpace(string(text)), "%")
	value, err := parseNumber(number)
	if err != nil || value > 100 || (!percent && value != 0) {
		return fmt.Errorf("parse fraction %q: not a percentage from 0%% to 100%% such as 0.5%%", text)
	}
	*f = Fraction(value / 100)
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (f Fraction) MarshalText() ([]byte, error) {
	return []byte(strconv.FormatFloat(float64(f)*100, 'g', -1, 64) + "%"), nil
}

// UnmarshalText parses a rate up to 1000gbit.
func (r *Rate) UnmarshalText(text []byte) error {
	word := strings.ToLower(strings.TrimSpace(string(text)))
	number, unit := splitUnit(word)
	factor, known := map[string]float64{"bit": 1, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}[unit]
	value, err := parseNumber(number)
	if word == "0" {
		factor, known = 1, true
	}
	if err != nil || !known || value*factor > float64(maxRate) || (value > 0 && value*factor < 1) {
		return fmt.Errorf("parse rate %q: not a speed such as 100mbit (bit, kbit, mbit, gbit)", text)
	}
	*r = Rate(math.Round(value * factor))
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (r Rate) MarshalText() ([]byte, error) {
	return []byte(strconv.FormatInt(int64(r), 10) + "bit"), nil
}

// UnmarshalText parses a number of packets or, with a unit, of bytes.
func (q *Queue) UnmarshalText(text []byte) error {
	number, unit := splitUnit(strings.ToLower(strings.TrimSpace(string(text))))
	factor, known := map[string]float64{
		"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "kib": 1 << 10, "mib": 1 << 20,
	}[unit]
	value, err := parseNumber(number)
	size := math.Round(value * factor)
	if err != nil || !known || size < 1 || size > maxQueue || (unit == "" && size != value) {
		return fmt.Errorf("parse queue %q: not a number of packets such as 1000 or of bytes such as 64kB", text)
	}
	if unit == "" {
		*q = Queue{Packets: int64(size)}
	} else {
		*q = Queue{Bytes: int64(size)}
	}
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (q Queue) MarshalText() ([]byte, error) {
	if q.Bytes > 0 {
		return []byte(strconv.FormatInt(q.Bytes, 10) + "B"), nil
	}
	return []byte(strconv.FormatInt(q.Packets, 10)), nil
}

// splitUnit cuts "1.5mbit" into "1.5" and "mbit".
func splitUnit(word string) (number, unit string) {
	end := strings.LastIndexAny(word, "0123456789.") + 1
	return word[:end], strings.TrimSpace(word[end:])
}

// parseNumber accepts plain decimal numbers only: no sign, no exponent, no inf.
func parseNumber(word string) (float64, error) {
	if strings.Trim(word, "0123456789.") != "" {
		return 0, fmt.Errorf("parse number %q: not a decimal number", word)
	}
	return strconv.ParseFloat(word, 64)
}
