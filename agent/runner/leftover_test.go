package runner

import (
	"log/slog"
	"testing"

	"github.com/vishvananda/netlink"

	"pillion.dev/internal/netns"
	"pillion.dev/measure"
	"pillion.dev/probe/hook"
	"pillion.dev/probe/source"
	"pillion.dev/session"
	"pillion.dev/wire"
)

// TestClsactFiltersOfKilledSource: on kernels before 6.6 the filters of a source outlive an
// agent that was killed; the next one removes them.
func TestClsactFiltersOfKilledSource(t *testing.T) {
	r := newRoad(t)
	filters := func() (n int) {
		l, err := netlink.LinkByName("out")
		if err != nil {
			t.Fatal(err)
		}
		for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
			found, err := netlink.FilterList(l, parent)
			if err != nil {
				t.Fatal(err)
			}
			n += len(found)
		}
		return n
	}
	if err := netns.Do(r.from, func() error {
		device, err := hook.Find("out")
		if err != nil {
			return err
		}
		settings := source.Settings{Policy: source.Policy{Modules: wire.Loss, Encodings: wire.EncodingList{wire.Shim}, Marking: wire.Marking{StampEvery: 1}}, Clsact: true}
		if _, err := source.Open(device, settings); err != nil { // and never closed
			return err
		}
		if n := filters(); n != 2 {
			t.Errorf("%d filters of a source", n)
		}
		next := New(Options{Sink: func(*measure.Schema, measure.Sample) {}, Log: slog.New(slog.DiscardHandler)})
		next.Apply(session.Assignment{Revision: 1}, nil)
		if n := filters(); n != 0 {
			t.Errorf("%d filters left", n)
		}
		return next.Close()
	}); err != nil {
		t.Fatal(err)
	}
}
