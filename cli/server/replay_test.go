package server

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/agent/identity"
	"pillion.dev/archive"
	"pillion.dev/bus"
	"pillion.dev/cli/commandtest"
	"pillion.dev/internal/test/hang"
	"pillion.dev/measure"
	"pillion.dev/server"
)

// serving runs the whole server on a folder until stop is called.
func serving(t *testing.T, folder string) (w server.Welcome, stop func()) {
	t.Helper()
	return commandtest.Serve(t, server.Config{Folder: folder})
}

// join enrols a host.
func join(t *testing.T, w server.Welcome, name string) *identity.Identity {
	t.Helper()
	token, err := os.ReadFile(w.JoinFile)
	if err != nil {
		t.Fatal(err)
	}
	own, _, err := identity.Enrol(t.Context(), identity.Options{
		Server: w.HTTP, Token: strings.TrimSpace(string(token)), Name: name, Folder: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return own
}

// connect returns an agent's connection to the bus.
func connect(t *testing.T, w server.Welcome, own *identity.Identity) *bus.Agent {
	t.Helper()
	up := make(chan bool, 100)
	agent, err := bus.ConnectAgent(t.Context(), bus.AgentOptions{
		URL: "tls://" + w.Bus, TLS: own.TLS(), Name: own.Name(),
		Changed: func(connected bool, reason error) {
			if connected {
				up <- true
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(agent.Close)
	select {
	case <-up:
	case <-time.After(hang.Limit):
		t.Fatal("never connected")
	}
	return agent
}

const epoch = 0xfee1

// rowsIn returns the number of rows of a batch.
func rowsIn(sequence uint64) int { return 1 + int(sequence%5) }

// envelope is a batch of interfaces whose rows name their agent and batch.
func envelope(t *testing.T, agent string, sequence uint64) measure.Envelope {
	t.Helper()
	var made measure.Envelope
	stream, err := measure.NewStream(&measure.Interfaces, measure.StreamOptions{}, func(schema *measure.Schema, r arrow.RecordBatch) (err error) {
		made, err = measure.Encode(measure.Key{Stream: schema.Name, Epoch: epoch, Sequence: sequence}, r)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for range rowsIn(sequence) {
		sample := measure.Sample{measure.TimeValue(time.Now()), measure.StringValue(agent)}
		for range len(measure.Interfaces.Fields) - 2 {
			sample = append(sample, measure.Uint64Value(sequence))
		}
		if err := stream.Append(sample); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	made.Oldest = 0 // its sender's spool holds all batches
	return made
}

// damages are ways to corrupt a batch in transit. No damaged batch may be stored.
var damages = []struct {
	name string
	harm func(e *measure.Envelope)
}{
	{"payload flipped", func(e *measure.Envelope) { e.Payload[len(e.Payload)/2] ^= 1 }},
	{"payload flipped, checksum made good", func(e *measure.Envelope) {
		e.Payload[9] ^= 0xff
		e.Checksum = measure.Checksum(e.Payload)
	}},
	{"cut off", func(e *measure.Envelope) { e.Payload = e.Payload[:len(e.Payload)/2] }},
	{"cut off, checksum made good", func(e *measure.Envelope) {
		e.Payload = e.Payload[:len(e.Payload)/2]
		e.Checksum = measure.Checksum(e.Payload)
	}},
	{"empty", func(e *measure.Envelope) { e.Payload, e.Checksum = nil, measure.Checksum(nil) }},
	{"more rows than it has", func(e *measure.Envelope) { e.Rows += 1000 }},
	{"of another stream", func(e *measure.Envelope) { e.Stream = "flows" }},
	{"followed by more", func(e *measure.Envelope) { e.Payload = append(e.Payload, e.Payload...) }},
}

// TestReplayedReorderedCorrupted: batches that two agents send reordered, repeatedly,
// concurrently and damaged, across a restart of the server, are archived once.
func TestReplayedReorderedCorrupted(t *testing.T) { replayedReorderedCorrupted(t, 50) }

// replayedReorderedCorrupted does so with so many batches of each agent.
func replayedReorderedCorrupted(t *testing.T, batches int) {
	folder := filepath.Join(t.TempDir(), "server")
	w, stop := serving(t, folder)
	const copies = 3
	own := map[string]*identity.Identity{"a": join(t, w, "a"), "b": join(t, w, "b")}
	for range 2 {
		// the second time all are replays
		var senders sync.WaitGroup
		for name, identity := range own {
			agent := connect(t, w, identity)
			var queue []measure.Envelope
			for n := range uint64(batches) {
				for range copies {
					queue = append(queue, envelope(t, name, n))
				}
			}
			random := rand.New(rand.NewPCG(3, uint64(len(name))))
			random.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
			work := make(chan measure.Envelope)
			for range 32 {
				senders.Go(func() {
					for e := range work {
						send(t, agent, e)
					}
				})
			}
			senders.Go(func() {
				defer close(work)
				for _, e := range queue {
					work <- e
				}
			})
			for n := range 3 * len(damages) {
				damaged := envelope(t, name, uint64(batches+n))
				senders.Go(func() { refused(t, agent, damaged, n) })
			}
		}
		senders.Wait()
		stop()
		checkStored(t, folder, map[string]int{"a": batches, "b": batches})
		w, stop = serving(t, folder)
	}
	stop()
}

// send retries until the server acknowledges the batch.
func send(t *testing.T, agent *bus.Agent, e measure.Envelope) {
	for {
		err := agent.Send(t.Context(), e)
		if err == nil {
			return
		}
		if !errors.Is(err, bus.ErrBusy) {
			t.Errorf("batch %d: %v", e.Sequence, err)
			return
		}
	}
}

// refused sends a damaged batch, which must not be stored.
func refused(t *testing.T, agent *bus.Agent, e measure.Envelope, n int) {
	damage := damages[n%len(damages)]
	e.Payload = bytes.Clone(e.Payload)
	damage.harm(&e)
	if err := agent.Send(t.Context(), e); !errors.Is(err, bus.ErrRejected) {
		t.Errorf("%s: %v, want that it is rejected", damage.name, err)
	}
}

// checkStored counts the rows of each batch in a server's folder.
func checkStored(t *testing.T, folder string, want map[string]int) {
	t.Helper()
	a, err := archive.Open(server.DefaultArchive, archive.Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	got := map[string]int{}
	sql := "SELECT agent, device, sent_bytes, count(*) FROM interfaces GROUP BY ALL"
	err = a.Query(t.Context(), sql, nil, archive.Limits{Rows: 1e6, Time: time.Minute}, func(r arrow.RecordBatch) error {
		for i := range int(r.NumRows()) {
			agent, device := strings.Clone(r.Column(0).ValueStr(i)), r.Column(1).ValueStr(i)
			sequence, rows := r.Column(2).(*array.Uint64).Value(i), r.Column(3).(*array.Int64).Value(i)
			if agent != device || int(rows) != rowsIn(sequence) {
				t.Errorf("batch %d of %s, made by %s, has %d rows, want %d", sequence, agent, device, rows, rowsIn(sequence))
			}
			got[agent]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Errorf("stored batches of %v, want %v", got, want)
	}
	for agent, batches := range want {
		if got[agent] != batches {
			t.Errorf("%d batches of %s are stored, want %d", got[agent], agent, batches)
		}
		delivered, err := a.Delivered(t.Context(), agent)
		if err != nil || delivered["interfaces"].Batches != int64(batches) || delivered["interfaces"].Missing != 0 {
			t.Errorf("account of %s: %+v, %v", agent, delivered, err)
		}
	}
}
