//go:build long

package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TestLongCampaign: a minute of faults, drawn anew each time; SEED repeats one. `make
// campaign` runs half an hour.
func TestLongCampaign(t *testing.T) {
	requireFUSE(t)
	bin, err := filepath.Abs("../../../bin")
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64N(1e9) + 1
	if text := os.Getenv("SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	if err := campaign(t.Context(), settings{seconds: 60, agents: 3, seed: seed, bin: bin, checkpoint: 30 * time.Second}); err != nil {
		t.Fatalf("with SEED=%d: %v", seed, err)
	}
}
