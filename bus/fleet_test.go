package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"pillion.dev/measure"
)

// servers are connections of several servers to one bus.
func servers(t *testing.T, n int) (all []*Server) {
	t.Helper()
	e := startEmbedded(t, newPKI(t))
	for range n {
		all = append(all, connectServer(t, ServerOptions{InProcess: e}))
	}
	return all
}

func TestCall(t *testing.T) {
	s := servers(t, 3)
	if _, err := s[0].Call(within(t), nil); !errors.Is(err, ErrNoLeader) {
		t.Errorf("a call without a leader: %v", err)
	}
	large := bytes.Repeat([]byte("large "), 3<<20)
	stop, err := s[1].ServeCalls(func(_ context.Context, request []byte) []byte {
		if len(request) == 0 {
			return large
		}
		return append([]byte("answer to "), request...)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range s {
		if answer, err := from.Call(within(t), []byte("a question")); string(answer) != "answer to a question" || err != nil {
			t.Errorf("got %q, %v", answer, err)
		}
		if answer, err := from.Call(within(t), nil); !bytes.Equal(answer, large) || err != nil {
			t.Errorf("got a large answer of %d bytes, %v", len(answer), err)
		}
	}
	if answer, err := s[0].Call(within(t), large); len(answer) != len("answer to ")+len(large) || err != nil {
		t.Errorf("a large call: got %d bytes, %v", len(answer), err)
	}
	if _, err := s[0].Call(within(t), make([]byte, CallMax+1)); err == nil {
		t.Error("a call beyond the limit is sent")
	}
	stop()
	if _, err := s[0].Call(within(t), nil); !errors.Is(err, ErrNoLeader) {
		t.Errorf("a call after the leader has stopped: %v", err)
	}
}

// A call ends with the caller's patience, at both ends.
func TestCallTimeout(t *testing.T) {
	s := servers(t, 2)
	ended, asked := make(chan error, 1), make(chan struct{})
	stop, err := s[1].ServeCalls(func(ctx context.Context, _ []byte) []byte {
		<-ctx.Done()
		ended <- ctx.Err()
		<-asked
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s[0].Call(ctx, []byte("x")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	close(asked)
	if err := await(t, "the handler is told", ended); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the handler's context ends with %v", err)
	}
}

// What a server has stored reaches the others once, and not itself.
func TestStored(t *testing.T) {
	s := servers(t, 3)
	type batch struct {
		server int
		agent  string
		measure.Envelope
	}
	heard := make(chan batch, 100)
	var stored []*Stored
	for i := range s {
		p, err := s[i].OpenStored(within(t), func(agent string, e measure.Envelope) { heard <- batch{i, agent, e} })
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, p)
	}
	for _, payload := range [][]byte{[]byte("small"), bytes.Repeat([]byte("large "), 1<<18)} {
		sent := measure.Envelope{
			Key: measure.Key{Stream: "flows", Epoch: 7, Sequence: 3}, Rows: 2, Oldest: 1, Checksum: measure.Checksum(payload), Payload: payload,
		}
		stored[0].Publish("north", sent)
		seen := map[int]bool{}
		for range 2 {
			got := await(t, "another server receives the batch", heard)
			seen[got.server] = true
			if got.agent != "north" || got.Key != sent.Key || got.Rows != 2 || !bytes.Equal(got.Payload, payload) {
				t.Errorf("server %d received %s %+v with %d bytes", got.server, got.agent, got.Key, len(got.Payload))
			}
		}
		if seen[0] || len(seen) != 2 {
			t.Errorf("received by %v, want 1 and 2", seen)
		}
	}
	for i, p := range stored {
		p.Close()
		want := StoredStats{Published: 2}
		if i > 0 {
			want = StoredStats{Received: 2}
		}
		if got := p.Stats(); got != want {
			t.Errorf("server %d counts %+v, want %+v", i, got, want)
		}
	}
	if len(heard) > 0 {
		t.Errorf("received again: %+v", <-heard)
	}
}

func TestAnnounced(t *testing.T) {
	s := servers(t, 2)
	heard := make(chan string, 10)
	for i := range s {
		if err := s[i].Announced(func(text []byte, _ time.Time) { heard <- fmt.Sprint(i, " ", string(text)) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := s[0].Announce([]byte("here")); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{await(t, "heard", heard): true, await(t, "heard", heard): true}
	if !got["0 here"] || !got["1 here"] {
		t.Errorf("heard %v", got)
	}
}

func FuzzParseStored(f *testing.F) {
	f.Add("pillion.stored.flows", "north", "1 0000000000000007 3 2 1 00000000 0 -", []byte("payload"))
	f.Add("pillion.stored.flows", "north", "1 0000000000000007 3 2 1 00000000 700 -", compress(bytes.Repeat([]byte("payload"), 100)))
	f.Fuzz(func(t *testing.T, subject, agent, header string, data []byte) {
		agent, batch, err := parseStored(&nats.Msg{Subject: subject, Data: data, Header: nats.Header{agentHeader: {agent}, batchHeader: {header}}})
		if err == nil && (!ValidAgent(agent) || !measure.ValidName(batch.Stream)) {
			t.Errorf("accepted %q, %+v", agent, batch)
		}
	})
}

func FuzzUnpackCall(f *testing.F) {
	f.Add("", []byte("x"))
	f.Add("700", compress(bytes.Repeat([]byte("payload"), 100)))
	f.Fuzz(func(t *testing.T, size string, data []byte) {
		m := &nats.Msg{Data: data, Header: nats.Header{}}
		if size != "" {
			m.Header[sizeHeader] = []string{size}
		}
		if content, err := unpackCall(m); err == nil && len(content) > max(CallMax, len(data)) {
			t.Errorf("%d bytes", len(content))
		}
	})
}
