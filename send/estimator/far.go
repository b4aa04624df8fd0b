package estimator

import (
	"context"
	"errors"
	"os"

	"pillion.dev/internal/netns"
	"pillion.dev/send/arrival"
	"pillion.dev/send/frame"
	"pillion.dev/send/reply"
	"pillion.dev/send/schedule"
)

// Far is where arrival times come from: exactly one of an interface of this host, a receiver
// on another host, and replies.
type Far struct {
	Device    string
	Namespace *os.File // of Device; nil: the caller's
	// Receiver is the address of a receiver (Serve); Token is what it requires.
	Receiver, Token string
	Replies         bool
}

// receiver tells when packets arrived.
type receiver interface {
	// begin forgets all arrivals: trains of packets each will be sent, numbered from first on.
	begin(first uint32, trains, packets int) error
	// arrived counts the first packets of the round that have arrived.
	arrived(packets int) (int, error)
	// arrivals of the first packets of the round, by train and number; 0: not arrived.
	arrivals(packets int) ([]int64, error)
	// prepare numbers packets, if replies are to name them; it may be nil.
	prepare() func(*frame.Header, *schedule.Entry)
	Close() error
}

func (p *Path) flow() arrival.Flow {
	h := p.Header
	return arrival.Flow{Source: h.Source, Protocol: h.Protocol, SourcePort: h.SourcePort, DestinationPort: h.DestinationPort}
}

// open opens the receiver of the path.
func (p *Path) open(ctx context.Context) (receiver, error) {
	switch {
	case p.Far.Replies:
		l, err := reply.Listen(p.Namespace, p.Device, map[string]*frame.Header{"": p.Header})
		if err != nil {
			return nil, err
		}
		return &replies{Listener: l}, nil
	case p.Far.Receiver != "":
		return p.connect(ctx)
	case p.Far.Device != "":
		return watch(p.Far.Namespace, p.Far.Device, p.flow())
	}
	return nil, errFar
}

var errFar = errors.New("no source of arrival times")

// count counts arrivals.
func count(arrivals []int64) (n int) {
	for _, at := range arrivals {
		if at != 0 {
			n++
		}
	}
	return n
}

// local is an interface of this host.
type local struct{ *arrival.Watch }

func watch(namespace *os.File, device string, flow arrival.Flow) (receiver, error) {
	var w *arrival.Watch
	open := func() (err error) {
		w, err = arrival.Open(device, flow, arrival.Limit)
		return err
	}
	var err error
	if namespace != nil {
		err = netns.DoIn(namespace, open)
	} else {
		err = open()
	}
	if err != nil {
		return nil, err
	}
	return local{w}, nil
}

func (l local) begin(first uint32, trains, packets int) error { return l.Begin(first, trains, packets) }

func (l local) arrived(packets int) (int, error) { return count(l.Arrivals(packets)), nil }

func (l local) arrivals(packets int) ([]int64, error) { return l.Arrivals(packets), nil }

func (l local) prepare() func(*frame.Header, *schedule.Entry) { return nil }

// replies are the replies of a far end that does not cooperate.
type replies struct {
	*reply.Listener
	first   uint32
	packets int
}

func (r *replies) begin(first uint32, _, packets int) error {
	r.first, r.packets = first, packets
	return nil
}

func (r *replies) arrived(packets int) (int, error) {
	list, err := r.arrivals(packets)
	return count(list), err
}

func (r *replies) arrivals(packets int) ([]int64, error) {
	list := make([]int64, packets)
	for i := range list {
		if got, ok := r.Of(r.first+uint32(i/r.packets), uint32(i%r.packets)); ok {
			list[i] = got.At
		}
	}
	return list, nil
}

func (r *replies) prepare() func(*frame.Header, *schedule.Entry) { return r.Prepare }
