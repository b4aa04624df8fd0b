//go:build long

package source

import "testing"

// TestLongTags: of marks with loss or delay alone.
func TestLongTags(t *testing.T) { tags(t, "loss", "delay") }
