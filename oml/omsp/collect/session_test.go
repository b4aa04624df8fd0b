package collect

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

const session = "pillion-session: 00000000000000010000000000000000\n"

func TestSessionResumes(t *testing.T) {
	s := begin(t, Options{Linger: time.Millisecond}, "")
	head := header("d", 0, oneStream+session)
	c := s.dial(t, head)
	c.expect("pillion 1", "go")
	c.send("0\t1\t1\t1\ta\n0\t0\t1\t.\tk\tv\n")
	first, err := c.lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	second, _ := c.lines.ReadString('\n')
	if both := []string{first, second}; !slices.Contains(both, "stored 1 1\n") || !slices.Contains(both, "stored 0 1\n") {
		t.Fatalf("received %q", both)
	}
	c.Close()
	c = s.dial(t, head)
	c.expect("pillion 1")
	first, _ = c.lines.ReadString('\n')
	second, _ = c.lines.ReadString('\n')
	if both := []string{first, second}; !slices.Contains(both, "stored 1 1\n") || !slices.Contains(both, "stored 0 1\n") {
		t.Fatalf("received %q", both)
	}
	c.expect("go")
	c.send("0\t1\t1\t1\ta\n0\t0\t1\t.\tk\tv\n0\t1\t2\t2\tb\n") // the first two are retransmitted without need
	within(t, "the new tuple is kept", func() bool { return len(s.shelf.of("d_app_t_2")) == 2 })
	c.Close()
	within(t, "both connections have ended", func() bool { return len(s.shelf.connections()) == 2 })
	if got := s.shelf.of("d_app_t_2"); !slices.Equal(got, []string{"s 1 1 a", "s 2 2 b"}) {
		t.Errorf("rows %q", got)
	}
	if got := s.shelf.of("notes"); !slices.Equal(got, []string{"s 1 d . k v"}) {
		t.Errorf("notes %q", got)
	}
	if again := s.shelf.connections()[1]; again.Again != 2 || again.Tuples != 1 || again.Gaps != 0 {
		t.Errorf("%+v", again)
	}
}

// TestSessionReconnectsEarly: tuples of the previous connection are still being written
// when the client reconnects. They must not be stored twice.
func TestSessionReconnectsEarly(t *testing.T) {
	s := begin(t, Options{Linger: time.Millisecond}, "")
	free := make(chan struct{})
	s.shelf.undone["d"] = free
	head := header("d", 0, oneStream+session)
	c := s.dial(t, head)
	c.expect("pillion 1", "go")
	c.send("0\t1\t1\t1\ta\n")
	within(t, "the batch is pending", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.sessions) == 1 && len(onlyOf(s.sessions).under) == 1
	})
	again := s.dial(t, head)
	again.expect("pillion 1")
	again.send("0\t1\t1\t1\ta\n0\t1\t2\t2\tb\n")
	close(free)
	again.expect("stored 1 1", "go")
	again.expect("stored 1 2")
	if got := s.shelf.of("d_app_t_2"); !slices.Equal(got, []string{"s 1 1 a", "s 2 2 b"}) {
		t.Errorf("rows %q", got)
	}
}

// TestDefinitionsAreAcknowledged: they are not stored, but the client need not keep them.
func TestDefinitionsAreAcknowledged(t *testing.T) {
	s := begin(t, Options{Linger: time.Millisecond}, "")
	c := s.dial(t, header("d", 0, session))
	c.expect("pillion 1", "go")
	c.send("0\t0\t1\t.\tschema\t1 app_t n:int64\n")
	c.expect("stored 0 1")
	c.send("0\t1\t3\t7\n")
	c.expect("stored 1 3")
	c.CloseWrite()
	c.expect()
	within(t, "it has ended", func() bool { return len(s.shelf.connections()) == 1 })
	if got := s.shelf.connections()[0]; got.Gaps != 2 { // including those before its first tuple
		t.Errorf("%+v", got)
	}
}

// TestStreamsOfOneTable: their sequence numbers are independent.
func TestStreamsOfOneTable(t *testing.T) {
	s := begin(t, Options{Linger: time.Millisecond}, "")
	head := header("d", 0, "schema: 1 t n:int64\nschema: 2 t n:int64\n"+session)
	for round := range int64(2) {
		c := s.dial(t, head)
		c.expect("pillion 1")
		for line := ""; line != "go\n"; {
			var err error
			if line, err = c.lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		for seq := range 3 + round {
			c.send(fmt.Sprintf("0\t1\t%d\t1\n0\t2\t%d\t2\n", seq+1, seq+1))
		}
		within(t, "all are stored once", func() bool { return len(s.shelf.of("d_t_1")) == int(6+2*round) })
		c.Close()
	}
}

func TestInvalidSessions(t *testing.T) {
	for _, text := range []string{"x", "00", "zz00000000000000"} {
		s := begin(t, Options{}, "")
		s.dial(t, header("d", 0, "pillion-session: "+text+"\n")).ended()
		within(t, "it has ended", func() bool { return len(s.shelf.connections()) == 1 && s.shelf.connections()[0].Reason != "" })
	}
}

func onlyOf(sessions map[sessionOf]*connection) *connection {
	for _, c := range sessions {
		return c
	}
	return nil
}
