package alarm

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"pillion.dev/internal/quantity"
	"pillion.dev/session"
)

// Rule says when an alarm is raised, and for which pairs or agents. Complete fills in the defaults.
type Rule struct {
	// Name of the rule, and of the label alertname of its alarms.
	Name string `yaml:"name"`
	// On is the condition; Conditions lists them.
	On string `yaml:"on"`
	// Above is the threshold: a share of the expected packets, or a delay.
	Above string `yaml:"above"`
	// Over is the length of the window.
	Over time.Duration `yaml:"over"`
	// Packets is the minimum number of packets in the window.
	Packets uint64 `yaml:"packets"`
	// For is how long the condition must hold.
	For time.Duration `yaml:"for"`
	// KeepFiringFor is how long it must be over before the alarm ends.
	KeepFiringFor time.Duration `yaml:"keep_firing_for"`
	// Sessions, Sources and Destinations select pairs, Agents the agents of AgentSilence; none: all.
	Sessions     []string `yaml:"sessions"`
	Sources      []string `yaml:"sources"`
	Destinations []string `yaml:"destinations"`
	Agents       []string `yaml:"agents"`
	// Severity is a label of its alarms.
	Severity string `yaml:"severity"`
	// Labels and Annotations are added to its alarms.
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
	// Disabled rules raise no alarms.
	Disabled bool `yaml:"disabled"`

	// share of bad packets above which the condition holds, delay above which a packet is bad.
	share   float64       `yaml:"-"`
	delay   time.Duration `yaml:"-"`
	builtIn bool          `yaml:"-"`
}

// Conditions of rules.
const (
	Loss         = "loss"
	DelayP50     = "delay-p50"
	DelayP90     = "delay-p90"
	DelayP99     = "delay-p99"
	DelayMax     = "delay-max"
	Silence      = "silence"
	FlowSilence  = "flow-silence"
	AgentSilence = "agent-silence"
	Path         = "path"
)

// condition is what a rule may be on.
type condition struct {
	name string
	// share of packets that may be above a delay.
	share float64
	// Defaults; zero: the key does not apply.
	over    time.Duration
	packets uint64
	keep    time.Duration
}

// Defaults of rules.
const (
	keepUsual = 30 * time.Second
	keepPath  = 5 * time.Minute
)

var conditions = []condition{
	{Loss, 0, 10 * time.Second, 100, keepUsual},
	{DelayP50, 0.5, 10 * time.Second, 100, keepUsual},
	{DelayP90, 0.1, 10 * time.Second, 100, keepUsual},
	{DelayP99, 0.01, 10 * time.Second, 100, keepUsual},
	{DelayMax, 0, 10 * time.Second, 1, keepUsual},
	{Silence, 0, 3 * time.Second, 10, keepUsual},
	{FlowSilence, 0, 3 * time.Second, 10, keepUsual},
	{AgentSilence, 0, 15 * time.Second, 0, keepUsual},
	{Path, 0, 0, 0, keepPath},
}

// Conditions returns the names of the conditions.
func Conditions() (names []string) {
	for _, c := range conditions {
		names = append(names, c.name)
	}
	return names
}

// ErrRule marks an invalid rule.
var ErrRule = errors.New("invalid rule")

// Bounds of rules.
const (
	rulesMost     = 200
	selectorsMost = 1000
	textMost      = 1024
	overLeast     = time.Second
	overMost      = time.Hour
	holdMost      = 24 * time.Hour
)

// reserved are labels that alarms have anyway.
var reserved = []string{labelName, labelSeverity, labelSession, labelSource, labelDestination, labelAgent, labelFlow, labelSourceSite, labelDestinationSite}

