//go:build long

package fleet

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/bus"
	"pillion.dev/measure"
	"pillion.dev/oml/omsp"
	"pillion.dev/oml/omsp/relay"
	"pillion.dev/session"
)

// Hostile is an agent with a valid certificate that floods the server with whatever the
// server keeps for agents, and does not heed refusals.
type Hostile struct {
	Name string
	bus  *bus.Agent
	// Attempts are messages sent, Refusals those answered with an error.
	Attempts, Refusals atomic.Int64
}

// JoinHostile lets one join.
func (j Joining) JoinHostile(ctx context.Context, name string) (*Hostile, error) {
	link, err := j.Join(ctx, name)
	if err != nil {
		return nil, err
	}
	return &Hostile{Name: name, bus: link}, nil
}

// Close closes its connection.
func (h *Hostile) Close() { h.bus.Close() }

// Flood attacks until the context ends. victims are agents whose addresses it claims.
func (h *Hostile) Flood(ctx context.Context, busAddress string, victims []string) {
	var attacks sync.WaitGroup
	for _, attack := range []func(context.Context){
		func(ctx context.Context) { h.states(ctx, victims) },
		h.epochs, h.columns, h.retypes, h.tables, h.gaps,
		func(ctx context.Context) { h.connections(ctx, busAddress) },
	} {
		attacks.Go(func() {
			for ctx.Err() == nil {
				attack(ctx)
				select {
				case <-ctx.Done():
				case <-time.After(time.Millisecond):
				}
			}
		})
	}
	attacks.Wait()
}

// states reports states without a pause: most with a change, every 50th with as many
// addresses as fit.
func (h *Hostile) states(ctx context.Context, victims []string) {
	for n := range 200 {
		state := session.State{Agent: h.Name, Instance: rand.Text(), Version: rand.Text(), Labels: map[string]string{"n": fmt.Sprint(n)}}
		if n%50 == 0 {
			for i := range 100 {
				one := session.Interface{Name: fmt.Sprint("eth", i), Up: true}
				for k := range 200 {
					one.Addresses = append(one.Addresses, fmt.Sprintf("10.%d.%d.%d/32", n, i, k))
				}
				state.Interfaces = append(state.Interfaces, one)
			}
		} else {
			state.Interfaces = []session.Interface{{Name: "eth0", Up: true, Addresses: victims}}
		}
		text, err := json.Marshal(state)
		if err == nil && ctx.Err() == nil {
			err = h.bus.Report(text)
		}
		h.count(err)
		if err != nil {
			return
		}
	}
}

func (h *Hostile) count(err error) {
	h.Attempts.Add(1)
	if err != nil {
		h.Refusals.Add(1)
	}
}

// send sends batches at once, and does not wait long for answers.
func (h *Hostile) send(ctx context.Context, batches ...measure.Envelope) {
	var senders sync.WaitGroup
	for _, e := range batches {
		senders.Go(func() {
			brief, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			h.count(h.bus.Send(brief, e))
		})
	}
	senders.Wait()
}

func random() uint64 {
	var bytes [8]byte
	_, _ = rand.Read(bytes[:])
	return binary.LittleEndian.Uint64(bytes[:])
}

// encode makes a batch of one row of nulls, with an implausible time.
func encode(schema *measure.Schema, epoch, sequence uint64) measure.Envelope {
	var made measure.Envelope
	stream, err := measure.NewStream(schema, measure.StreamOptions{}, func(_ *measure.Schema, record arrow.RecordBatch) (err error) {
		made, err = measure.Encode(measure.Key{Stream: schema.Name, Epoch: epoch, Sequence: sequence}, record)
		return err
	})
	if err == nil {
		row := make(measure.Sample, len(schema.Fields))
		row[0] = measure.TimeValue(time.Unix(4_000_000_000, 0))
		err = stream.Append(row)
	}
	if err == nil {
		err = stream.Close()
	}
	if err != nil {
		panic(err) // of this program
	}
	return made
}

const atOnce = 32

func (h *Hostile) burst(ctx context.Context, one func(int) measure.Envelope) {
	batches := make([]measure.Envelope, atOnce)
	for i := range batches {
		batches[i] = one(i)
	}
	h.send(ctx, batches...)
}

// epochs begins a sequence with each batch, as an agent in a crash loop does.
func (h *Hostile) epochs(ctx context.Context) {
	h.burst(ctx, func(int) measure.Envelope { return encode(&measure.Host, random(), 0) })
}

// gaps leaves out every second batch.
func (h *Hostile) gaps(ctx context.Context) {
	epoch := random() % 8
	h.burst(ctx, func(int) measure.Envelope { return encode(&measure.Clock, epoch, random()>>8) })
}

// columns creates streams with many columns, and adds to them.
func (h *Hostile) columns(ctx context.Context) {
	h.burst(ctx, func(int) measure.Envelope {
		schema := &measure.Schema{Name: fmt.Sprintf("x%s_%d", strings.ReplaceAll(h.Name, "-", "_"), random()%500), Fields: []measure.Field{measure.TimeField}}
		for range 100 {
			schema.Fields = append(schema.Fields, measure.Field{Name: fmt.Sprintf("c%x", random()), Type: measure.String})
		}
		return encode(schema, 1, random()>>1)
	})
}

// retypes changes standard streams.
func (h *Hostile) retypes(ctx context.Context) {
	h.burst(ctx, func(i int) measure.Envelope {
		field := measure.Field{Name: fmt.Sprintf("c%x", random()), Type: measure.Int64}
		if i%2 == 0 {
			field = measure.Field{Name: "load1", Type: measure.String}
		}
		return encode(&measure.Schema{Name: measure.Host.Name, Fields: []measure.Field{measure.TimeField, field}}, 2, random()>>1)
	})
}

// tables reports to tables of OML.
func (h *Hostile) tables(ctx context.Context) {
	h.burst(ctx, func(int) measure.Envelope {
		schema, err := relay.Origin{Domain: rand.Text(), Start: 1, Table: omsp.Schema{
			Name: "t" + rand.Text(), Fields: []omsp.Field{{Name: "n", Type: omsp.Int32}},
		}}.Schema()
		if err != nil {
			panic(err)
		}
		return encode(schema, 1, 0)
	})
}

// connections opens connections and says nothing on them.
func (h *Hostile) connections(ctx context.Context, address string) {
	for range 100 {
		dialer := net.Dialer{Timeout: time.Second}
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return
		}
		defer conn.Close()
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
}
