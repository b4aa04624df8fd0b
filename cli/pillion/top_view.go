package pillion

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pillion.dev/cli/terminal"
)

const (
	// backShown is how long a re-established connection is announced.
	backShown = 5 * time.Second
	// statesMost are the lines about what is missing.
	statesMost = 4
)

// frame is what the terminal shows, in lines that fit.
func (t *top) frame(width, height int) []string {
	out := []string{terminal.Bold + terminal.Fit(t.heading(), width) + terminal.Plain}
	for _, state := range t.states() {
		out = append(out, terminal.Yellow+terminal.Fit(clean(state), width)+terminal.Plain)
	}
	foot := terminal.Dim + terminal.Fit(t.keys(), width) + terminal.Plain
	if t.typing {
		foot = terminal.Fit("filter: "+clean(t.filter)+"█  Enter keeps it, Esc clears it", width)
	}
	room := max(0, height-len(out)-1)
	body := topHelp
	if !t.help {
		body = t.level().body(width, room)
	}
	for _, line := range body[:min(len(body), room)] {
		out = append(out, terminal.Fit(line, width))
	}
	for len(out) < height-1 {
		out = append(out, "")
	}
	return append(out, foot)[:min(height, len(out)+1)]
}

// heading is the first line.
func (t *top) heading() string {
	parts := []string{"pillion top", t.level().title()}
	if more, lists := t.level().(interface{ more() string }); lists && more.more() != "" {
		parts = append(parts, more.more())
	}
	if t.cmd.Session != "" {
		parts = append(parts, "session "+clean(t.cmd.Session))
	}
	if t.filter != "" {
		parts = append(parts, fmt.Sprintf("filter %q", t.filter))
	}
	if t.paused != nil {
		parts = append(parts, "PAUSED")
	}
	return strings.Join(append(parts, "last "+t.cmd.Over.String(), time.Now().Format(time.TimeOnly)), "  ")
}

// states say that the connection is lost, or is there again, and why rows of the session may be missing.
func (t *top) states() (states []string) {
	switch {
	case t.lost != nil:
		states = []string{fmt.Sprintf("connection lost at %s, reconnecting: %s", t.lostAt.Format(time.TimeOnly), failed("read figures", t.lost))}
	case time.Since(t.backAt) < backShown:
		states = []string{"reconnected at " + t.backAt.Format(time.TimeOnly)}
	}
	if t.session != nil {
		states = append(states, sessionWhy(t.session)...)
	}
	return states[:min(len(states), statesMost)]
}

// waiting says why there are no figures.
func (t *top) waiting(width int) []string {
	if !t.fed {
		return []string{terminal.Fit("requesting figures from "+t.client.URL, width)}
	}
	if t.filter != "" {
		return []string{terminal.Fit("nothing matches the filter; / changes it", width)}
	}
	if t.session != nil && len(sessionWhy(t.session)) == 0 {
		return []string{terminal.Fit(silentWhy(t.session), width)}
	}
	return []string{terminal.Fit("no packets were measured here in this time; pillion session list shows what is running", width)}
}

// keys are the keys that matter now.
func (t *top) keys() string {
	switch {
	case t.help:
		return "any key closes the help"
	case len(t.levels) == 1:
		return "Enter open  Tab pairs/flows  / filter  <> sort  Space pause  ? help  q quit"
	}
	if _, columns := t.listed(); len(columns) == 0 {
		return "Esc back  ? help  q quit"
	}
	return "Esc back  Enter open  / filter  <> sort  Space pause  ? help  q quit"
}

// table draws the rows that fit around the selected one.
func (t *top) table(columns []topColumn, rows []*topRow, width, height int) []string {
	if t.paused != nil {
		rows = t.paused
	}
	rows = t.arrange(rows)
	if len(rows) == 0 {
		return t.waiting(width)
	}
	t.page = max(1, height-1)
	at := max(0, slices.IndexFunc(rows, func(r *topRow) bool { return r.key == t.selected }))
	t.selected = rows[at].key
	t.first = max(0, min(t.first, len(rows)-t.page, at), at-t.page+1)
	rows = rows[t.first:min(len(rows), t.first+t.page)]
	live := make(liveColumns, len(columns))
	for i, c := range columns {
		live[i] = c.liveColumn
	}
	head := live.titles()
	for i, c := range columns {
		if c.name == t.sort {
			head[i].text += map[bool]string{false: "▼", true: "▲"}[t.reverse == (c.value != nil)]
		}
	}
	var cells [][]liveCell
	for _, r := range rows {
		line := make([]liveCell, len(columns))
		for i, c := range columns {
			line[i] = liveCell{c.cell(r).shown, c.mark(r)}
		}
		cells = append(cells, line)
	}
	widths, spark := live.fitted(width, head, cells)
	out := []string{terminal.Bold + terminal.Fit(strings.TrimRight(live.line(head, widths)+sparkTitle(spark), " "), width) + terminal.Plain}
	for i, r := range rows {
		line := live.line(cells[i], widths) + sparkline(r.history, spark)
		if r.key == t.selected {
			line = terminal.Reverse + terminal.Text(line) + strings.Repeat(" ", max(0, width-runes(line))) + terminal.Plain
		}
		out = append(out, terminal.Fit(line, width))
	}
	return out
}