var (
	namePattern  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,62}$`)
	labelPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)
)

// CompleteRules fills in the defaults of rules and validates them. The built-in rules come first, unless one of
// the same name replaces them.
func CompleteRules(builtIn, rules []Rule) (all []Rule, err error) {
	if len(rules) > rulesMost {
		return nil, fmt.Errorf("%w: %d rules, limit %d", ErrRule, len(rules), rulesMost)
	}
	named := map[string]bool{}
	var faults []error
	rules = slices.Clone(rules)
	for i, r := range rules {
		if named[r.Name] {
			faults = append(faults, fmt.Errorf("%w: two rules are named %q", ErrRule, r.Name))
		}
		named[r.Name] = true
		if rules[i], err = r.complete(); err != nil {
			faults = append(faults, fmt.Errorf("rule %s: %w", cmp.Or(strconv.Quote(r.Name), strconv.Itoa(i+1)), err))
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	for _, r := range builtIn {
		if !named[r.Name] {
			if r, err = r.complete(); err != nil {
				return nil, err
			}
			r.builtIn = true
			all = append(all, r)
		}
	}
	return append(all, rules...), nil
}

// CheckName checks the name of a rule, or of a receiver of its alarms.
func CheckName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("name %q: use letters, digits and _.-, at most 63, the first a letter", name)
	}
	return nil
}

// complete fills in the defaults and validates the rule.
func (r Rule) complete() (Rule, error) {
	if err := CheckName(r.Name); err != nil {
		return r, fmt.Errorf("%w: %w", ErrRule, err)
	}
	i := slices.IndexFunc(conditions, func(c condition) bool { return c.name == r.On })
	if i < 0 {
		return r, fmt.Errorf("%w: on %q: use %s", ErrRule, r.On, strings.Join(Conditions(), ", "))
	}
	c := conditions[i]
	r.Severity = cmp.Or(r.Severity, "warning")
	for _, check := range []func(condition) error{r.threshold, r.window, r.selection, r.texts} {
		if err := check(c); err != nil {
			return r, err
		}
	}
	if c.over > 0 {
		r.Over = cmp.Or(r.Over, c.over)
	}
	r.Packets, r.KeepFiringFor = cmp.Or(r.Packets, c.packets), cmp.Or(r.KeepFiringFor, c.keep)
	switch {
	case c.name == Loss:
		r.share, _ = parseShare(r.Above)
	case r.delays():
		r.share = c.share
		r.delay, _ = quantity.ParseDuration(r.Above)
	}
	return r, nil
}

// delays reports whether the rule is on delays.
func (r *Rule) delays() bool { return strings.HasPrefix(r.On, "delay-") }

// sums reports whether the rule is on a share of packets.
func (r *Rule) sums() bool { return r.On == Loss || r.delays() }

func (r *Rule) threshold(condition) error {
	switch {
	case r.On == Loss:
		if _, err := parseShare(r.Above); err != nil {
			return fmt.Errorf("%w: above: %w", ErrRule, err)
		}
	case r.delays():
		if d, err := quantity.ParseDuration(r.Above); err != nil || d <= 0 || d > time.Hour {
			return fmt.Errorf("%w: above %q: use a delay such as 20ms, at most 1h", ErrRule, r.Above)
		}
	case r.Above != "":
		return fmt.Errorf("%w: above: the condition %s has no threshold", ErrRule, r.On)
	}
	return nil
}

func (r *Rule) window(c condition) error {
	switch {
	case c.over == 0 && r.Over != 0:
		return fmt.Errorf("%w: over: the condition %s has no window", ErrRule, r.On)
	case r.Over != 0 && (r.Over < overLeast || r.Over > overMost):
		return fmt.Errorf("%w: over %v, want 1s to 1h", ErrRule, r.Over)
	case c.packets == 0 && r.Packets != 0:
		return fmt.Errorf("%w: packets: the condition %s counts none", ErrRule, r.On)
	case r.For < 0 || r.For > holdMost || c.over == 0 && r.For != 0:
		return fmt.Errorf("%w: for %v, want 0s to 24h, and none on %s", ErrRule, r.For, Path)
	case r.KeepFiringFor < 0 || r.KeepFiringFor > holdMost:
		return fmt.Errorf("%w: keep_firing_for %v, want at most 24h", ErrRule, r.KeepFiringFor)
	}
	return nil
}

func (r *Rule) selection(condition) error {
	if len(r.Agents) > 0 && r.On != AgentSilence {
		return fmt.Errorf("%w: agents: the condition %s is about pairs: use sources and destinations", ErrRule, r.On)
	}
	if r.On == AgentSilence && len(r.Sources)+len(r.Destinations)+len(r.Sessions) > 0 {
		return fmt.Errorf("%w: the condition %s is about agents: use agents", ErrRule, r.On)
	}
	for _, name := range r.Sessions {
		if !session.ValidName(name) {
			return fmt.Errorf("%w: sessions: %q is not the name of a session", ErrRule, name)
		}
	}
	for key, selectors := range map[string][]string{"sources": r.Sources, "destinations": r.Destinations, "agents": r.Agents} {
		if len(selectors) > selectorsMost {
			return fmt.Errorf("%w: %s: %d selectors, limit %d", ErrRule, key, len(selectors), selectorsMost)
		}
		for _, text := range selectors {
			if name, value, _ := strings.Cut(text, "="); text != "*" && !session.ValidLabel(name, value) {
				return fmt.Errorf("%w: %s: %q is not an agent name, a label (key=value or key) or *", ErrRule, key, text)
			}
		}
	}
	return nil
}

func (r *Rule) texts(condition) error {
	if !namePattern.MatchString(r.Severity) {
		return fmt.Errorf("%w: severity %q: use a word such as warning or critical", ErrRule, r.Severity)
	}
	for name, value := range r.Labels {
		switch {
		case slices.Contains(reserved, name):
			return fmt.Errorf("%w: labels: every alarm has its own %s", ErrRule, name)
		case !labelPattern.MatchString(name):
			return fmt.Errorf("%w: labels: name %q: use letters, digits and _", ErrRule, name)
		case len(value) > textMost || !utf8.ValidString(value):
			return fmt.Errorf("%w: labels: the value of %s is not UTF-8 of at most %d bytes", ErrRule, name, textMost)
		}
	}
	for name, value := range r.Annotations {
		if !labelPattern.MatchString(name) || name == annotationSummary || len(value) > textMost || !utf8.ValidString(value) {
			return fmt.Errorf("%w: annotations: %q: use a name of letters, digits and _, except %s, and at most %d bytes of UTF-8",
				ErrRule, name, annotationSummary, textMost)
		}
	}
	return nil
}

// parseShare reads a share of packets: 2% or 0.02.
func parseShare(text string) (float64, error) {
	figure, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(strings.TrimSpace(figure), 64)
	if percent {
		share /= 100
	}
	if err != nil || !(share > 0 && share < 1) {
		return 0, fmt.Errorf("%q is not a share of packets, such as 2%% or 0.02, above 0 and below 100%%", text)
	}
	return share, nil
}

// FormatShare is the threshold of a loss rule for a number.
func FormatShare(share float64) string { return strconv.FormatFloat(share, 'g', -1, 64) }
