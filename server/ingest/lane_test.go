package ingest

import (
	"fmt"
	"testing"
	"time"
)

// laneOf makes a shelf the archive of a lane.
type laneOf struct{ *shelf }

func (laneOf) Close() error { return nil }

// TestLaneCommitsWhatHasArrived: batches that arrive while a lane commits are one commit.
func TestLaneCommitsWhatHasArrived(t *testing.T) {
	s := newShelf()
	s.begun, s.hold = make(chan struct{}, 100), make(chan struct{})
	i := New(Options{Lanes: true, Linger: time.Nanosecond})
	defer i.Close()
	if err := i.OpenLane(t.Context(), 3, laneOf{s}, func() bool { return true }, nil); err != nil {
		t.Fatal(err)
	}
	a := &answers{got: map[string][]error{}}
	send := func(n int) {
		d := a.of(fmt.Sprint("agent", n), envelope(t, 0, 1))
		d.Lane = 3
		i.Accept(d)
	}
	send(0)
	<-s.begun // it is being committed
	const others = 20
	for n := range others {
		send(1 + n)
	}
	close(s.hold)
	a.all.Wait()
	if st := i.Lanes()[0]; st.Commits != 2 || st.Rows != 1+others || st.Failed != 0 {
		t.Errorf("%+v, want %d rows in 2 commits", st, 1+others)
	}
}
