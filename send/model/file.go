package model

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"

	"pillion.dev/internal/quantity"
)

// Limits of the file of an empirical distribution.
const (
	fileBytes  = 64 << 20
	fileValues = 4 << 20
)

// file returns the empirical distribution of the values in a file, without values outside the bounds.
func (p Parser) file(c call, q Quantity) (*Law, error) {
	if err := c.check("file(path)", 1, []string{"min", "max", "order"}); err != nil {
		return nil, err
	}
	path := c.args[0]
	if strings.HasPrefix(path, `"`) {
		unquoted, err := strconv.Unquote(path)
		if err != nil {
			return nil, faultf("path %s is not a quoted string", path)
		}
		path = unquoted
	}
	order, given := c.options["order"]
	if given && order != "sequential" && order != "random" {
		return nil, faultf("order %q: must be sequential or random", order)
	}
	min, max, err := c.bounds(q)
	if err != nil {
		return nil, err
	}
	values, err := p.values(path, q)
	if err != nil {
		return nil, err
	}
	args := []string{writtenPath(path)}
	if order == "sequential" {
		args = append(args, "order="+order)
	}
	law := Law{quantity: q, name: "file", args: args}
	law.base.within = func(min, max float64) (base, error) {
		inside := slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return v < min || v > max })
		if len(inside) == 0 {
			return base{}, faultf("%s: no values within the bounds", path)
		}
		return empirical(inside, order == "sequential"), nil
	}
	return law.truncated(min, max)
}

// writtenPath quotes a path that could be taken for other syntax of a model.
func writtenPath(path string) string {
	quoted := strconv.Quote(path)
	if strings.ContainsAny(path, " \t,=()") || quoted != `"`+path+`"` {
		return quoted
	}
	return path
}

// values reads the values of a file in their order.
func (p Parser) values(path string, q Quantity) ([]float64, error) {
	if p.Open == nil {
		return nil, faultf("files are not allowed here")
	}
	file, err := p.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > fileBytes {
		return nil, faultf("%s: the file is larger than %s", path, quantity.FormatBytes(fileBytes))
	}
	var values []float64
	scanner := bufio.NewScanner(file)
	for line := 1; scanner.Scan(); line++ {
		text := strings.TrimSpace(scanner.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		value, err := parseLine(text, q)
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, line, err)
		}
		if values = append(values, value); len(values) > fileValues {
			return nil, faultf("%s: more than %d values", path, fileValues)
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return values, nil
}

// parseLine reads one value of a file; a time without a unit is in milliseconds.
func parseLine(text string, q Quantity) (float64, error) {
	if ms, err := strconv.ParseFloat(text, 64); q == Time && err == nil {
		if value := math.Round(ms * 1e6); value >= 0 && value < math.MaxInt64 {
			return value, nil
		}
		return 0, faultf("%q is out of range", text)
	}
	n, err := parseAmount(text, q)
	return float64(n), err
}

// empirical is the distribution of the values, which are whole; sequential draws repeat
// them in their order.
func empirical(values []float64, sequential bool) base {
	sorted := slices.Sorted(slices.Values(values))
	sums := make([]float64, len(sorted)+1) // of the smallest values
	for i, v := range sorted {
		sums[i+1] = sums[i] + v
	}
	n := float64(len(sorted))
	upTo := func(x float64) int { return sort.Search(len(sorted), func(i int) bool { return sorted[i] > x }) }
	b := base{
		cdf:     func(x float64) float64 { return float64(upTo(x)) / n },
		partial: func(a, b float64) float64 { return (sums[upTo(b)] - sums[upTo(a)]) / n },
		start: func(source rand.Source) func() float64 {
			r := rand.New(source)
			return func() float64 { return values[r.IntN(len(values))] }
		},
		nearest: func(x float64) float64 {
			after := min(upTo(x), len(sorted)-1)
			if before := max(upTo(x)-1, 0); x-sorted[before] <= sorted[after]-x {
				return sorted[before]
			}
			return sorted[after]
		},
	}
	if sequential {
		b.start = func(rand.Source) func() float64 {
			next := 0
			return func() float64 {
				value := values[next]
				next = (next + 1) % len(values)
				return value
			}
		}
		b.value = func(i int) float64 { return values[i%len(values)] }
	}
	return b
}
