package estimator

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/outfile"
	"pillion.dev/send/arrival"
)

// Receiver is the far end of estimates on another host.
type Receiver struct {
	Device    string
	Namespace *os.File // of the device and the address; nil: the caller's
	Address   string   // where senders connect, HOST:PORT
	Token     string   // that senders need; empty: none
	Log       *slog.Logger
	// Records takes a record of each packet that has arrived (RecordColumns), if not nil.
	Records *outfile.Records
	// Ready is called with the address once senders can connect, if not nil.
	Ready func(net.Addr)
}

const (
	senders     = 4 // at a time
	idleTimeout = 2 * time.Minute
)

// ErrToken marks a sender without the token of the receiver.
var ErrToken = errors.New("wrong or missing token")

// Serve tells senders when their packets arrived, until the context ends. Each connection
// watches one flow; the receiver answers nothing but these connections.
func (r *Receiver) Serve(ctx context.Context) error {
	var listener net.Listener
	listen := func() (err error) {
		if _, err := net.InterfaceByName(r.Device); err != nil {
			return fmt.Errorf("find interface %s: %w", r.Device, err)
		}
		listener, err = new(net.ListenConfig).Listen(ctx, "tcp", r.Address)
		return err
	}
	var err error
	if r.Namespace != nil {
		err = netns.DoIn(r.Namespace, listen)
	} else {
		err = listen()
	}
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	if r.Ready != nil {
		r.Ready(listener.Addr())
	}
	var running sync.WaitGroup
	defer running.Wait()
	slots := make(chan struct{}, senders)
	for {
		c, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept sender: %w", err)
		}
		select {
		case slots <- struct{}{}:
			running.Go(func() {
				r.serve(ctx, c)
				<-slots
			})
		default:
			r.Log.Warn("refused a sender: too many at a time", "sender", c.RemoteAddr())
			refuse(c, fmt.Errorf("receiver serves %d senders already", senders))
		}
	}
}

// refuse answers with an error and closes the connection.
func refuse(c net.Conn, cause error) {
	_ = c.SetDeadline(time.Now().Add(time.Second)) // an error closes it as well
	_ = write(c, answer{Error: cause.Error()})
	c.Close()
}

// serve answers one sender.
func (r *Receiver) serve(ctx context.Context, c net.Conn) {
	defer context.AfterFunc(ctx, func() { c.Close() })()
	defer c.Close()
	log := r.Log.With("sender", c.RemoteAddr())
	s := session{receiver: r}
	defer func() {
		s.record(true)
		if err := s.close(); err != nil {
			log.Warn("ended watch", "error", err)
		}
		log.Info("sender left")
	}()
	log.Info("sender connected")
	in := lines(c, requestBytes)
	for {
		if err := c.SetDeadline(time.Now().Add(idleTimeout)); err != nil {
			return
		}
		line, err := next(in)
		if err != nil {
			return // it has closed the connection, or is silent
		}
		result, err := s.handle(line)
		if err != nil {
			log.Warn("refused a request", "error", err)
			refuse(c, err)
			return
		}
		if err := write(c, result); err != nil {
			return
		}
	}
}

// session is what a receiver knows of a sender.
type session struct {
	receiver *Receiver
	watch    receiver // nil before its flow is known
	flow     *flowRequest
	begun    beginRequest // the round
	// recorded are packets of the round that have a record, and when they were last looked for.
	recorded []bool
	looked   time.Time
}

// RecordColumns of the record of a packet that has arrived. Its time is of CLOCK_MONOTONIC.
var RecordColumns = []string{"arrived_mono_ns", "src", "proto", "sport", "dport", "train", "number"}

// recordEvery bounds how often arrivals are looked for, which takes time.
const recordEvery = 250 * time.Millisecond

// record adds the packets that have arrived since; not always soon, unless all are wanted.
func (s *session) record(all bool) {
	if s.receiver.Records == nil || s.watch == nil || !all && time.Since(s.looked) < recordEvery {
		return
	}
	s.looked = time.Now()
	list, err := s.watch.arrivals(len(s.recorded))
	if err != nil {
		return // the sender learns it
	}
	for i, at := range list {
		if at == 0 || s.recorded[i] {
			continue
		}
		s.recorded[i] = true
		f := s.flow
		s.receiver.Records.Add(at, f.Source.String(), outfile.If(f.Protocol != "", f.Protocol), outfile.If(f.SourcePort != 0, f.SourcePort),
			outfile.If(f.DestinationPort != 0, f.DestinationPort), s.begun.First+uint32(i/s.begun.Packets), i%s.begun.Packets)
	}
}

var errOrder = fmt.Errorf("%w: the first request names the flow, and no other does", errProtocol)

func (s *session) handle(line []byte) (answer, error) {
	r, err := parseRequest(line)
	if err != nil {
		return answer{}, err
	}
	if (r.Flow != nil) != (s.watch == nil) {
		return answer{}, errOrder
	}
	switch {
	case r.Flow != nil:
		if subtle.ConstantTimeCompare([]byte(r.Flow.Token), []byte(s.receiver.Token)) != 1 {
			return answer{}, ErrToken
		}
		s.flow = r.Flow
		s.watch, err = watch(s.receiver.Namespace, s.receiver.Device, arrival.Flow{
			Source: r.Flow.Source, Protocol: r.Flow.Protocol, SourcePort: r.Flow.SourcePort, DestinationPort: r.Flow.DestinationPort,
		})
		return answer{}, err
	case r.Begin != nil:
		s.record(true)
		err := s.watch.begin(r.Begin.First, r.Begin.Trains, r.Begin.Packets)
		if s.begun, s.recorded = *r.Begin, nil; err == nil {
			s.recorded = make([]bool, r.Begin.Trains*r.Begin.Packets)
		}
		return answer{}, err
	case r.Arrived != nil:
		s.record(false)
		n, err := s.watch.arrived(r.Arrived.From + r.Arrived.Count)
		return answer{Arrived: n}, err
	}
	s.record(false)
	list, err := s.watch.arrivals(r.Arrivals.From + r.Arrivals.Count)
	if err != nil {
		return answer{}, err
	}
	return answer{Arrivals: list[r.Arrivals.From:]}, nil
}

func (s *session) close() error {
	if s.watch == nil {
		return nil
	}
	return s.watch.Close()
}
