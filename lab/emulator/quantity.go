package emulator

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"pillion.dev/internal/document"
	"pillion.dev/internal/quantity"
)

// Duration is a time from 0 to one hour, such as 5ms.
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
	parsed, err := quantity.ParseDuration(string(text))
	if err != nil || parsed < 0 || Duration(parsed) > maxDuration {
		return fmt.Errorf("parse duration %q: not a time from 0s to 1h such as 5ms or 200us", text)
	}
	*d = Duration(parsed)
	return nil
}

// UnmarshalYAML is UnmarshalText with the line in errors.
func (d *Duration) UnmarshalYAML(decode func(any) error) error { return document.Text(decode, d) }

// MarshalText writes what UnmarshalText reads.
func (d Duration) MarshalText() ([]byte, error) { return quantity.Duration(d).MarshalText() }

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

// UnmarshalYAML is UnmarshalText with the line in errors.
func (f *Fraction) UnmarshalYAML(decode func(any) error) error { return document.Text(decode, f) }

// MarshalText writes what UnmarshalText reads.
func (f Fraction) MarshalText() ([]byte, error) {
	return []byte(strconv.FormatFloat(float64(f)*100, 'f', -1, 64) + "%"), nil
}

// UnmarshalText parses a rate up to 1000gbit.
func (r *Rate) UnmarshalText(text []byte) error {
	number, isRate := strings.CutSuffix(strings.ToLower(strings.TrimSpace(string(text))), "bit")
	value, err := quantity.ParseSize(number)
	if err != nil || value > int64(maxRate) || strings.HasSuffix(number, "b") || !isRate && value != 0 {
		return fmt.Errorf("parse rate %q: not a rate such as 100mbit (bit, kbit, mbit, gbit)", text)
	}
	*r = Rate(value)
	return nil
}

// UnmarshalYAML is UnmarshalText with the line in errors.
func (r *Rate) UnmarshalYAML(decode func(any) error) error { return document.Text(decode, r) }

// MarshalText writes what UnmarshalText reads.
func (r Rate) MarshalText() ([]byte, error) {
	return []byte(strconv.FormatInt(int64(r), 10) + "bit"), nil
}

// UnmarshalText parses a number of packets or, with a unit that ends in B, of bytes.
func (q *Queue) UnmarshalText(text []byte) error {
	size, err := quantity.ParseSize(string(text))
	if err != nil || size < 1 || size > maxQueue {
		return fmt.Errorf("parse queue %q: not a number of packets such as 1000 or of bytes such as 64kB", text)
	}
	if strings.HasSuffix(strings.ToLower(strings.TrimSpace(string(text))), "b") {
		*q = Queue{Bytes: size}
	} else {
		*q = Queue{Packets: size}
	}
	return nil
}

// UnmarshalYAML is UnmarshalText with the line in errors.
func (q *Queue) UnmarshalYAML(decode func(any) error) error { return document.Text(decode, q) }

// MarshalText writes what UnmarshalText reads.
func (q Queue) MarshalText() ([]byte, error) {
	if q.Bytes > 0 {
		return []byte(strconv.FormatInt(q.Bytes, 10) + "B"), nil
	}
	return []byte(strconv.FormatInt(q.Packets, 10)), nil
}

// parseNumber accepts plain decimal numbers only: no sign, no exponent, no inf.
func parseNumber(word string) (float64, error) {
	if strings.Trim(word, "0123456789.") != "" {
		return 0, fmt.Errorf("parse number %q: not a decimal number", word)
	}
	return strconv.ParseFloat(word, 64)
}
