package pillion

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/cli/terminal"
)

type topCmd struct {
	By          string        `default:"pair" enum:"pair,flow" placeholder:"NAME" help:"One line per pair of agents or per flow: pair, flow (${default})."`
	Session     string        `placeholder:"NAME" predictor:"session" help:"Only rows of this session; default: for each pair, the session with most of its packets."`
	Source      string        `placeholder:"AGENT" predictor:"agent" help:"Only this source."`
	Destination string        `placeholder:"AGENT" predictor:"agent" help:"Only this destination."`
	Filter      string        `placeholder:"TEXT" help:"Only lines whose names contain this text."`
	Sort        string        `default:"p99" enum:"source,destination,flow,p50,p99,error,loss,reordered,duplicated,packets,rate" placeholder:"COLUMN" help:"Column to sort by, the largest first: source, destination, flow, p50, p99, error, loss, reordered, duplicated, packets, rate (${default})."`
	Over        time.Duration `default:"10s" placeholder:"TIME" help:"Time over which packets are counted, 1s to 1m (${default})."`
	Once        bool          `help:"Print one plain table and exit."`
}

// Help explains the table and its keys.
func (topCmd) Help() string {
	return `The table is updated each second, and the connection is re-established when it is lost. Press ? for the keys:
Enter opens the flows of a pair, and the figures of one flow over time; Esc goes back.

P50 and P99 are percentiles of one-way delay: of a pair in the latest second, of a flow in the time of --over; ± is the
combined error bound of both clocks, and delays below it are not significant. LOSS, REORD (RFC 4737), DUP (RFC 5560), PKT/S and
RATE (IP without marks) are of the time of --over. With --session, reasons why figures are missing are shown.
With --once, all figures are of that time, and -o json prints them as pillion flows does.

Examples:

  pillion top
  pillion top --by flow --source north1 --destination south1 --sort loss
  pillion top --once --over 1m`
}

// linesMost are the lines that are left on the terminal.
const linesMost = 1000

// overMost is as long as the server keeps seconds.
const overMost = time.Minute

// Run draws the table until q or an interrupt.
func (c *topCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	if c.Over < time.Second || c.Over > overMost {
		return fmt.Errorf("read --over %s: %w: use 1s to 1m", c.Over, errValue)
	}
	t := newTop(a, client, c)
	if !t.sortable(c.Sort) {
		return fmt.Errorf("read --sort %s: %w: lines by %s have no such column", c.Sort, errValue, c.By)
	}
	if c.Once {
		return c.once(ctx, t)
	}
	if a.format != "table" {
		return fmt.Errorf("top: %w: -o %s requires --once", errValue, a.format)
	}
	return t.onTerminal(ctx)
}

// onTerminal leaves the last figures on the terminal.
func (t *top) onTerminal(ctx context.Context) error {
	screen, err := terminal.Open(t.color)
	if err != nil {
		return fmt.Errorf("top: %w", err)
	}
	defer func() {
		screen.Close()
		for _, line := range t.level().body(terminal.Width(), linesMost) {
			fmt.Fprintln(t.out, strings.TrimRight(terminal.Text(line), " "))
		}
	}()
	return failed("top", t.run(ctx, screen))
}

// once prints what the table would show of the time that is counted.
func (c *topCmd) once(ctx context.Context, t *top) error {
	level := &topList{top: t, granularity: c.By, selection: t.selection()}
	answer, err := level.question()(ctx)
	if err != nil {
		return failed("top", err)
	}
	level.take(answer)
	columns := level.columns()
	keys := make([]string, len(columns))
	for i, column := range columns {
		keys[i] = column.key
	}
	table := newTable(keys...)
	for _, row := range t.arrange(level.rows()) {
		var cells []cell
		for _, column := range columns {
			cells = append(cells, column.cell(row))
		}
		table.add(cells...)
	}
	return t.show(messageList(level.flows), table, nil)
}

