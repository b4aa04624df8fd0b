//go:build long

package source

import "testing"

// TestLongTransparency: all encodings with all settings.
func TestLongTransparency(t *testing.T) { transparency(t, true) }

// TestLongAggregatesAreNamed: all fields in all encodings.
func TestLongAggregatesAreNamed(t *testing.T) { aggregatesAreNamed(t, true) }
