//go:build verify

package lab_test

import (
	"testing"
	"time"

	"pillion.dev/internal/test/figure"
)

// TestVerifyObstaclesAreNamed: from an obstacle to the state of the task and an event that name it.
func TestVerifyObstaclesAreNamed(t *testing.T) {
	obstaclesAreNamed(t, func(t testing.TB, what string, after time.Duration) {
		figure.AtMost(t, what, after.Seconds(), 5, "s")
	})
}
