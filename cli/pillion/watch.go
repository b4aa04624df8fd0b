package pillion

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/cli/terminal"
	"pillion.dev/internal/csvfile"
)

type sessionWatchCmd struct {
	sessionName
	By    string `default:"pair" enum:"pair,flow" placeholder:"NAME" help:"One line per pair of agents or per flow: pair, flow (${default})."`
	Clock string `default:"measured" enum:"measured,corrected" placeholder:"NAME" help:"Delays as measured, or without the clock offset between the hosts that the server estimates: measured, corrected (${default})."`
	Count int    `short:"n" placeholder:"N" help:"Exit after this many lines; default: when interrupted, or when the session has ended."`
}

// Help explains the columns.
func (sessionWatchCmd) Help() string {
	return `On a terminal, pillion top shows the session: a table that is updated in place, with a sparkline of the median over
the last minute; ? shows the keys, q ends it. Otherwise, and with --count or --clock corrected, each interval is printed as a
line, or with -o json as an object.

PKT/S and LOSS count marked packets. P50, P90 and P99 are percentiles of one-way delay, of the packets with a
time stamp (delay_count in JSON); ± is the combined error bound of both clocks, and delays below it are not
significant. With --clock corrected they are percentiles of the delay minus the estimated offset of the
clocks, and ± is the error bound of that; a delay without an estimate is shown as -. JSON has both. IPDV is the 90th percentile of the delay variation between consecutive ones of these packets.

Examples:

  pillion session watch web-delay
  pillion session watch web-delay --by flow -o json
  pillion session watch web-delay --clock corrected`
}

// watching is the state of session watch that prints lines. Everything but follow and the poll of the session's state runs in
// one goroutine.
type watching struct {
	*app
	client  *api.Client
	name    string
	count   int
	lines   lines
	session *pillionv1.Session
	rows    *flowReader
	lost    error // why there is no connection
	missed  uint64
	last    time.Time // when the last rows arrived
	ended   time.Time // when the session was seen to have ended
	said    string
	closed  int
	csv     *csvfile.Writer
	// corrected is set if delays are shown without the clock offset.
	corrected bool
}

// errEnough ends a command that has printed the requested number of rows.
var errEnough = errors.New("enough")

// news is one update of a watch.
type news struct {
	rows    *pillionv1.TailResponse
	session *pillionv1.Session
	clocks  clockPairs
	lost    error
	fatal   error
}

// Run watches a session.
func (c *sessionWatchCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	answer, err := client.Sessions.GetSession(ctx, &pillionv1.GetSessionRequest{Name: c.Name})
	if err != nil {
		return failed("watch session "+c.Name, err)
	}
	if a.format == "table" && terminal.Is(a.out) && c.Count == 0 && c.Clock == "measured" {
		interval := answer.GetSession().GetSpec().GetInterval().AsDuration()
		t := newTop(a, client, &topCmd{By: c.By, Session: c.Name, Sort: "p99", Over: min(max(interval, 10*time.Second), overMost)})
		t.session, t.untilEnd = answer.GetSession(), true
		return t.onTerminal(ctx)
	}
	w := &watching{app: a, client: client, name: c.Name, count: c.Count, last: time.Now(), corrected: c.Clock == "corrected"}
	w.setSession(answer.GetSession())
	w.lines = lines{byFlow: c.By == "flow", all: map[string]*line{}, closed: w.print}
	if w.corrected {
		if w.lines.clocks, err = askClocks(ctx, client); err != nil {
			return failed("read clock offsets", err)
		}
	}
	err = w.run(ctx)
	if errors.Is(err, errEnough) || ctx.Err() != nil {
		return nil
	}
	return failed("watch session "+c.Name, err)
}

func (w *watching) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	reached := make(chan news)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() { w.follow(ctx, reached) })
	group.Go(func() {
		pollSession(ctx, w.client, w.name, func(s *pillionv1.Session) { pass(ctx, reached, news{session: s}) })
	})
	if w.corrected {
		group.Go(func() { w.followClocks(ctx, reached) })
	}
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return w.lines.flush()
		case n := <-reached:
			err = w.update(n)
		case <-tick.C:
			err = w.tick()
		}
		if err != nil {
			return err
		}
	}
}

func (w *watching) update(n news) error {
	switch {
	case n.fatal != nil:
		return n.fatal
	case n.lost != nil:
		w.lost = n.lost
	case n.clocks != nil:
		w.lines.clocks = n.clocks
	case n.session != nil:
		w.setSession(n.session)
	case n.rows != nil:
		w.lost, w.missed = nil, n.rows.GetMissed()
		if len(n.rows.Columns) > 0 {
			w.rows = newFlowReader(n.rows.Columns)
		}
		for _, row := range n.rows.Rows {
			w.last = time.Now()
			if err := w.lines.take(w.rows.read(row)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *watching) setSession(s *pillionv1.Session) {
	w.session = s
	if s.GetState() != "ended" {
		w.ended = time.Time{}
	} else if w.ended.IsZero() {
		w.ended = time.Now()
	}
}

// tick prints why no rows arrive, and ends the watch of an ended session.
func (w *watching) tick() error {
	if err := w.sayWhy(); err != nil {
		return err
	}
	if time.Since(w.last) > 2*w.interval()+time.Second {
		if err := w.lines.flush(); err != nil {
			return err
		}
	}
	if !w.ended.IsZero() && time.Since(w.ended) > time.Second {
		return errors.Join(w.lines.flush(), errEnough)
	}
	return w.lines.expire()
}

func (w *watching) sayWhy() error {
	if why := strings.Join(w.why(), "; "); why != w.said {
		if w.said = why; why != "" {
			w.note("%s", why)
		}
	}
	return nil
}

func (w *watching) interval() time.Duration {
	if d := w.session.GetSpec().GetInterval(); d != nil {
		return d.AsDuration()
	}
	return time.Second
}

// why lists reasons why rows may be missing, most relevant first.
func (w *watching) why() []string {
	var why []string
	if w.lost != nil {
		why = append(why, "connection lost, reconnecting: "+failed("tail", w.lost).Error())
	}
	why = append(why, sessionWhy(w.session)...)
	if w.missed > 0 {
		why = append(why, fmt.Sprintf("output too slow: %d rows skipped; they are in the archive", w.missed))
	}
	if len(why) == 0 && time.Since(w.last) > 3*w.interval()+2*time.Second {
		why = append(why, silentWhy(w.session))
	}
	return why
}

// follow passes rows on, and reconnects when the connection is lost.
func (w *watching) follow(ctx context.Context, reached chan<- news) {
	request := &pillionv1.TailRequest{Streams: []string{"flows"}, Where: map[string]string{"session": w.name}, Columns: flowColumns}
	send := func(n news) { pass(ctx, reached, n) }
	err := followTail(ctx, w.client, request, func(rows *pillionv1.TailResponse) error {
		send(news{rows: rows})
		return ctx.Err()
	}, func(err error) { send(news{lost: err}) })
	if err != nil {
		send(news{fatal: err})
	}
}

// pass passes news on until the context ends.
func pass[T any](ctx context.Context, reached chan<- T, n T) {
	select {
	case reached <- n:
	case <-ctx.Done():
	}
}
