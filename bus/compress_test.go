package bus

import (
	"bytes"
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"pillion.dev/measure"
)

// compressible is a batch with a payload that becomes smaller.
func compressible(sequence uint64) measure.Envelope {
	payload := []byte(strings.Repeat("one row like another; ", 500))
	return measure.Envelope{Key: measure.Key{Stream: "flows", Epoch: 1, Sequence: sequence}, Rows: 1, Checksum: measure.Checksum(payload), Payload: payload}
}

// incompressible is a batch with a payload of that size, bytes, that does not become smaller.
func incompressible(sequence uint64, size int) measure.Envelope {
	payload := make([]byte, size)
	_, _ = rand.Read(payload) // never fails
	e := compressible(sequence)
	e.Checksum, e.Payload = measure.Checksum(payload), payload
	return e
}

// TestCompressedBatches: an agent learns from the first reply that the server reads compressed
// batches, and the handler gets what was sent.
func TestCompressedBatches(t *testing.T) {
	p := newPKI(t)
	e := startEmbedded(t, p)
	s := connectServer(t, ServerOptions{InProcess: e})
	got := make(chan Delivery, 10)
	if err := s.ServeData(func(d Delivery) { got <- d; d.Answer(nil) }); err != nil {
		t.Fatal(err)
	}
	a := connectAgent(t, p, e, "alpha")
	wire := uint64(0) // bytes, of the batches before
	for n, smaller := range []bool{false, true, true} {
		want := compressible(uint64(n))
		if err := a.Send(within(t), want); err != nil {
			t.Fatal(err)
		}
		d := await(t, "batch", got)
		if !bytes.Equal(d.Payload, want.Payload) || d.Checksum != want.Checksum || d.Key != want.Key {
			t.Errorf("batch %d arrived as %v with %d bytes", n, d.Key, len(d.Payload))
		}
		stats := s.Stats()
		if came := stats.Received - wire; (came < uint64(len(want.Payload))) != smaller {
			t.Errorf("batch %d came as %d bytes of %d, want compressed %v", n, came, len(want.Payload), smaller)
		}
		wire = stats.Received
	}
	if stats := s.Stats(); stats.Unpacked != 3*uint64(len(compressible(0).Payload)) {
		t.Errorf("%d bytes unpacked", stats.Unpacked)
	}
	random := incompressible(3, 10_000)
	if err := a.Send(within(t), random); err != nil {
		t.Fatal(err)
	}
	if d := await(t, "batch", got); !bytes.Equal(d.Payload, random.Payload) {
		t.Error("what cannot be compressed arrived changed")
	}
	if came := s.Stats().Received - wire; came != uint64(len(random.Payload)) {
		t.Errorf("%d bytes came, want the payload as it is", came)
	}
}

// oldServer answers batches as a server before compression did. It returns the layouts of their headers.
func oldServer(t *testing.T, s *Server) <-chan string {
	t.Helper()
	layouts := make(chan string, 10)
	_, err := s.conn.Subscribe(dataSubject("*", "*"), func(m *nats.Msg) {
		text, _ := only(m.Header, batchHeader)
		layout, _, _ := strings.Cut(text, " ")
		layouts <- layout
		answer := reply(statusOK, nil)
		if layout != "1" {
			answer = reply(statusUnsupported, errors.New("header layout 2, this server reads layouts up to 1"))
		}
		if err := m.RespondMsg(answer); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return layouts
}

// TestServerWithoutCompression: an agent sends batches as they are to a server that does not say that it reads compressed
// ones. In a cluster, the server that replies may be another than the one before, and of an earlier version: the batch
// is sent again as it is, at once.
func TestServerWithoutCompression(t *testing.T) {
	for name, row := range map[string]struct {
		before bool // another server said that it reads compressed batches
		want   []string
	}{
		"the only server":      {false, []string{"1", "1", "1"}},
		"after another server": {true, []string{"2", "1", "1", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPKI(t)
			e := startEmbedded(t, p)
			layouts := oldServer(t, connectServer(t, ServerOptions{InProcess: e}))
			a := connectAgent(t, p, e, "alpha")
			a.compresses.Store(row.before)
			for n := range uint64(3) {
				if err := a.Send(within(t), compressible(n)); err != nil {
					t.Fatal(err)
				}
			}
			for i, want := range row.want {
				if got := await(t, "batch", layouts); got != want {
					t.Errorf("message %d has layout %s, want %s", i, got, want)
				}
			}
			if a.compresses.Load() {
				t.Error("the agent compresses further batches")
			}
		})
	}
}

// TestDamagedCompression: a payload that is not what its header says is rejected, and takes no more memory than
// a payload may.
func TestDamagedCompression(t *testing.T) {
	p := newPKI(t)
	e := startEmbedded(t, p)
	s := connectServer(t, ServerOptions{InProcess: e})
	if err := s.ServeData(func(d Delivery) { t.Errorf("handled %v", d.Key); d.Answer(nil) }); err != nil {
		t.Fatal(err)
	}
	a := connectAgent(t, p, e, "alpha")
	packed := compress(compressible(0).Payload)
	bomb := encoder().EncodeAll(make([]byte, 20*MaxPayload), nil)
	for name, data := range map[string][]byte{"cut": packed[:len(packed)-2], "larger than it says": compress(make([]byte, 1<<20)), "bomb": bomb, "no frame": []byte("x"), "empty": nil} {
		one := compressible(0)
		answer, err := a.conn.RequestMsgWithContext(within(t), &nats.Msg{
			Subject: dataSubject("alpha", "flows"), Data: data, Header: nats.Header{batchHeader: {formatCompressed(&one)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := outcome(answer.Header); !errors.Is(err, ErrRejected) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDecompress(f *testing.F) {
	f.Add(compress(compressible(0).Payload), len(compressible(0).Payload))
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd}, 1)
	f.Fuzz(func(t *testing.T, packed []byte, size int) {
		if size < 1 || size > MaxPayload {
			return
		}
		payload, err := decompress(packed, size)
		if (err == nil) != (len(payload) == size) || err != nil && !errors.Is(err, ErrRejected) {
			t.Errorf("%d bytes of %d, %v", len(payload), size, err)
		}
	})
}
