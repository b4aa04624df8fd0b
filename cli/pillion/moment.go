package pillion

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/cli/command"
	"pillion.dev/internal/quantity"
)

// moment is a time on the command line; the zero time means that the option was not given.
type moment struct{ time.Time }

// Decode parses the next argument, also if it begins with a hyphen, such as -1h.
func (m *moment) Decode(ctx *kong.DecodeContext) error {
	text, err := command.Pop(ctx)
	if err != nil {
		return err
	}
	m.Time, err = parseTime(text, time.Now())
	return err
}

// decodeTime parses a time for a field of type time.Time, in the same way as moment.
func decodeTime(ctx *kong.DecodeContext, target reflect.Value) error {
	var m moment
	err := m.Decode(ctx)
	target.Set(reflect.ValueOf(m.Time))
	return err
}

// message returns the time as a message of the API; nil if the option was not given.
func (m moment) message() *timestamppb.Timestamp {
	if m.IsZero() {
		return nil
	}
	return timestamppb.New(m.Time)
}

// timeLayouts are the accepted formats. A time without a time zone is in the time zone of this machine.
var timeLayouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02",
}

// parseTime parses a time in RFC 3339; a date, today, yesterday or tomorrow, each with or without a
// time of day; a time of day alone; now; or a duration before (-1h) or after (+1h) now.
func parseTime(text string, now time.Time) (time.Time, error) {
	text = strings.TrimSpace(text)
	bad := fmt.Errorf("%q is not a time such as 2026-01-31T14:00:00Z, now, -1h, +30m, today 14:00", text)
	if text == "now" {
		return now, nil
	}
	if strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+") {
		d, err := quantity.ParseDuration(text[1:])
		if err != nil || d < 0 {
			return time.Time{}, bad
		}
		if text[0] == '-' {
			d = -d
		}
		return now.Add(d), nil
	}
	for _, layout := range timeLayouts {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			if t.Year() < 1970 || t.Year() > 2261 {
				return time.Time{}, fmt.Errorf("%q is outside the years 1970 to 2261", text)
			}
			return t, nil
		}
	}
	day, clock, _ := strings.Cut(text, " ")
	offset, named := map[string]int{"today": 0, "yesterday": -1, "tomorrow": 1}[day]
	if !named {
		offset, clock = 0, text
	}
	hour, minute, second := 0, 0, 0
	if clock = strings.TrimSpace(clock); clock != "" {
		t, err := time.Parse("15:04", clock)
		if err != nil {
			t, err = time.Parse("15:04:05", clock)
		}
		if err != nil {
			return time.Time{}, bad
		}
		hour, minute, second = t.Clock()
	} else if !named {
		return time.Time{}, bad
	}
	return time.Date(now.Year(), now.Month(), now.Day()+offset, hour, minute, second, 0, now.Location()), nil
}

// when returns a table cell with a time: local for people, UTC in RFC 3339 for programs.
func when(t *timestamppb.Timestamp) cell {
	if t == nil || t.AsTime().IsZero() {
		return text("")
	}
	return cell{shown: t.AsTime().Local().Format(time.DateTime), plain: t.AsTime().Format(time.RFC3339Nano)}
}

// ago returns a table cell with the time that has passed since t, for people, and t for programs.
func ago(t *timestamppb.Timestamp) cell {
	c := when(t)
	if c.plain == "" {
		return c
	}
	if d := time.Since(t.AsTime()); d < 0 {
		c.shown = "in " + roughly(-d)
	} else {
		c.shown = roughly(d) + " ago"
	}
	return c
}

// roughly formats a duration in one unit, rounded down: days, hours, minutes or seconds.
func roughly(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= 2*time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// length returns a table cell with a duration.
func length(d *durationpb.Duration) cell {
	if d == nil {
		return text("")
	}
	return cell{shown: quantity.FormatDuration(d.AsDuration()), plain: d.AsDuration().String()}
}
