package point

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"pillion.dev/internal/quantity"
)

// Type of an option's value.
type Type string

// Types of options.
const (
	Text     Type = "text"
	Integer  Type = "integer"
	Duration Type = "duration"
	Switch   Type = "switch" // true or false
	Choice   Type = "choice"
	List     Type = "list" // some of the choices, separated by commas
)

// Option is one setting of a point. Values travel as text.
type Option struct {
	Name    string
	Type    Type
	Default string
	Doc     string
	// Min and Max bound integers and durations; empty: no bound.
	Min, Max string
	// Choices are the values of a Choice, or those that a List has; ChoiceDocs what each of them means, in sentences;
	// without any, the values speak for themselves.
	Choices, ChoiceDocs []string
}

// Check says what is wrong with a value, or nil.
func (o Option) Check(value string) error {
	switch o.Type {
	case Integer:
		return within(o, value, func(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }, "an integer")
	case Duration:
		return within(o, value, quantity.ParseDuration, "a time such as 500ms, 10s or 1h30m")
	case Switch:
		if value != "true" && value != "false" {
			return fmt.Errorf("%q is neither true nor false", value)
		}
	case Choice:
		if !slices.Contains(o.Choices, value) {
			return fmt.Errorf("%q is not one of %s", value, o.Range())
		}
	case List:
		for one := range strings.SplitSeq(value, ",") {
			if !slices.Contains(o.Choices, one) {
				return fmt.Errorf("%q is not one of %s", one, o.Range())
			}
		}
	}
	return nil
}

func within[T int64 | time.Duration](o Option, value string, parse func(string) (T, error), kind string) error {
	n, err := parse(value)
	if err != nil {
		return fmt.Errorf("%q is not %s", value, kind)
	}
	least, noMin := parse(o.Min)
	most, noMax := parse(o.Max)
	if noMin == nil && n < least || noMax == nil && n > most {
		return fmt.Errorf("%s is out of range: use %s", value, o.Range())
	}
	return nil
}

// Range describes the valid values: "100ms to 1h", "at least 5s", or the choices; empty:
// no bound.
func (o Option) Range() string {
	switch {
	case len(o.Choices) > 0:
		return strings.Join(o.Choices, ", ")
	case o.Min != "" && o.Max != "":
		return o.Min + " to " + o.Max
	case o.Min != "":
		return "at least " + o.Min
	case o.Max != "":
		return "at most " + o.Max
	}
	return ""
}

// Options are checked values, with every default filled in.
type Options map[string]string

// Text is the value as it is.
func (o Options) Text(name string) string { return o[name] }

// Integer is the value of an Integer option, 0 for any other.
func (o Options) Integer(name string) int64 {
	n, _ := strconv.ParseInt(o[name], 10, 64)
	return n
}

// Duration is the value of a Duration option, 0 for any other.
func (o Options) Duration(name string) time.Duration {
	d, _ := quantity.ParseDuration(o[name])
	return d
}

// Switch is the value of a Switch option, false for any other.
func (o Options) Switch(name string) bool { return o[name] == "true" }

// Complete fills in the defaults of options that are not given.
func (d *Descriptor) Complete(given map[string]string) Options {
	options := Options{}
	for _, option := range d.Options {
		options[option.Name] = option.Default
	}
	for name, value := range given {
		options[name] = value
	}
	if len(options) == 0 {
		return nil
	}
	return options
}
