//go:build long

package runner

import "testing"

func TestLongKilled(t *testing.T) { killed(t, 40, "60") }
