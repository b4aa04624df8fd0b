package experiment

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Factor is one thing that the experiment varies.
type Factor struct {
	Name   string  `json:"name"`
	Levels []Level `json:"levels"`
}

// Level is one value of a factor.
type Level struct {
	Name       string            `json:"name"`
	Parameters map[string]string `json:"parameters,omitempty"`
}

// level returns a level by its name.
func (f Factor) level(name string) (Level, bool) {
	i := slices.IndexFunc(f.Levels, func(l Level) bool { return l.Name == name })
	if i < 0 {
		return Level{}, false
	}
	return f.Levels[i], true
}

// names lists the levels.
func (f Factor) names() []string {
	names := make([]string, len(f.Levels))
	for i, l := range f.Levels {
		names[i] = l.Name
	}
	return names
}

// Factors are in the order of the file.
type Factors []Factor

// find returns the index of a factor, or -1.
func (f Factors) find(name string) int {
	return slices.IndexFunc(f, func(factor Factor) bool { return factor.Name == name })
}

func (f Factors) names() []string {
	names := make([]string, len(f))
	for i, factor := range f {
		names[i] = factor.Name
	}
	return names
}

// UnmarshalYAML keeps the order of the map.
func (f *Factors) UnmarshalYAML(decode func(any) error) error {
	names, err := keys(decode)
	if err != nil {
		return err
	}
	var byName map[string]levels
	if err := decode(&byName); err != nil {
		return err
	}
	for _, name := range names {
		*f = append(*f, Factor{name, byName[name]})
	}
	return nil
}

type levels []Level

// UnmarshalYAML reads a list of levels, or a map from levels to parameters.
func (l *levels) UnmarshalYAML(decode func(any) error) error {
	var list []string
	if decode(&list) == nil {
		for _, name := range list {
			*l = append(*l, Level{Name: name})
		}
		return nil
	}
	names, err := keys(decode)
	if err != nil {
		return errors.New("levels are a list, such as [none, both], or a map from levels to parameters")
	}
	var parameters map[string]map[string]string
	if err := decode(&parameters); err != nil {
		return err
	}
	for _, name := range names {
		*l = append(*l, Level{name, parameters[name]})
	}
	return nil
}

// keys returns the keys of a map, in order.
func keys(decode func(any) error) ([]string, error) {
	var pairs yaml.MapSlice
	if err := decode(&pairs); err != nil {
		return nil, err
	}
	names := make([]string, len(pairs))
	for i, pair := range pairs {
		names[i] = fmt.Sprint(pair.Key)
	}
	return names, nil
}

// Measures are in the order of the file.
type Measures []Measure

// UnmarshalYAML keeps the order of the map.
func (m *Measures) UnmarshalYAML(decode func(any) error) error {
	names, err := keys(decode)
	if err != nil {
		return err
	}
	var byName map[string]Measure
	if err := decode(&byName); err != nil {
		return err
	}
	for _, name := range names {
		measure := byName[name]
		measure.Name = name
		*m = append(*m, measure)
	}
	return nil
}

// MarshalJSON writes a map by name; it is for reading, where the order does not matter.
func (m Measures) byName() map[string]Measure {
	all := map[string]Measure{}
	for _, measure := range m {
		all[measure.Name] = measure
	}
	return all
}

// find returns a measure by its name.
func (m Measures) find(name string) (Measure, bool) {
	i := slices.IndexFunc(m, func(measure Measure) bool { return measure.Name == name })
	if i < 0 {
		return Measure{}, false
	}
	return m[i], true
}

func (m Measures) names() []string {
	names := make([]string, len(m))
	for i, measure := range m {
		names[i] = measure.Name
	}
	return names
}

// Where selects cells: for each factor that is named, one of the levels.
type Where map[string][]string

// ParseWhere reads a selection such as "mark=both,loss every=1".
func ParseWhere(text string) (Where, error) {
	w := Where{}
	for _, part := range strings.Fields(text) {
		name, list, ok := strings.Cut(part, "=")
		if !ok || name == "" || list == "" {
			return nil, fmt.Errorf("%q is not a selection of cells, such as mark=both every=1", text)
		}
		if w[name] != nil {
			return nil, fmt.Errorf("factor %s is named twice in %q; write alternatives as %s=a,b", name, text, name)
		}
		w[name] = strings.Split(list, ",")
	}
	return w, nil
}

// UnmarshalText reads a selection.
func (w *Where) UnmarshalText(text []byte) error {
	parsed, err := ParseWhere(string(text))
	if err == nil {
		*w = parsed
	}
	return err
}

// String is the selection as it is written, with the factors in the order of their names.
func (w Where) String() string {
	var parts []string
	for name, list := range w {
		parts = append(parts, name+"="+strings.Join(list, ","))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// fits reports whether a cell is selected.
func (w Where) fits(levels map[string]string) bool {
	for name, list := range w {
		if !slices.Contains(list, levels[name]) {
			return false
		}
	}
	return true
}

// check finds factors and levels that do not exist.
func (w Where) check(factors Factors) error {
	for name, list := range w {
		i := factors.find(name)
		if i < 0 {
			return fmt.Errorf("no factor %q; the factors are %s", name, strings.Join(factors.names(), ", "))
		}
		for _, level := range list {
			if _, ok := factors[i].level(level); !ok {
				return fmt.Errorf("factor %s has no level %q; it has %s", name, level, strings.Join(factors[i].names(), ", "))
			}
		}
	}
	return nil
}
