package control

import (
	"testing"
)

// TestNumbersOfEarlierVersions: agents that enrolled before there were numbers get theirs when
// the server starts.
func TestNumbersOfEarlierVersions(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h2", "h1")
		b.control.mu.Lock()
		for _, a := range b.control.agents {
			a.Number = 0
			b.control.changed.agent(a.Name)
		}
		b.control.mu.Unlock()
		b.stop()
		b.boot()
		b.control.mu.Lock()
		defer b.control.mu.Unlock()
		if first, second := b.control.agents["h1"].Number, b.control.agents["h2"].Number; first != 1 || second != 2 {
			t.Errorf("numbers %d and %d", first, second)
		}
	})
}
