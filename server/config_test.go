package server

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pillion.dev/server/alarm"
)

func TestLossEvent(t *testing.T) {
	usual := alarm.Limit{Share: 0.01, Over: 10 * time.Second, Packets: 100}
	tests := map[string]struct {
		text string
		want alarm.Limit
		bad  bool
	}{
		"empty":        {"http: ':1'", usual, false},
		"off":          {"loss_event: {share: 0}", alarm.Limit{Over: usual.Over, Packets: usual.Packets}, false},
		"only packets": {"loss_event: {packets: 5}", alarm.Limit{Share: 0.01, Over: usual.Over, Packets: 5}, false},
		"all":          {"loss_event: {share: 0.2, over: 1m, packets: 7}", alarm.Limit{Share: 0.2, Over: time.Minute, Packets: 7}, false},
		"per cent":     {"loss_event: {share: 5}", usual, true},
		"negative":     {"loss_event: {share: -1}", usual, true},
		"no number":    {"loss_event: {share: .nan}", usual, true},
		"too short":    {"loss_event: {over: 1ms}", usual, true},
		"unknown key":  {"loss_event: {percent: 1}", usual, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "server.yaml")
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := ReadConfig(path)
			if errors.Is(err, ErrConfig) != test.bad {
				t.Fatalf("got %v", err)
			}
			if test.bad {
				return
			}
			if c, err = c.Complete(); err != nil || c.LossEvent.limit() != test.want {
				t.Errorf("got %+v, %v, want %+v", c.LossEvent.limit(), err, test.want)
			}
		})
	}
}
