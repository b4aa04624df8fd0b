package chart

import (
	_ "embed"
	"fmt"
	"html/template"
	"strings"
)

//go:embed chart.svg
var markup string

var drawing = template.Must(template.New("chart").Parse(markup))

// Chart is a drawing with two axes.
type Chart struct {
	ID          string // in the page, for its title and description
	Title       string
	Description string
	Width       float64
	Height      float64
	XName       string
	YName       string
	// Middle puts labels of integer bins at the middle of their bars.
	Middle bool
	x, y   Scale
	XTicks []Tick
	YTicks []Tick
	Shapes []Shape
}

// Tick is a labelled position on an axis.
type Tick struct {
	At, Label string
	Anchor    string // start, middle, end
}

// Shape is a path with a style: area, line, rule.
type Shape struct{ Class, Path, Title string }

// Margins around the plot for the axes' labels.
const (
	marginLeft   = 52
	marginRight  = 14
	marginTop    = 26
	marginBottom = 40
)

// Edges of the plot, for the markup.
func (c Chart) Left() string     { return place(marginLeft) }
func (c Chart) Right() string    { return place(c.Width - marginRight) }
func (c Chart) Top() string      { return place(marginTop) }
func (c Chart) Bottom() string   { return place(c.Height - marginBottom) }
func (c Chart) LabelY() string   { return place(c.Height - marginBottom + 16) }
func (c Chart) XNameY() string   { return place(c.Height - 6) }
func (c Chart) LabelX() string   { return place(marginLeft - 7) }
func (c Chart) ViewBox() string  { return fmt.Sprintf("0 0 %s %s", place(c.Width), place(c.Height)) }
func (c Chart) MiddleX() string  { return place((marginLeft + c.Width - marginRight) / 2) }
func (c Chart) BaseLine() string { return place(c.Height - marginBottom) }

// SetX sets the range and labels of the horizontal axis.
func (c *Chart) SetX(low, high float64, label func(float64) string) {
	c.x = Scale{Min: low, Max: high, Low: marginLeft, High: c.Width - marginRight}
	ticks := c.x.ticks(6)
	for i, value := range ticks {
		at, anchor := value, "middle"
		if c.Middle {
			if at += .5; at > high {
				break
			}
		}
		if i == len(ticks)-1 && c.x.at(at) > c.x.High-12 {
			anchor = "end" // within the drawing
		}
		c.XTicks = append(c.XTicks, Tick{place(c.x.at(at)), label(value), anchor})
	}
}

// SetY sets the range of the vertical axis, from zero or from a power of ten.
func (c *Chart) SetY(low, high float64, log bool, label func(float64) string) {
	c.y = Scale{Min: 0, Max: Ceiling(high), Low: c.Height - marginBottom, High: marginTop, Log: log}
	if log {
		c.y.Min, c.y.Max = decades(low, high)
	}
	for _, value := range c.y.ticks(5) {
		c.YTicks = append(c.YTicks, Tick{place(c.y.at(value)), label(value), ""})
	}
}

// Steps draws adjacent bars of equal width as one area.
func (c *Chart) Steps(class string, width float64, heights []float64) {
	var path strings.Builder
	base := c.y.Low
	last := base
	fmt.Fprintf(&path, "M%s %s", place(c.x.at(0)), place(base))
	for i, height := range heights {
		at := base
		if height > 0 {
			at = min(c.y.at(height), base-1) // a bin that is not empty stays visible
		}
		if at != last {
			fmt.Fprintf(&path, "H%sV%s", place(c.x.at(float64(i)*width)), place(at))
			last = at
		}
	}
	fmt.Fprintf(&path, "H%sV%sZ", place(c.x.at(float64(len(heights))*width)), place(base))
	c.Shapes = append(c.Shapes, Shape{Class: class, Path: path.String()})
}

const dash = 6

// Line draws values at positions. It is interrupted where a value is missing (below 0).
func (c *Chart) Line(class, title string, x, y []float64) {
	var path strings.Builder
	pen := "M"
	for i, value := range y {
		if value < 0 {
			pen = "M"
			continue
		}
		if pen == "M" && (i+1 == len(y) || y[i+1] < 0) { // an isolated point is drawn as a dash
			fmt.Fprintf(&path, "M%s %sh%d", place(c.x.at(x[i])-dash/2), place(c.y.at(value)), dash)
			continue
		}
		fmt.Fprintf(&path, "%s%s %s", pen, place(c.x.at(x[i])), place(c.y.at(value)))
		pen = "L"
	}
	if path.Len() > 0 {
		c.Shapes = append(c.Shapes, Shape{class, path.String(), title})
	}
}

// Bars draws one bar at each position.
func (c *Chart) Bars(class string, width float64, x, y []float64) {
	var path strings.Builder
	for i, value := range y {
		if value <= 0 {
			continue
		}
		left, right := c.x.at(x[i]-width/2), c.x.at(x[i]+width/2)
		fmt.Fprintf(&path, "M%s %sV%sH%sV%sZ", place(left), place(c.y.Low), place(c.y.at(value)), place(max(right, left+1)), place(c.y.Low))
	}
	if path.Len() > 0 {
		c.Shapes = append(c.Shapes, Shape{Class: class, Path: path.String()})
	}
}

// Rule draws a vertical line at a value.
func (c *Chart) Rule(class, title string, value float64) {
	if value > c.x.Max {
		return
	}
	path := fmt.Sprintf("M%s %sV%s", place(c.x.at(value)), place(c.y.Low), place(c.y.High))
	c.Shapes = append(c.Shapes, Shape{class, path, title})
}

// Draw returns the chart as markup.
func (c Chart) Draw() (template.HTML, error) {
	var b strings.Builder
	if err := drawing.Execute(&b, c); err != nil {
		return "", fmt.Errorf("draw chart: %w", err)
	}
	return template.HTML(b.String()), nil
}
