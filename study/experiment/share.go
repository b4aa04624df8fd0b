package experiment

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"pillion.dev/internal/document"
	"pillion.dev/internal/quantity"
)

// Share is a part of one: 2% or 0.02.
type Share float64

// UnmarshalText reads a share, with or without the sign.
func (s *Share) UnmarshalText(text []byte) error {
	number, percent := strings.CutSuffix(strings.TrimSpace(string(text)), "%")
	value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		value /= 100
	}
	if err != nil || math.IsNaN(value) || value <= 0 || value >= 1 {
		return fmt.Errorf("%q is not a share between 0 and 100 %%, such as 2%%", text)
	}
	*s = Share(value)
	return nil
}

// UnmarshalYAML reads a share; its errors state the line.
func (s *Share) UnmarshalYAML(decode func(any) error) error { return document.Text(decode, s) }

// UnmarshalJSON reads a number.
func (s *Share) UnmarshalJSON(text []byte) error {
	var number float64
	err := json.Unmarshal(text, &number)
	*s = Share(number)
	return err
}

// String is the share in percent.
func (s Share) String() string { return Percent(float64(s)) }

// Percent writes a share with two significant figures: 2.1 %.
func Percent(share float64) string {
	v := share * 100
	digits := 2
	if v != 0 && !math.IsInf(v, 0) {
		digits = max(0, 1-int(math.Floor(math.Log10(math.Abs(v)))))
	}
	return strconv.FormatFloat(v, 'f', min(digits, 6), 64) + " %"
}

// round writes a duration for people.
func round(d time.Duration) string {
	switch {
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(100 * time.Millisecond)
	default:
		d = d.Round(time.Millisecond)
	}
	return quantity.FormatDuration(d)
}

// UnmarshalYAML reads a selection; its errors state the line.
func (w *Where) UnmarshalYAML(decode func(any) error) error { return document.Text(decode, w) }