// top is the state of the command. Everything but feeds runs in one goroutine.
type top struct {
	*app
	client *api.Client
	cmd    *topCmd
	// levels are what is shown, last, and what it was opened from.
	levels []topLevel
	news   chan topNews
	end    context.CancelFunc // of the feed of the level that is shown
	feeds  sync.WaitGroup

	sort    string
	reverse bool
	filter  string
	// typing is a filter that is being typed.
	typing bool
	help   bool
	// paused are the rows that stay; nil: they are updated.
	paused   []*topRow
	selected string // key of a row
	first    int    // row at the top of the table
	page     int    // rows that fit
	lost     error
	lostAt   time.Time
	backAt   time.Time // when the connection was re-established
	fed      bool      // the level has received something
	// session is the one that is shown, nil for all; untilEnd ends the command when it has ended.
	session  *pillionv1.Session
	untilEnd bool
}

// topLevel is what the screen can show.
type topLevel interface {
	title() string
	// feed returns a function that requests figures, as they are sorted and filtered now.
	feed() feedFunc
	// body is what is drawn below the title.
	body(width, height int) []string
}

// feedFunc requests figures until its context ends, or there is a permanent error.
type feedFunc func(ctx context.Context, send func(topNews)) error

// topNews is an update of a level.
type topNews struct {
	level topLevel
	// apply changes the level, in the goroutine that draws it.
	apply       func()
	lost, fatal error
}

func newTop(a *app, client *api.Client, c *topCmd) *top {
	t := &top{app: a, client: client, cmd: c, news: make(chan topNews), sort: c.Sort, filter: c.Filter}
	t.levels = []topLevel{t.root(c.By)}
	return t
}

// root is the level of all pairs or all flows.
func (t *top) root(by string) topLevel {
	if by == "flow" {
		return &topList{top: t, granularity: by, selection: t.selection()}
	}
	return newTopPairs(t)
}

func (t *top) level() topLevel { return t.levels[len(t.levels)-1] }

// run draws until the context ends or a key ends it.
func (t *top) run(ctx context.Context, screen *terminal.Screen) error {
	defer t.feeds.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t.start(ctx)
	sessions := make(chan *pillionv1.Session)
	if t.cmd.Session != "" {
		t.feeds.Go(func() {
			pollSession(ctx, t.client, t.cmd.Session, func(s *pillionv1.Session) { pass(ctx, sessions, s) })
		})
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		screen.Draw(t.frame)
		select {
		case <-ctx.Done():
			return nil
		case key := <-screen.Keys():
			if t.press(ctx, key) {
				return nil
			}
		case n := <-t.news:
			if err := t.update(n); err != nil {
				return err
			}
		case t.session = <-sessions:
			if t.untilEnd && t.session.GetState() == "ended" {
				return nil
			}
		case <-tick.C:
		}
	}
}

// open shows a level from its beginning.
func (t *top) open(ctx context.Context) {
	t.fed, t.first, t.selected, t.paused = false, 0, "", nil
	t.start(ctx)
}

// start feeds the level that is shown, and only that.
func (t *top) start(ctx context.Context) {
	if t.end != nil {
		t.end()
	}
	ctx, t.end = context.WithCancel(ctx)
	level := t.level()
	feed := level.feed()
	t.feeds.Go(func() {
		send := func(n topNews) {
			n.level = level
			select {
			case t.news <- n:
			case <-ctx.Done():
			}
		}
		if err := feed(ctx, send); err != nil {
			send(topNews{fatal: err})
		}
	})
}

func (t *top) update(n topNews) error {
	switch {
	case n.level != t.level():
	case n.fatal != nil:
		return n.fatal
	case n.lost != nil:
		if t.lost == nil {
			t.lostAt = time.Now()
		}
		t.lost = n.lost
	default:
		if t.lost != nil {
			t.backAt = time.Now()
		}
		t.lost, t.fed = nil, true
		n.apply()
	}
	return nil
}

// arrange filters and sorts rows.
func (t *top) arrange(rows []*topRow) []*topRow {
	text := strings.ToLower(t.filter)
	rows = slices.DeleteFunc(slices.Clone(rows), func(r *topRow) bool { return !strings.Contains(strings.ToLower(r.name()), text) })
	i := slices.IndexFunc(topColumns, func(c topColumn) bool { return c.name == t.sort })
	slices.SortStableFunc(rows, func(a, b *topRow) int { return topColumns[i].order(a, b, t.reverse) })
	return rows
}

// sortable reports whether the level that is shown has a column.
func (t *top) sortable(name string) bool {
	by, has := t.level().(interface{ columns() []topColumn })
	return has && slices.ContainsFunc(by.columns(), func(c topColumn) bool { return c.name == name })
}
