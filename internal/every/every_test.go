package every

import (
	"context"
	"testing"
	"time"
)

// TestDo: it calls again and again, and returns when the context ends.
func TestDo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	Do(ctx, time.Millisecond, func() {
		if calls++; calls == 3 {
			cancel()
		}
	})
	if calls < 3 {
		t.Errorf("%d calls", calls)
	}
}
