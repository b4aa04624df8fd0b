package collect

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/oml/omsp"
)

func TestTuplesBecomeRows(t *testing.T) {
	s := begin(t, Options{Linger: time.Millisecond}, "")
	first := s.dial(t, header("d", 1000, oneStream)+"0.5\t1\t1\t-7\ta\\tb\n1.5\t1\t2\t8\t\n")
	first.finish()
	second := s.dial(t, header("d", 1010, oneStream+"schema: 2 app_u x:double\n")+"0.25\t2\t1\t0.1\n0\t1\t1\t1\tz\n")
	second.finish()
	within(t, "both connections have ended", func() bool { return len(s.shelf.connections()) == 2 })
	if got, want := s.shelf.of("d_app_t_2"), []string{"s 1 -7 a\tb", "s 2 8 ", "s 1 1 z"}; !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
	if got := s.shelf.of("d_app_u_1"); !slices.Equal(got, []string{"s 1 0.1"}) {
		t.Errorf("rows of the other stream: %q", got)
	}
	for i, c := range s.shelf.connections() {
		if c.Domain != "d" || c.Sender != "s" || c.App != "app" || c.Tuples != 2 || c.Reason != "" || c.Ended.Before(c.Begun) {
			t.Errorf("connection %d: %+v", i, c)
		}
	}
}

func TestLinger(t *testing.T) {
	t.Run("while idle", func(t *testing.T) {
		s := begin(t, Options{Linger: 10 * time.Millisecond}, "")
		s.dial(t, header("d", 0, oneStream)+"0\t1\t1\t1\ta\n")
		within(t, "the row is stored although the client stays connected", func() bool { return len(s.shelf.of("d_app_t_2")) == 1 })
	})
	t.Run("while data trickles", func(t *testing.T) {
		s := begin(t, Options{Linger: 50 * time.Millisecond}, "")
		c := s.dial(t, header("d", 0, oneStream))
		seq := 0
		within(t, "rows are stored although more keep arriving", func() bool {
			seq++
			c.send(fmt.Sprintf("0\t1\t%d\t1\ta\n", seq))
			return len(s.shelf.of("d_app_t_2")) > 0
		})
	})
	t.Run("full batch", func(t *testing.T) {
		s := begin(t, Options{Linger: time.Hour, Rows: 3}, "")
		s.dial(t, header("d", 0, oneStream)+strings.Repeat("0\t1\t1\t1\ta\n", 7))
		within(t, "two batches of three are stored", func() bool { return len(s.shelf.of("d_app_t_2")) == 6 })
	})
}

func TestRedefinition(t *testing.T) {
	s := begin(t, Options{Linger: time.Hour}, "")
	c := s.dial(t, header("d", 0, "")+"0\t0\t1\t.\tschema\t1 app_t n:int64\n"+"0\t1\t1\t5\n"+
		"0\t0\t2\t.\tschema\t1 app_t n:int64 m:int64\n"+"0\t1\t2\t6\t7\n"+"0\t0\t3\t.\tschema\t1 app_t n:int64\n"+"0\t1\t3\t8\n"+"0\t0\t4\t.app_t\tunit\tms\n")
	c.finish()
	within(t, "the connection has ended", func() bool { return len(s.shelf.connections()) == 1 })
	if one, two := s.shelf.of("d_app_t_1"), s.shelf.of("d_app_t_2"); !slices.Equal(one, []string{"s 1 5", "s 3 8"}) || !slices.Equal(two, []string{"s 2 6 7"}) {
		t.Errorf("rows %q and %q", one, two)
	}
	if got := s.shelf.of("notes"); !slices.Equal(got, []string{"s 4 d .app_t unit ms"}) {
		t.Errorf("notes %q", got)
	}
	if got := s.shelf.connections()[0]; got.Gaps != 0 || got.Faults != 0 {
		t.Errorf("%+v", got)
	}
}

