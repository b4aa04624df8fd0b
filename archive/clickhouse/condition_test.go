package clickhouse

import (
	"errors"
	"testing"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure"
)

func TestCondition(t *testing.T) {
	s := &measure.Schema{Name: "s", Fields: []measure.Field{
		measure.TimeField, {Name: "v", Type: measure.Int64}, {Name: "u", Type: measure.Uint64}, {Name: "b", Type: measure.Bool}, {Name: "source", Type: measure.String}, {Name: "l", Type: measure.Int64List},
	}}
	where := map[string]string{"agent": "x'", "v": "-3", "u": "18446744073709551615", "b": "TRUE", "source": "a", "time": "2026-01-02 03:04:05.000000006"}
	got, err := dialect.Condition(s, nil, where, time.Unix(7200, 1), time.Unix(10_800, 0))
	want := "1 = 1 AND intDiv(time, 3600000000000) >= toInt64(2) AND time >= toInt64(7200000000001) AND intDiv(time, 3600000000000) <= toInt64(3) AND time < toInt64(10800000000000)" +
		" AND `agent` = 'x\\'' AND `b` = 1 AND `source` = 'a' AND ifNull(source, '') = 'a' AND `time` = toInt64(1767323045000000006) AND `u` = toUInt64(18446744073709551615) AND `v` = toInt64(-3)"
	if err != nil || got != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
	for column, value := range map[string]string{"v": "x", "u": "-1", "b": "perhaps", "l": "1", "none": "", "time": "yesterday"} {
		if _, err := dialect.Condition(s, nil, map[string]string{column: value}, time.Time{}, time.Time{}); !errors.Is(err, archive.ErrQuery) {
			t.Errorf("%s = %q: %v", column, value, err)
		}
	}
}
