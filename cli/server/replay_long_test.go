//go:build long

package server

import "testing"

// TestLongReplayedReorderedCorrupted: more batches.
func TestLongReplayedReorderedCorrupted(t *testing.T) { replayedReorderedCorrupted(t, 200) }
