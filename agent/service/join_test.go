package service

import (
	"testing"
	"time"
)

func TestRenewIn(t *testing.T) {
	at := func(d time.Duration) time.Time { return time.Unix(1e9, 0).Add(d) }
	const day = 24 * time.Hour
	for _, test := range []struct {
		name              string
		now, due, expires time.Duration
		want              time.Duration
	}{
		{"a year's", 0, 240 * day, 360 * day, time.Hour},
		{"half an hour's", 0, 20 * time.Minute, 30 * time.Minute, 20 * time.Minute},
		{"half a minute's", 0, 20 * time.Second, 30 * time.Second, 20 * time.Second},
		{"failed, a year's", 240 * day, 240 * day, 360 * day, time.Hour},
		{"failed, half an hour's", 21 * time.Minute, 20 * time.Minute, 30 * time.Minute, time.Minute},
		{"failed, half a minute's", 21 * time.Second, 20 * time.Second, 30 * time.Second, time.Second},
		{"expired", time.Hour, 20 * time.Second, 30 * time.Second, time.Second},
		{"clock set back by years", -1000 * day, 240 * day, 360 * day, time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := renewIn(at(test.now), at(test.due), at(test.expires)); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
