package estimator

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"pillion.dev/internal/netns"
	"pillion.dev/send/frame"
	"pillion.dev/send/schedule"
)

// remote is a receiver on another host.
type remote struct {
	connection net.Conn
	in         *bufio.Scanner
	stop       func() bool
}

// ErrReceiver marks a receiver that cannot be reached or refuses.
var ErrReceiver = errors.New("receiver")

// answerTime is how long a receiver may take to answer.
const answerTime = 10 * time.Second

// connect opens the connection from the namespace of the sender.
func (p *Path) connect(ctx context.Context) (receiver, error) {
	var c net.Conn
	dial := func() (err error) {
		c, err = (&net.Dialer{Timeout: answerTime}).DialContext(ctx, "tcp", p.Far.Receiver)
		return err
	}
	var err error
	if p.Namespace != nil {
		err = netns.DoIn(p.Namespace, dial)
	} else {
		err = dial()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrReceiver, err)
	}
	r := &remote{connection: c, in: lines(c, answerBytes), stop: context.AfterFunc(ctx, func() { c.Close() })}
	h := p.Header
	flow := &flowRequest{Token: p.Far.Token, Source: h.Source, Protocol: h.Protocol, SourcePort: h.SourcePort, DestinationPort: h.DestinationPort}
	if _, err := r.ask(request{Flow: flow}); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// ask sends a request and returns the answer.
func (r *remote) ask(q request) (a answer, err error) {
	if err := r.connection.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return a, fmt.Errorf("%w: %w", ErrReceiver, err)
	}
	if err := write(r.connection, q); err != nil {
		return a, fmt.Errorf("%w: %w", ErrReceiver, err)
	}
	line, err := next(r.in)
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	if err != nil {
		return a, fmt.Errorf("%w: read answer: %w", ErrReceiver, err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("%w refuses: %s", ErrReceiver, printable(a.Error))
	}
	return a, nil
}

// printable is text of another host, without what a terminal would interpret.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}

func (r *remote) begin(first uint32, trains, packets int) error {
	_, err := r.ask(request{Begin: &beginRequest{first, trains, packets}})
	return err
}

func (r *remote) arrived(packets int) (int, error) {
	a, err := r.ask(request{Arrived: &rangeRequest{0, packets}})
	return a.Arrived, err
}

func (r *remote) arrivals(packets int) (list []int64, err error) {
	for from := 0; from < packets; {
		n := min(mostArrivals, packets-from)
		a, err := r.ask(request{Arrivals: &rangeRequest{from, n}})
		if err != nil {
			return nil, err
		}
		if len(a.Arrivals) != n {
			return nil, fmt.Errorf("%w: %d arrivals, want %d", ErrReceiver, len(a.Arrivals), n)
		}
		list = append(list, a.Arrivals...)
		from += n
	}
	return list, nil
}

func (r *remote) prepare() func(*frame.Header, *schedule.Entry) { return nil }

func (r *remote) Close() error {
	r.stop()
	if err := r.connection.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
