package pillion

import (
	"context"
	"slices"
	"unicode/utf8"

	"pillion.dev/cli/terminal"
)

// topHelp is the screen that ? shows.
var topHelp = []string{
	"",
	"Up Down PgUp PgDn Home End  select a line (also j, k, g, G)",
	"Enter          open the flows of a pair, or the figures of a flow over time",
	"Esc Backspace  back",
	"Tab            all pairs, or all flows",
	"/              filter lines by a part of their names; Esc clears it",
	"< >            sort by the next column to the left or right (also arrows)",
	"r              reverse the order",
	"Space          pause, and continue",
	"q Ctrl-C       quit",
	"",
	"P50, P99  percentiles of one-way delay: of a pair in the latest second,",
	"          of a flow in the time of --over",
	"±         combined error bound of both clocks, below which delays",
	"          are not significant",
	"LOSS      packets not received, of those sent (RFC 7680)",
	"REORD     packets received after one that was sent later (RFC 4737)",
	"DUP       packets received more than once (RFC 5560)",
	"RATE      bits per second of IP, without marks; PKT/S packets",
	"",
	"Yellow marks any loss, reordering or duplication, red 1 % or more.",
}

// press acts on a key and reports whether it ends the command.
func (t *top) press(ctx context.Context, key string) (quit bool) {
	switch {
	case key == terminal.Interrupt:
		return true
	case t.typing:
		t.typed(ctx, key)
		return false
	case t.help:
		t.help = key == terminal.Resize
		return false
	}
	switch key {
	case "q":
		return true
	case "?", "h":
		t.help = true
	case " ", "p":
		t.pause()
	case "/":
		t.typing = true
	case "r":
		t.reverse = !t.reverse
		t.sorted(ctx)
	case "<", "Left":
		t.sortBy(ctx, -1)
	case ">", "Right":
		t.sortBy(ctx, 1)
	case terminal.Tab:
		t.turn(ctx)
	case terminal.Enter:
		t.openSelected(ctx)
	case terminal.Escape, terminal.Backspace:
		t.back(ctx)
	default:
		t.move(key)
	}
	return false
}

// typed changes the filter that is being typed.
func (t *top) typed(ctx context.Context, key string) {
	before := t.filter
	switch key {
	case terminal.Enter:
		t.typing = false
	case terminal.Escape:
		t.typing, t.filter = false, ""
	case terminal.Backspace:
		_, size := utf8.DecodeLastRuneInString(t.filter)
		t.filter = t.filter[:len(t.filter)-size]
	default:
		if utf8.RuneCountInString(key) == 1 && len(t.filter) < 200 {
			t.filter += key
		}
	}
	if t.filter != before {
		t.sorted(ctx)
	}
}

// listed are the rows of the level that is shown, if it has any.
func (t *top) listed() (rows []*topRow, columns []topColumn) {
	list, lists := t.level().(interface {
		rows() []*topRow
		columns() []topColumn
	})
	if !lists {
		return nil, nil
	}
	if t.paused != nil {
		return t.paused, list.columns()
	}
	return list.rows(), list.columns()
}

func (t *top) pause() {
	if t.paused != nil {
		t.paused = nil
		return
	}
	t.paused, _ = t.listed()
}

// sorted requests figures again, in their new order, if the server sorts them.
func (t *top) sorted(ctx context.Context) {
	if _, byServer := t.level().(*topList); byServer {
		t.start(ctx)
	}
}

// sortBy moves the order by so many columns.
func (t *top) sortBy(ctx context.Context, by int) {
	_, columns := t.listed()
	if len(columns) == 0 {
		return
	}
	i := slices.IndexFunc(columns, func(c topColumn) bool { return c.name == t.sort })
	t.sort = columns[(i+by+len(columns))%len(columns)].name
	t.sorted(ctx)
}

// turn shows flows instead of pairs, and back.
func (t *top) turn(ctx context.Context) {
	if len(t.levels) > 1 {
		return
	}
	by := "flow"
	if _, pairs := t.level().(*topPairs); !pairs {
		by = "pair"
	}
	t.levels = []topLevel{t.root(by)}
	t.openLevel(ctx)
}

func (t *top) openSelected(ctx context.Context) {
	rows, _ := t.listed()
	i := slices.IndexFunc(rows, func(r *topRow) bool { return r.key == t.selected })
	if i < 0 {
		return
	}
	var next topLevel = &topList{top: t, granularity: "flow", selection: rows[i].opens}
	if rows[i].flow != "" {
		next = newTopFlow(t, rows[i].flow, rows[i].opens)
	}
	t.levels = append(t.levels, next)
	t.openLevel(ctx)
}

func (t *top) back(ctx context.Context) {
	switch {
	case len(t.levels) > 1:
		t.levels = t.levels[:len(t.levels)-1]
		t.openLevel(ctx)
	case t.filter != "":
		t.filter = ""
		t.sorted(ctx)
	}
}

// openLevel shows another level, sorted by a column that it has.
func (t *top) openLevel(ctx context.Context) {
	if _, columns := t.listed(); len(columns) > 0 && !t.sortable(t.sort) {
		t.sort = "p99"
	}
	t.filter = ""
	t.open(ctx)
}

// move selects another line.
func (t *top) move(key string) {
	steps := map[string]int{terminal.Up: -1, "k": -1, terminal.Down: 1, "j": 1, terminal.PageUp: -t.page, terminal.PageDown: t.page,
		terminal.Home: -1 << 30, "g": -1 << 30, terminal.End: 1 << 30, "G": 1 << 30}
	rows, _ := t.listed()
	if rows = t.arrange(rows); len(rows) == 0 || steps[key] == 0 {
		return
	}
	at := max(0, slices.IndexFunc(rows, func(r *topRow) bool { return r.key == t.selected }))
	t.selected = rows[max(0, min(len(rows)-1, at+steps[key]))].key
}

// runes is the width of a line without codes.
func runes(line string) int { return utf8.RuneCountInString(terminal.Text(line)) }
