package wire_test

import (
	"testing"

	"pillion.dev/wire"
)

func TestContentServes(t *testing.T) {
	for _, row := range []struct {
		name    string
		content wire.Content
		modules wire.Module
		want    bool
	}{
		{"number for delay", wire.CarriesNumber, wire.Delay, false},
		{"number for both", wire.CarriesNumber | wire.CarriesEcho, wire.Delay | wire.Loss, true},
		{"time for loss", wire.CarriesTime, wire.Loss, false},
		{"block for delay", wire.CarriesBlock, wire.Delay, true},
	} {
		if got := row.content.Serves(row.modules); got != row.want {
			t.Errorf("%s: %v", row.name, got)
		}
	}
}

func TestContent(t *testing.T) {
	both := wire.Delay | wire.Loss
	for _, test := range []struct {
		name     string
		content  wire.Content
		text     string
		measures string
		allowed  []wire.Module
	}{
		{"empty", 0, "nothing", "", nil},
		{"number", wire.CarriesNumber, "number", "loss, reordering, duplication", []wire.Module{wire.Loss}},
		{"time", wire.CarriesTime, "time", "one-way delay", []wire.Module{wire.Delay}},
		{"number and echo", wire.CarriesNumber | wire.CarriesEcho, "number,echo",
			"loss, reordering, duplication; round-trip time", []wire.Module{wire.Loss}},
		{"block", wire.CarriesBlock, "block", "loss and delay per block", []wire.Module{wire.Delay, wire.Loss, both}},
		{"own", wire.Native.Carries(), "number,time,sparse,modules",
			"loss, reordering, duplication; one-way delay", []wire.Module{wire.Delay, wire.Loss, both}},
		{"unknown encoding", wire.Encoding(99).Carries(), "nothing", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.content.String(); got != test.text {
				t.Errorf("String is %q, want %q", got, test.text)
			}
			if got := test.content.Measures(); got != test.measures {
				t.Errorf("Measures is %q, want %q", got, test.measures)
			}
			for _, m := range modules {
				want := false
				for _, allowed := range test.allowed {
					want = want || m == allowed
				}
				if got := test.content.Allows(m); got != want {
					t.Errorf("Allows(%v) is %v", m, got)
				}
			}
		})
	}
}