func TestFaultsAreCountedAndLoggedUpToALimit(t *testing.T) {
	s := begin(t, Options{}, "")
	var text strings.Builder
	for seq := range 100 {
		fmt.Fprintf(&text, "0\t1\t%d\tno number\ta\n", seq)
	}
	c := s.dial(t, header("d", 0, oneStream)+text.String()+"0\t1\t100\t1\ta\n0\t1\t105\t1\ta\n")
	c.finish()
	within(t, "the connection has ended", func() bool { return len(s.shelf.connections()) == 1 })
	got := s.shelf.connections()[0]
	if got.Faults != 100 || got.Tuples != 2 || got.Gaps != 4 || s.log.count("unreadable OML tuple") != loggedFaults {
		t.Errorf("%+v, %d logged", got, s.log.count("unreadable OML tuple"))
	}
}

func TestSkippedBytes(t *testing.T) {
	s := begin(t, Options{}, "")
	schema := omsp.Schema{Index: 1, Name: "app_t", Fields: []omsp.Field{{Name: "n", Type: omsp.Int64}, {Name: "word", Type: omsp.String}}}
	tuple := omsp.Tuple{Schema: &schema, Seq: 1, Values: make([]omsp.Value, 2)}
	tuple.Values[0].SetInt(omsp.Int64, 4)
	tuple.Values[1].SetString("w")
	packet, err := omsp.Append(nil, omsp.Binary, &tuple)
	if err != nil {
		t.Fatal(err)
	}
	c := s.dial(t, strings.Replace(header("d", 0, oneStream), "text", "binary", 1)+"garbage"+string(packet))
	c.finish()
	within(t, "the connection has ended", func() bool { return len(s.shelf.connections()) == 1 })
	if got := s.shelf.connections()[0]; got.Skipped != 7 || got.Tuples != 1 || !slices.Equal(s.shelf.of("d_app_t_2"), []string{"s 1 4 w"}) {
		t.Errorf("%+v, %q", got, s.shelf.of("d_app_t_2"))
	}
}

func TestRefusedClients(t *testing.T) {
	for _, test := range []struct{ name, text, reason string }{
		{"no token", header("d", 0, oneStream), "token"},
		{"wrong token", header("d", 0, oneStream+"pillion-token: wrong\n"), "token"},
		{"wrong token in domain", header("d?token=wrong", 0, oneStream), "token"},
		{"no header", "GET / HTTP/1.1\r\n\r\n", "header"},
		{"header without end", strings.Repeat("key: "+strings.Repeat("v", 1000)+"\n", 1000), "limit exceeded"},
		{"no protocol", "domain: d\n\n", "protocol"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := begin(t, Options{}, "secret")
			conn, err := net.Dial("tcp", s.address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(patience))
			io.WriteString(conn, test.text+"0\t1\t1\t1\ta\n") // it may be refused while it is sent
			if received, _ := io.ReadAll(conn); len(received) != 0 {
				t.Errorf("received %q", received)
			}
			within(t, "the log says why", func() bool { return s.log.count(test.reason) > 0 })
			if len(s.shelf.of("d_app_t_2")) != 0 || s.log.count("secret") != 0 {
				t.Error("a tuple was stored, or the secret is in the log")
			}
		})
	}
	for name, text := range map[string]string{
		"key": header("d", 0, oneStream+"pillion-token: secret\n"), "domain": header("d?token=secret", 0, oneStream),
	} {
		t.Run("valid token as "+name, func(t *testing.T) {
			s := begin(t, Options{}, "secret")
			s.dial(t, text+"0\t1\t1\t1\ta\n").finish()
			within(t, "the tuple is stored", func() bool { return len(s.shelf.of("d_app_t_2")) == 1 })
		})
	}
}

func TestMissingHeader(t *testing.T) {
	s := begin(t, Options{Idle: 20 * time.Millisecond}, "")
	s.dial(t, "protocol: 4\n").ended()
	within(t, "the log says that it was refused", func() bool { return s.log.count("refused OML client") == 1 })
}

// ended waits until the collector ends the connection.
func (c *client) ended() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.lines); err != nil || len(rest) != 0 {
		c.t.Fatalf("received %q, %v", rest, err)
	}
}

