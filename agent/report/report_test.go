package report

import (
	"errors"
	"testing"
)

// TestNoCollector: a program without a collector refuses its address.
func TestNoCollector(t *testing.T) {
	if _, err := Open(Options{URI: "127.0.0.1:3003"}); !errors.Is(err, ErrURI) {
		t.Errorf("got %v", err)
	}
}
