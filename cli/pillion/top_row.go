package pillion

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"pillion.dev/api/pillionv1"
	"pillion.dev/cli/terminal"
	"pillion.dev/internal/quantity"
)

// topRow is a line of the table: the figures of a pair or of a flow.
type topRow struct {
	// key is the same in each update.
	key                 string
	source, destination string
	flow                string
	p50, p99            float64 // ns; NaN: none
	// bound is the error bound of both clocks, ns.
	bound   float64
	delays  uint64
	packets uint64
	// expected counts packets received and lost.
	expected, lost, reordered, duplicated uint64
	packetRate, bitRate                   float64 // per second
	// history are medians, the latest last.
	history []float64
	// opens selects what the row consists of.
	opens *pillionv1.Selection
}

// name is what a filter matches.
func (r *topRow) name() string {
	if r.flow != "" {
		return r.flow
	}
	return r.source + " > " + r.destination
}

// fraction is a part of a number of packets; NaN if there are none.
func fraction(part, of uint64) float64 { return float64(part) / float64(of) }

// topColumn is a column of the table.
type topColumn struct {
	liveColumn
	// name of the column in --sort.
	name string
	// cell is a figure of a row; value that to sort by, the largest first, and nil for text, which ascends.
	cell  func(*topRow) cell
	value func(*topRow) float64
	// bad is the share from which a figure is marked.
	bad float64
}

// lossy is the share of packets from which loss, reordering and duplication are marked red.
const lossy = 0.01

func percent(part, of uint64) cell {
	c := decimal(100*fraction(part, of), 2)
	if c.plain != "" {
		c.shown += " %"
	}
	return c
}

var topColumns = []topColumn{
	{liveColumn{"source", 9, 0}, "source", func(r *topRow) cell { return text(fit(r.source, nameMax)) }, nil, 0},
	{liveColumn{"destination=DEST", 9, 0}, "destination", func(r *topRow) cell { return text(fit(r.destination, nameMax)) }, nil, 0},
	{liveColumn{"flow", 9, 0}, "flow", func(r *topRow) cell { return text(clean(r.flow)) }, nil, 0},
	{liveColumn{">p50_ns=P50", 8, 7}, "p50", func(r *topRow) cell { return delayCell(r.p50) }, func(r *topRow) float64 { return r.p50 }, 0},
	{liveColumn{">p99_ns=P99", 7, 7}, "p99", func(r *topRow) cell { return delayCell(r.p99) }, func(r *topRow) float64 { return r.p99 }, 0},
	{liveColumn{"clock_error_ns=±", 3, 8}, "error", func(r *topRow) cell { return clockCell(r.delays, r.bound) }, func(r *topRow) float64 { return r.bound }, 0},
	{liveColumn{">loss_percent=LOSS", 7, 6}, "loss", func(r *topRow) cell { return percent(r.lost, r.expected) },
		func(r *topRow) float64 { return fraction(r.lost, r.expected) }, lossy},
	{liveColumn{">reordered_percent=REORD", 5, 6}, "reordered", func(r *topRow) cell { return percent(r.reordered, r.packets) },
		func(r *topRow) float64 { return fraction(r.reordered, r.packets) }, lossy},
	{liveColumn{">duplicated_percent=DUP", 4, 6}, "duplicated", func(r *topRow) cell { return percent(r.duplicated, r.packets) },
		func(r *topRow) float64 { return fraction(r.duplicated, r.packets) }, lossy},
	{liveColumn{">packets_per_s=PKT/S", 5, 8}, "packets", func(r *topRow) cell { return decimal(r.packetRate, 1) }, func(r *topRow) float64 { return r.packetRate }, 0},
	{liveColumn{">bits_per_s=RATE", 6, 11}, "rate", func(r *topRow) cell { return bitRate(r.bitRate) }, func(r *topRow) float64 { return r.bitRate }, 0},
}

// bitRate is a cell with bits per second.
func bitRate(bits float64) cell {
	if math.IsNaN(bits) {
		return cell{shown: "-", plain: ""}
	}
	// Three digits, as of delays.
	step := math.Pow(10, math.Max(0, math.Floor(math.Log10(math.Max(bits, 1)))-2))
	return cell{shown: quantity.FormatRate(int64(math.Round(bits/step) * step)), plain: decimal(bits, 0).plain}
}

// mark is the style of a figure: any loss is marked, much of it more.
func (c *topColumn) mark(r *topRow) string {
	if c.bad == 0 || !(c.value(r) > 0) {
		return ""
	}
	if c.value(r) >= c.bad {
		return terminal.Red
	}
	return terminal.Yellow
}

// order compares rows; rows without a figure come last.
func (c *topColumn) order(a, b *topRow, reverse bool) int {
	n := 0
	if c.value == nil {
		n = strings.Compare(c.cell(a).plain, c.cell(b).plain)
	} else {
		x, y := c.value(a), c.value(b)
		if math.IsNaN(x) != math.IsNaN(y) {
			if math.IsNaN(x) {
				return 1
			}
			return -1
		}
		n = cmp.Compare(y, x)
	}
	if reverse {
		n = -n
	}
	return cmp.Or(n, strings.Compare(a.name(), b.name()))
}

// topColumnsOf are the columns of a list by pair, or by flow.
func topColumnsOf(flows bool) []topColumn {
	return slices.DeleteFunc(slices.Clone(topColumns), func(c topColumn) bool {
		return flows && (c.name == "source" || c.name == "destination") || !flows && c.name == "flow"
	})
}
