package codec_test

import (
	"testing"
	"time"

	"pillion.dev/wire/test/codec"
)

func at(t *testing.T, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The oracle is RFC 5905, figure 4, and the era edge at 2036-02-07 06:28:16.
func TestTimestampOf(t *testing.T) {
	for _, test := range []struct {
		name, time string
		want       codec.Timestamp
	}{
		{"first day of era 0", "1900-01-01T00:00:00Z", 0},
		{"first day of UNIX", "1970-01-01T00:00:00Z", 2208988800 << 32},
		{"half a second", "1970-01-01T00:00:00.5Z", 2208988800<<32 | 1<<31},
		{"first day UTC", "1972-01-01T00:00:00Z", 2272060800 << 32},
		{"last day of the 20th century", "1999-12-31T00:00:00Z", 3155587200 << 32},
		{"before UNIX", "1969-12-31T23:59:59.75Z", 2208988799<<32 | 3<<30},
		{"one nanosecond, rounded down", "1970-01-01T00:00:00.000000001Z", 2208988800<<32 | 4},
		{"last second of era 0", "2036-02-07T06:28:15Z", 0xffffffff << 32},
		{"first second of era 1", "2036-02-07T06:28:16Z", 0},
		{"era 1", "2036-02-07T06:28:17.25Z", 1<<32 | 1<<30},
		{"other zone", "1970-01-01T02:00:00+02:00", 2208988800 << 32},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := codec.TimestampOf(at(t, test.time)); got != test.want {
				t.Errorf("TimestampOf(%s) = %v, want %v", test.time, got, test.want)
			}
		})
	}
}

func TestTimestampNear(t *testing.T) {
	const lastSecond, firstSecond = 0xffffffff << 32, codec.Timestamp(0)
	for _, test := range []struct {
		name      string
		timestamp codec.Timestamp
		ref, want string
	}{
		{"same era", 3155587200 << 32, "2026-11-21T00:00:00Z", "1999-12-31T00:00:00Z"},
		{"both before the edge", lastSecond, "2036-02-07T06:28:14Z", "2036-02-07T06:28:15Z"},
		{"both after the edge", 1 << 32, "2036-02-07T06:28:20Z", "2036-02-07T06:28:17Z"},
		{"after the edge, seen from before", firstSecond, "2036-02-07T06:28:15.9Z", "2036-02-07T06:28:16Z"},
		{"before the edge, seen from after", lastSecond | 1<<31, "2036-02-07T06:28:16Z", "2036-02-07T06:28:15.5Z"},
		{"era 1 seen from today", 100 << 32, "2026-11-21T00:00:00Z", "2036-02-07T06:29:56Z"},
		{"era 0 seen from 1970", firstSecond, "1920-01-01T00:00:00Z", "1900-01-01T00:00:00Z"},
		{"era 1 to era 2", firstSecond, "2172-03-15T12:56:31Z", "2172-03-15T12:56:32Z"},
		{"fraction rounds up to a second", 2208988800<<32 | 0xffffffff, "1970-01-01T00:00:00Z", "1970-01-01T00:00:01Z"},
		{"ref in another zone", lastSecond, "2036-02-07T09:28:14+03:00", "2036-02-07T06:28:15Z"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := test.timestamp.Near(at(t, test.ref))
			if want := at(t, test.want); !got.Equal(want) || got.Location() != time.UTC {
				t.Errorf("%v.Near(%s) = %v, want %v", test.timestamp, test.ref, got, want)
			}
		})
	}
}

func TestTimestampKeepsNanoseconds(t *testing.T) {
	edge := at(t, "2036-02-07T06:28:16Z")
	for _, second := range []int{-1 << 30, -2, -1, 0, 1, 1 << 30} {
		base := edge.Add(time.Duration(second) * time.Second)
		for _, ns := range []int{0, 1, 2, 3, 499999999, 500000000, 999999998, 999999999} {
			want := base.Add(time.Duration(ns))
			if got := codec.TimestampOf(want).Near(edge); !got.Equal(want) {
				t.Errorf("%v came back as %v", want, got)
			}
		}
	}
}

func TestTimestampString(t *testing.T) {
	if got, want := codec.Timestamp(0xeea94a97_00000001).String(), "eea94a97.00000001"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTimestampSub(t *testing.T) {
	edge := at(t, "2036-02-07T06:28:16Z")
	for _, test := range []struct {
		name string
		from time.Duration // sent, relative to the edge
		want time.Duration
	}{
		{"before the edge", -time.Minute, time.Second},
		{"after the edge", time.Minute, time.Second},
		{"across the edge", -time.Nanosecond, 2 * time.Nanosecond},
		{"across the edge, negative", time.Millisecond, -2 * time.Millisecond},
		{"zero", 0, 0},
		{"one nanosecond", -5, 1},
		{"minus one nanosecond", 5, -1},
		{"minus a second and a half", -time.Hour, -1500 * time.Millisecond},
		{"60 years", -time.Hour, 60 * 365 * 24 * time.Hour},
		{"minus 60 years", time.Hour, -60 * 365 * 24 * time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			sent := edge.Add(test.from)
			received := sent.Add(test.want)
			if got := codec.TimestampOf(received).Sub(codec.TimestampOf(sent)); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
