package server

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLossEvent(t *testing.T) {
	type limit struct {
		share   string
		over    time.Duration
		packets uint64
	}
	usual := limit{"0.01", 10 * time.Second, 100}
	tests := map[string]struct {
		text string
		want limit
		bad  bool
	}{
		"empty":        {"http: ':1'", usual, false},
		"off":          {"loss_event: {share: 0}", limit{}, false},
		"only packets": {"loss_event: {packets: 5}", limit{"0.01", usual.over, 5}, false},
		"all":          {"loss_event: {share: 0.2, over: 1m, packets: 7}", limit{"0.2", time.Minute, 7}, false},
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
			if c, err = c.Complete(); err != nil {
				t.Fatal(err)
			}
			got := limit{}
			if rules := c.LossEvent.rules(); len(rules) > 0 {
				got = limit{rules[0].Above, rules[0].Over, rules[0].Packets}
			}
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestPageURL: links in notifications are absolute, or there are none.
func TestPageURL(t *testing.T) {
	for _, row := range []struct {
		config Config
		want   string // of links; "invalid": the configuration is
	}{
		{Config{}, ""},
		{Config{Hosts: []string{"noc.example", "192.0.2.1"}}, "https://noc.example:8470"},
		{Config{URL: "https://noc.example/pillion/", Hosts: []string{"other"}}, "https://noc.example/pillion"},
		{Config{URL: "noc.example"}, "invalid"},
		{Config{URL: "/pillion"}, "invalid"},
		{Config{URL: "ftp://noc.example"}, "invalid"},
		{Config{URL: "https://noc.example/#/alarms"}, "invalid"},
		{Config{URL: "https://ann:secret@noc.example"}, "invalid"},
	} {
		c, err := row.config.Complete()
		if got := c.pageURL(); errors.Is(err, ErrConfig) != (row.want == "invalid") || err == nil && got != row.want {
			t.Errorf("%q, hosts %v: got %q, %v, want %q", row.config.URL, row.config.Hosts, got, err, row.want)
		}
	}
}

func TestOutboundAddresses(t *testing.T) {
	c, err := Config{OutboundAddresses: []string{"192.0.2.7", "10.0.0.0/8", "2001:db8::/32"}}.Complete()
	if to, failed := c.outbound(); err != nil || failed != nil || len(to) != 3 {
		t.Errorf("got %v, %v, %v", to, err, failed)
	}
	if _, err := (Config{OutboundAddresses: []string{"noc.example"}}).Complete(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "outbound_addresses") {
		t.Errorf("got %v", err)
	}
}
