package session

import (
	"fmt"
	"time"
)

// String is the duration as text, such as 1m30s.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the duration as String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a duration such as 1m30s; a number alone has no unit and is
// refused, but for 0.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("read duration: %q is not a time such as 500ms, 10s or 1h30m", text)
	}
	*d = Duration(parsed)
	return nil
}
