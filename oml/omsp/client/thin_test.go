package client

import (
	"runtime"
	"slices"
	"testing"
)

// TestThin: the collector requests one sample in three, and then all again.
func TestThin(t *testing.T) {
	k := newShelf()
	address, _ := serve(t, k, "127.0.0.1:0", "")
	c, p := begin(t, Options{Address: address})
	l := &link{client: c}
	for n := range int64(20) {
		switch n {
		case 5:
			l.handle("thin 3")
		case 6:
			l.handle("thin 0") // not a valid number
		case 15:
			l.handle("thin 1")
		}
		if err := inject(p, n); err != nil {
			t.Fatal(err)
		}
		for n == 0 && c.Waiting() > 0 { // until it is connected: the greeting requests all
			runtime.Gosched()
		}
	}
	closed(t, c)
	// The shelf keeps numbers and values.
	want := []string{"1 0", "2 1", "3 2", "4 3", "5 4", "6 5", "7 8", "8 11", "9 14", "10 15", "11 16", "12 17", "13 18", "14 19"}
	if got := k.of("app_t"); !slices.Equal(got, want) {
		t.Errorf("rows %q", got)
	}
	if got := k.notes(); !slices.Equal(got, []string{".app_t thinned 3", ".app_t thinned 1"}) {
		t.Errorf("notes %q", got)
	}
}
