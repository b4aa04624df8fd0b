// Package point describes the measurements that a session can ask for beside the
// marks themselves: what each measures, its options, where it runs and how the page
// draws it. Session validation, assignments, the command line, the API and the
// page's default view follow from a descriptor; the agent's runner adds the code
// that measures.
//
// It runs nothing and knows neither sessions nor hosts.
package point

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"pillion.dev/measure"
)

// Placement says on which agents of a session a point runs.
type Placement string

// Placements.
const (
	OnAgents       Placement = "agents"       // those that the session names for it
	OnSources      Placement = "sources"      // each source, for all of its destinations
	OnDestinations Placement = "destinations" // each destination, for all of its sources
	OnPairs        Placement = "pairs"        // each source, once for each of its destinations
)

// Match says which of a session's filters a point can apply.
type Match string

// Matches.
const (
	MatchNothing   Match = ""          // filters do not concern it
	MatchAddresses Match = "addresses" // the addresses of a single filter; of several none
	MatchFlows     Match = "flows"     // all filters
)

// Descriptor is everything about a point but the code that measures.
type Descriptor struct {
	// Name in specifications, and the role of its tasks: lowercase letters, digits
	// and underscores.
	Name string
	// Doc says what it measures.
	Doc string
	// Action is what an agent does for it, as in "profile the packets that the host
	// forwards"; filters are appended where it matches any.
	Action string
	// Cost is what it costs, in words; {interval} stands for the interval of its rows.
	Cost    string
	Schemas []*measure.Schema
	Options []Option
	// Check returns what is wrong with a complete set of options that are valid one by one;
	// nil: nothing can be.
	Check     func(Options) error
	Placement Placement
	Match     Match
	// MinInterval is the shortest interval of its rows; zero: any that a session can have.
	MinInterval time.Duration
	// Views are how the page and the command line show it by default.
	Views []View
}

// Kind of a view.
type Kind string

// Kinds of views.
const (
	Table Kind = "table" // the newest row of each group
	Lines Kind = "lines" // a chart over time with a line for each group and column
)

// View is one table or chart of a stream. Units and meanings of columns are those
// of its schema.
type View struct {
	Title   string
	Kind    Kind
	Stream  string
	Columns []string
	// GroupBy are the columns that tell rows, or lines, apart.
	GroupBy []string
	// Weight is the column of counts by which lines average values; empty: none.
	Weight string
}

var namePattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)

// check returns the first fault of a descriptor.
func (d *Descriptor) check() error {
	if !namePattern.MatchString(d.Name) {
		return fmt.Errorf("name %q: use lowercase letters, digits and underscores", d.Name)
	}
	for _, option := range d.Options {
		if !namePattern.MatchString(option.Name) {
			return fmt.Errorf("option %q: use lowercase letters, digits and underscores", option.Name)
		}
		if err := option.Check(option.Default); err != nil {
			return fmt.Errorf("default of option %s: %w", option.Name, err)
		}
	}
	if d.Check != nil {
		if err := d.Check(d.Complete(nil)); err != nil {
			return fmt.Errorf("defaults: %w", err)
		}
	}
	for _, view := range d.Views {
		if err := view.Check(d.Schemas...); err != nil {
			return err
		}
	}
	return nil
}

// Check returns an error if the view shows what none of the schemas has.
func (v View) Check(schemas ...*measure.Schema) error {
	i := slices.IndexFunc(schemas, func(s *measure.Schema) bool { return s.Name == v.Stream })
	if i < 0 {
		return fmt.Errorf("view %q: stream %q is not described", v.Title, v.Stream)
	}
	for _, column := range slices.Concat(v.Columns, v.GroupBy, strings.Fields(v.Weight)) {
		if column != "agent" && schemas[i].Index(column) < 0 {
			return fmt.Errorf("view %q: stream %s has no column %q", v.Title, v.Stream, column)
		}
	}
	return nil
}

var registry struct {
	sync.RWMutex
	points []*Descriptor
}

// Register makes a point known to this process. It panics on an invalid descriptor
// and on a name that is taken: both are mistakes of a programmer.
func Register(d Descriptor) *Descriptor {
	if err := d.check(); err != nil {
		panic(fmt.Sprintf("register point %q: %v", d.Name, err))
	}
	registry.Lock()
	defer registry.Unlock()
	if slices.ContainsFunc(registry.points, func(other *Descriptor) bool { return other.Name == d.Name }) {
		panic(fmt.Sprintf("register point %q: the name is taken", d.Name))
	}
	registry.points = append(registry.points, &d)
	slices.SortFunc(registry.points, func(a, b *Descriptor) int { return strings.Compare(a.Name, b.Name) })
	measure.AddStandard(d.Schemas...)
	return &d
}

// All are the registered points, by name.
func All() []*Descriptor {
	registry.RLock()
	defer registry.RUnlock()
	return slices.Clone(registry.points)
}

// Find returns the point of that name, or nil.
func Find(name string) *Descriptor {
	for _, d := range All() {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// Names of all points.
func Names() []string {
	var names []string
	for _, d := range All() {
		names = append(names, d.Name)
	}
	return names
}
