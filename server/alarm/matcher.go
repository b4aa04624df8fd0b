package alarm

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Matcher is a condition on a label of alarms, in the syntax of Alertmanager: name=value, name!=value, name=~regexp
// or name!~regexp. A label that an alarm does not have is empty. Regular expressions match the whole value.
type Matcher struct {
	Name, Value string
	Regexp, Not bool
	compiled    *regexp.Regexp
}

// ErrMatcher marks an invalid matcher.
var ErrMatcher = errors.New("invalid matcher")

const (
	matcherBytes = 1024
	matchersMost = 32
)

// operators of matchers, longer ones first.
var operators = []operator{{"=~", true, false}, {"!~", true, true}, {"!=", false, true}, {"=", false, false}}

type operator struct {
	text        string
	regexp, not bool
}

// ParseMatcher reads one matcher. The value may be a quoted string.
func ParseMatcher(text string) (Matcher, error) {
	fail := func(cause string) (Matcher, error) {
		return Matcher{}, fmt.Errorf("%w %.100q: %s", ErrMatcher, text, cause)
	}
	if len(text) > matcherBytes || !utf8.ValidString(text) {
		return fail("it is not UTF-8 of at most 1024 bytes")
	}
	at := strings.IndexAny(text, "=!")
	if at < 0 {
		return fail("use name=value, name!=value, name=~regexp or name!~regexp")
	}
	m := Matcher{Name: strings.TrimSpace(text[:at])}
	if !labelPattern.MatchString(m.Name) {
		return fail("the name of a label has letters, digits and _")
	}
	i := 0
	for i < len(operators) && !strings.HasPrefix(text[at:], operators[i].text) {
		i++
	}
	if i == len(operators) {
		return fail("use one of the operators =, !=, =~ and !~")
	}
	m.Regexp, m.Not = operators[i].regexp, operators[i].not
	m.Value = strings.TrimSpace(text[at+len(operators[i].text):])
	if strings.HasPrefix(m.Value, `"`) {
		value, err := strconv.Unquote(m.Value)
		if err != nil || !utf8.ValidString(value) {
			return fail("the quoted value does not end, or has an invalid escape")
		}
		m.Value = value
	}
	if m.Regexp {
		compiled, err := regexp.Compile("^(?:" + m.Value + ")$")
		if err != nil {
			return fail(err.Error())
		}
		m.compiled = compiled
	}
	return m, nil
}

// String is the matcher in the form that ParseMatcher reads.
func (m Matcher) String() string {
	i := slices.IndexFunc(operators, func(o operator) bool { return o.regexp == m.Regexp && o.not == m.Not })
	return m.Name + operators[i].text + strconv.Quote(m.Value)
}

// Matches reports whether labels satisfy the matcher.
func (m Matcher) Matches(labels map[string]string) bool {
	value := labels[m.Name]
	if m.Regexp {
		return m.compiled.MatchString(value) != m.Not
	}
	return (value == m.Value) != m.Not
}

// Matchers are satisfied if all of them are.
type Matchers []Matcher

// ParseMatchers reads several.
func ParseMatchers(texts []string) (all Matchers, err error) {
	if len(texts) > matchersMost {
		return nil, fmt.Errorf("%w: %d matchers, limit %d", ErrMatcher, len(texts), matchersMost)
	}
	for _, text := range texts {
		m, err := ParseMatcher(text)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// Matches reports whether labels satisfy all.
func (all Matchers) Matches(labels map[string]string) bool {
	return !slices.ContainsFunc(all, func(m Matcher) bool { return !m.Matches(labels) })
}

// Texts are the matchers in the form that ParseMatchers reads.
func (all Matchers) Texts() (texts []string) {
	for _, m := range all {
		texts = append(texts, m.String())
	}
	return texts
}
