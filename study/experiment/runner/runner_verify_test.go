//go:build verify

package runner

import "testing"

func TestVerifyKilled(t *testing.T) { killed(t, 40, "60") }
