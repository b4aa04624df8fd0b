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

// TestCompressedBatches: batches are sent compressed if that makes them smaller, and the handler
// gets what was sent.
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
	for n := range 3 {
		want := compressible(uint64(n))
		if err := a.Send(within(t), want); err != nil {
			t.Fatal(err)
		}
		d := await(t, "batch", got)
		if !bytes.Equal(d.Payload, want.Payload) || d.Checksum != want.Checksum || d.Key != want.Key {
			t.Errorf("batch %d arrived as %v with %d bytes", n, d.Key, len(d.Payload))
		}
		stats := s.Stats()
		if came := stats.Received - wire; came >= uint64(len(want.Payload)) {
			t.Errorf("batch %d came as %d bytes of %d", n, came, len(want.Payload))
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
			Subject: dataSubject("alpha", "flows"), Data: data, Header: nats.Header{batchHeader: {formatBatch(&one, len(one.Payload), "")}},
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
