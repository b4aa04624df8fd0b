package service

import (
	"errors"
	"testing"
	"time"

	"pillion.dev/oml/omsp/collect"
)

// TestAddressOfApplications: only loopback addresses are accepted.
func TestAddressOfApplications(t *testing.T) {
	for address, good := range map[string]bool{
		"": true, "off": true, DefaultOML: true, "localhost:3003": true, "[::1]:0": true, "127.0.0.9:1": true,
		":3003": false, "0.0.0.0:3003": false, "10.0.0.1:3003": false, "[::]:3003": false, "example.org:3003": false, "127.0.0.1": false, "on": false,
	} {
		if _, err := (Config{OML: address}).complete(); (err == nil) != good || err != nil && !errors.Is(err, ErrConfig) {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// TestBusyServer: an overloaded server counts like a full spool for a while.
func TestBusyServer(t *testing.T) {
	a := &applications{collector: collect.New(collect.Options{})}
	defer a.collector.Close()
	begun := time.Now()
	a.step(begun, 0)
	if n := a.thin.Load(); n != 0 {
		t.Errorf("%d initially", n)
	}
	a.busy.Store(begun.UnixNano())
	a.step(begun.Add(time.Second), 0)
	if n := a.thin.Load(); n != 2 {
		t.Errorf("%d while the server is busy", n)
	}
	a.step(begun.Add(time.Minute), 0)
	if n := a.thin.Load(); n != 1 {
		t.Errorf("%d when it is no longer busy", n)
	}
}