func TestTooManyConnections(t *testing.T) {
	s := begin(t, Options{Connections: 2, Linger: time.Millisecond}, "")
	for n := range 2 {
		s.dial(t, header(fmt.Sprint("d", n), 0, oneStream)+"0\t1\t1\t1\ta\n")
	}
	within(t, "two are served", func() bool { return len(s.shelf.of("d0_app_t_2"))+len(s.shelf.of("d1_app_t_2")) == 2 })
	third, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	third.SetDeadline(time.Now().Add(patience))
	if _, err := third.Read(make([]byte, 1)); err == nil {
		t.Error("received data")
	}
	if s.refused.Load() != 1 {
		t.Errorf("%d refused", s.refused.Load())
	}
}

func TestSlowDomainBlocksOnlyItself(t *testing.T) {
	s := begin(t, Options{Linger: time.Millisecond, Rows: 1, Outstanding: 1}, "")
	free := make(chan struct{})
	s.shelf.slow["slow"] = free
	s.dial(t, header("slow", 0, oneStream)+strings.Repeat("0\t1\t1\t1\ta\n", 10))
	s.dial(t, header("fast", 0, oneStream)+strings.Repeat("0\t1\t1\t1\ta\n", 10)).finish()
	within(t, "the other client is served", func() bool { return len(s.shelf.of("fast_app_t_2")) == 10 })
	if len(s.shelf.of("slow_app_t_2")) != 0 {
		t.Error("tuples of the slow domain are stored already")
	}
	close(free)
	within(t, "the slow domain is stored later", func() bool { return len(s.shelf.of("slow_app_t_2")) == 10 })
}

func TestCloseStoresReceivedTuples(t *testing.T) {
	s := begin(t, Options{Linger: time.Hour}, "")
	c := s.dial(t, header("d", 0, oneStream+"pillion-session: 000000000000000100000000000000ff\n"))
	c.expect("pillion 1", "go")
	c.send(strings.Repeat("0\t1\t1\t1\ta\n", 1) + "0\t1\t2\t2\tb\n")
	s.Close()
	if got := s.shelf.of("d_app_t_2"); len(got) != 2 {
		t.Errorf("kept %q", got)
	}
	c.expect("stored 1 2")
	if got := s.shelf.connections(); len(got) != 1 || got[0].Reason == "" {
		t.Errorf("%+v", got)
	}
}

func TestCloseDespiteFlood(t *testing.T) {
	s := begin(t, Options{}, "")
	c := s.dial(t, header("d", 0, oneStream))
	flooding := make(chan struct{})
	go func() {
		defer close(flooding)
		for text := []byte(strings.Repeat("0\t1\t1\t1\ta\n", 1000)); ; {
			if _, err := c.Write(text); err != nil {
				return
			}
		}
	}()
	within(t, "some tuples are stored", func() bool { return len(s.shelf.of("d_app_t_2")) > 0 })
	s.Close()
	<-flooding
}

func TestCloseIsBounded(t *testing.T) {
	for _, stuck := range []string{"storing", "writing"} {
		t.Run(stuck, func(t *testing.T) {
			s := begin(t, Options{Linger: time.Millisecond, Rows: 1, Outstanding: 1, Grace: 10 * time.Millisecond}, "")
			never := make(chan struct{})
			if stuck == "storing" {
				s.shelf.slow["d"] = never
			} else {
				s.shelf.undone["d"] = never
			}
			s.dial(t, header("d", 0, oneStream)+strings.Repeat("0\t1\t1\t1\ta\n", 10))
			within(t, "the collector has accepted the client", func() bool {
				s.shelf.mu.Lock()
				defer s.shelf.mu.Unlock()
				return len(s.shelf.starts) == 1
			})
			s.Close()
			close(never)
			s.serving.Wait()
		})
	}
}

func TestRefusedBatchIsCounted(t *testing.T) {
	s := begin(t, Options{}, "")
	s.shelf.refuse = true
	s.dial(t, header("d", 0, oneStream)+"0\t1\t1\t1\ta\n").finish()
	within(t, "it is counted", func() bool { c := s.shelf.connections(); return len(c) == 1 && c[0].Refused == 1 })
}

func TestRefusedTable(t *testing.T) {
	s := begin(t, Options{}, "")
	s.dial(t, header("d", 0, "schema: 1 forbidden n:int64\n")+"0\t1\t1\t1\n").ended()
	within(t, "the reason is recorded", func() bool {
		c := s.shelf.connections()
		return len(c) == 1 && strings.Contains(c[0].Reason, "no space")
	})
}
