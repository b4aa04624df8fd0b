package model

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

var errNegative = errors.New("must not be negative")

// faultf is a fault of what a user wrote, which the parser puts the place before.
func faultf(format string, a ...any) error { return fmt.Errorf(format, a...) }

// Parser reads distributions and models.
type Parser struct {
	// Open opens the file of a file(path); without it that distribution is refused. A model
	// that comes from another host must not be able to read any file of this one.
	Open func(path string) (fs.File, error)
}

// local opens the files of this host.
var local = Parser{Open: func(path string) (fs.File, error) {
	// A pipe or a device could block, or never end.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	return os.Open(path)
}}

// Parse reads a distribution, whose first parameter with a unit says whether it is one of
// times or of sizes: "10m" is ten minutes, "10M" ten megabytes. Files are on this host.
func Parse(text string) (Distribution, error) { return local.Parse(text) }

// Parse reads a distribution as the function Parse does.
func (p Parser) Parse(text string) (Distribution, error) {
	d, err := p.ParseAs(text, Time)
	if !errors.As(err, new(wrongUnit)) {
		return d, err
	}
	if d, sizeErr := p.ParseAs(text, Size); !errors.As(sizeErr, new(wrongUnit)) {
		return d, sizeErr
	}
	return nil, err
}

// ParseAs reads a distribution of times or of sizes.
func (p Parser) ParseAs(text string, q Quantity) (Distribution, error) {
	c, err := parseCall(text)
	if err != nil {
		return nil, err
	}
	d, err := p.distribution(c, q)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	return d, nil
}

// wrongUnit is a value that is not one of the quantity asked for.
type wrongUnit struct{ error }

func (w wrongUnit) Unwrap() error { return w.error }

// distribution makes what the call describes.
func (p Parser) distribution(c call, q Quantity) (Distribution, error) {
	if c.name == "onoff" {
		return p.onOff(c, q)
	}
	return p.law(c, q)
}

func (p Parser) law(c call, q Quantity) (*Law, error) {
	if c.name == "file" {
		return p.file(c, q)
	}
	at := slices.IndexFunc(entries, func(e entry) bool { return e.name == c.name })
	if at < 0 {
		return nil, faultf("unknown distribution; known are %s", known())
	}
	e := entries[at]
	options := []string{"min", "max"}
	counted := e.name == "poisson" && q == Time
	if counted {
		options = append(options, "unit")
	}
	if err := c.check(e.usage(), len(e.parameters), options); err != nil {
		return nil, err
	}
	law := Law{quantity: q, name: e.name}
	var values []float64
	for i, parameter := range e.parameters {
		value, written, err := parameter.parse(c.args[i], q)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", parameter.name, c.args[i], err)
		}
		values, law.args = append(values, value), append(law.args, written)
	}
	unit := 1.0
	if counted {
		n, err := c.amount("unit", q, 1e6)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, faultf("unit %q: must be greater than 0", c.options["unit"])
		}
		unit, law.args = float64(n), append(law.args, "unit="+q.format(n))
	}
	var err error
	if law.base, err = e.build(values, unit); err != nil {
		return nil, err
	}
	min, max, err := c.bounds(q)
	if err != nil {
		return nil, err
	}
	return law.truncated(min, max)
}

// usage is how the distribution is written.
func (e entry) usage() string {
	var names []string
	for _, p := range e.parameters {
		names = append(names, p.name)
	}
	return e.name + "(" + strings.Join(names, ",") + ")"
}

// known lists the distributions.
func known() string {
	var names []string
	for _, e := range entries {
		names = append(names, e.name)
	}
	return strings.Join(append(names, "file", "onoff"), ", ")
}

// parse returns a parameter's value and how it is written again.
func (p parameter) parse(text string, q Quantity) (float64, string, error) {
	if p.kind == shape {
		value, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(value, 0) || math.IsNaN(value) {
			return 0, "", faultf("not a number")
		}
		if value < leastShape || value > mostShape {
			return 0, "", faultf("must be a number from %g to %g", leastShape, mostShape)
		}
		return value, strconv.FormatFloat(value, 'g', -1, 64), nil
	}
	n, err := parseAmount(text, q)
	if err == nil && n == 0 && p.kind == positiveAmount {
		err = faultf("must be greater than 0")
	}
	return float64(n), q.format(n), err
}

// Shapes outside these put nearly all values at one point or beyond every range.
const (
	leastShape = 0.01
	mostShape  = 1e6
)

// parseAmount reads a time or a size.
func parseAmount(text string, q Quantity) (int64, error) {
	if v, err := strconv.ParseFloat(strings.TrimRight(text, "bB"), 64); q == Size && err == nil && v != math.Trunc(v) {
		return 0, faultf("must be a whole number of bytes")
	}
	n, err := q.parse(text)
	if err == nil || errors.Is(err, errNegative) {
		return n, err
	}
	return 0, wrongUnit{fmt.Errorf("not a %s: %w", q, err)}
}

// amount is the value of an option, or another one if it is not given.
func (c call) amount(option string, q Quantity, otherwise int64) (int64, error) {
	text, given := c.options[option]
	if !given {
		return otherwise, nil
	}
	n, err := parseAmount(text, q)
	if err != nil {
		return 0, fmt.Errorf("%s %q: %w", option, text, err)
	}
	return n, nil
}

// bounds are the values of min and max.
func (c call) bounds(q Quantity) (min, max float64, err error) {
	least, err := c.amount("min", q, 0)
	if err != nil {
		return 0, 0, err
	}
	most, err := c.amount("max", q, -1)
	if err != nil {
		return 0, 0, err
	}
	if most < 0 {
		return float64(least), math.Inf(1), nil
	}
	return float64(least), float64(most), nil
}
