package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"pillion.dev/internal/document"
	"pillion.dev/session"
)

// Values are what names in braces stand for in the commands of a run.
type Values map[string]string

// ownNames are those that the runner gives a value.
var ownNames = []string{"block", "position", "attempt", "seed", "warmup", "agent", "scratch", "address", "address6"}

// Values returns the levels, their parameters and the run's own values.
func (s *Spec) Values(c Cell, t Turn) Values {
	v := Values{
		"block": strconv.Itoa(t.Block), "position": strconv.Itoa(t.Position), "attempt": strconv.Itoa(t.Attempt),
		// Of a run, and the same again in another run of the experiment.
		"seed":   strconv.FormatUint(rand.NewPCG(s.Seed, uint64(t.Block)<<32|uint64(t.Position)<<8|uint64(t.Attempt)).Uint64()>>33, 10),
		"warmup": s.Run.Warmup.String(),
	}
	s.addShared(v)
	several := map[string]bool{}
	for _, f := range s.Factors {
		name := c.Levels[f.Name]
		level, _ := f.level(name)
		for parameter, value := range level.Parameters {
			v[f.Name+"."+parameter] = value
			if _, taken := v[parameter]; taken {
				several[parameter] = true
			}
			v[parameter] = value
		}
	}
	for name := range several {
		delete(v, name) // ambiguous: only the full names remain
	}
	for _, f := range s.Factors { // a factor comes before a parameter of its name
		v[f.Name] = c.Levels[f.Name]
	}
	return v
}

// SetupValues returns the values of the setup's commands, which belong to no cell.
func (s *Spec) SetupValues() Values {
	v := Values{"seed": strconv.FormatUint(s.Seed, 10)}
	s.addShared(v)
	return v
}

// addShared adds what is the same in all commands, as far as it is known without the runner.
func (s *Spec) addShared(v Values) {
	v["agent"] = "pillion-agent"
	if s.Setup != nil {
		v["scratch"] = "scratch"
	}
	if s.Lab == "" {
		v[hostsKnown] = ""
	}
}

// braces are a name and a value for where it has none. Behind a $ they are the shell's.
var braces = regexp.MustCompile(`\{\{|\}\}|\$?\{([a-zA-Z][a-zA-Z0-9_.-]*)(=[^{}]*)?\}`)

// hostNames are those whose values are known once the lab is; hostsKnown, which is no name,
// is among the values from then on.
var hostNames = regexp.MustCompile(`^address6?(\.[a-z0-9-]+)?$`)

const hostsKnown = "."

// AddHosts adds what the runner knows: agent, scratch, address and address6, and the latter
// with the name of a host.
func (v Values) AddHosts(hosts map[string]string) {
	maps.Copy(v, hosts)
	v[hostsKnown] = ""
}

// Replace puts values in the place of names in braces, also of names in the values of levels and parameters.
func (v Values) Replace(text string) (string, error) { return v.replace(text, nil) }

// replace does so inside of the values of some names, which therefore cannot stand there again.
func (v Values) replace(text string, inside []string) (string, error) {
	var failed error
	replaced := braces.ReplaceAllStringFunc(text, func(found string) string {
		switch {
		case found == "{{" || found == "}}":
			return found[:1]
		case found[0] == '$':
			return found
		}
		name, otherwise, has := strings.Cut(found[1:len(found)-1], "=")
		if value, ok := v[name]; ok {
			if slices.Contains(ownNames, name) || hostNames.MatchString(name) {
				return value
			}
			if slices.Contains(inside, name) {
				failed = fmt.Errorf("the value of {%s} contains itself", name)
				return found
			}
			value, err := v.replace(value, append(slices.Clip(inside), name))
			if err != nil && len(inside) == 0 {
				err = fmt.Errorf("in the value of {%s}: %w", name, err)
			}
			failed = cmp.Or(failed, err)
			return value
		}
		if has {
			return otherwise
		}
		if _, complete := v[hostsKnown]; !hostNames.MatchString(name) || complete {
			names := slices.Sorted(maps.Keys(v))
			names = slices.DeleteFunc(names, func(name string) bool { return name == hostsKnown })
			failed = fmt.Errorf("{%s} has no value here; there are %s (write {{ for a brace)", name, strings.Join(names, ", "))
		}
		return found
	})
	return replaced, failed
}

// ReplaceAll replaces in all texts of a value that was read from YAML. A text that is one
// name in braces becomes what its value is in YAML: a number, for example.
func (v Values) ReplaceAll(value any) (any, error) {
	switch value := value.(type) {
	case string:
		text, err := v.Replace(value)
		if err == nil && text != value && braces.FindString(value) == value {
			var scalar any
			if yaml.Unmarshal([]byte(text), &scalar) == nil && scalar != nil {
				return scalar, nil
			}
		}
		return text, err
	case []any:
		replaced := make([]any, len(value))
		for i, element := range value {
			var err error
			if replaced[i], err = v.ReplaceAll(element); err != nil {
				return nil, err
			}
		}
		return replaced, nil
	case map[string]any:
		replaced := map[string]any{}
		for key, element := range value {
			var err error
			if replaced[key], err = v.ReplaceAll(element); err != nil {
				return nil, err
			}
		}
		return replaced, nil
	}
	return value, nil
}

// sessionSpec is the session of a treatment, nil without one.
func (a Applied) sessionSpec(v Values) (*session.Spec, error) {
	if a.Session == nil {
		return nil, nil
	}
	replaced, err := v.ReplaceAll(a.Session)
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(replaced)
	if err != nil {
		return nil, err
	}
	spec, err := session.ParseSpec(text)
	if located := (&document.Error{}); errors.As(err, &located) {
		err = located.Cause // the line counts in the text above, not in the file
	}
	if err != nil {
		return nil, err
	}
	return &spec, nil
}

// SessionOf is the session of a treatment of a run, nil without one.
func (a Applied) SessionOf(v Values) (*session.Spec, error) { return a.sessionSpec(v) }
