//go:build verify

package server

import "testing"

// TestVerifyReplayedReorderedCorrupted: more batches.
func TestVerifyReplayedReorderedCorrupted(t *testing.T) { replayedReorderedCorrupted(t, 200) }
