package model

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"pillion.dev/internal/quantity"
)

// call is a name with arguments in parentheses, those with a key apart.
type call struct {
	name    string
	args    []string
	options map[string]string
}

// parseCall reads name(argument,...,key=argument,...).
func parseCall(text string) (call, error) {
	text = strings.TrimSpace(text)
	name, rest, open := strings.Cut(text, "(")
	c := call{name: strings.TrimSpace(name), options: map[string]string{}}
	if !open || c.name == "" || !strings.HasSuffix(rest, ")") {
		return c, faultf("%q is not a distribution such as exponential(1ms); known are %s", text, known())
	}
	inside := strings.TrimSuffix(rest, ")")
	parts, err := split(inside, ",")
	if err != nil {
		return c, faultf("%q: %w", text, err)
	}
	if strings.TrimSpace(inside) == "" {
		return c, nil
	}
	for _, part := range parts {
		part = strings.TrimSpace(part)
		key, value, keyed := strings.Cut(part, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch _, twice := c.options[key]; {
		case part == "":
			return c, faultf("%q: empty argument", text)
		case !keyed || strings.ContainsAny(key, `("`):
			c.args = append(c.args, part)
		case value == "":
			return c, faultf("%q: %s has no value", text, key)
		case twice:
			return c, faultf("%q: %s is given twice", text, key)
		default:
			c.options[key] = value
		}
	}
	return c, nil
}

// check compares the arguments with what the distribution takes.
func (c call) check(usage string, args int, options []string) error {
	if len(c.args) != args {
		return faultf("%s given; want %s", quantity.Count(len(c.args), "parameter"), usage)
	}
	for _, key := range slices.Sorted(maps.Keys(c.options)) {
		if !slices.Contains(options, key) {
			return faultf("unknown option %q; allowed are %s", key, strings.Join(options, ", "))
		}
	}
	return nil
}

// split cuts the text at any of the separators that is neither in parentheses nor in a
// quoted string.
func split(text, separators string) ([]string, error) {
	var parts []string
	depth, start := 0, 0
	for at := 0; at < len(text); at++ {
		switch letter := text[at]; {
		case letter == '"':
			quoted, err := strconv.QuotedPrefix(text[at:])
			if err != nil {
				return nil, faultf("quotation mark without its counterpart at %q", text[at:])
			}
			at += len(quoted) - 1
		case letter == '(':
			depth++
		case letter == ')':
			if depth--; depth < 0 {
				return nil, faultf("unmatched ) at %q", text[at:])
			}
		case depth == 0 && strings.IndexByte(separators, letter) >= 0:
			parts, start = append(parts, text[start:at]), at+1
		}
	}
	if depth > 0 {
		return nil, faultf("missing )")
	}
	return append(parts, text[start:]), nil
}
