package session

import (
	"fmt"
	"slices"
	"strings"

	"pillion.dev/measure/module"
	"pillion.dev/measure/point"
	"pillion.dev/wire"
)

// defaultModules are the modules of a session that names none.
var defaultModules = []string{module.Delay.Name, module.Loss.Name}

// Marked splits the modules of a valid specification into those that every mark can carry
// and the names of the others.
func Marked(modules []string) (wire.Module, []string) {
	var set wire.Module
	var others []string
	for _, name := range modules {
		if one, err := wire.ParseModule(name); err == nil {
			set |= one
		} else {
			others = append(others, name)
		}
	}
	return set, others
}

// ParseModules reads names of modules, separated by commas, as Marked does.
func ParseModules(text string) (wire.Module, []string, error) {
	names := strings.Split(text, ",")
	for i, name := range names {
		if module.Find(name) == nil {
			return 0, nil, fmt.Errorf("read modules %q: unknown module %q; valid: %s", text, name, strings.Join(module.Names(), ", "))
		}
		if slices.Contains(names[:i], name) {
			return 0, nil, fmt.Errorf("read modules %q: duplicate %s", text, name)
		}
	}
	set, others := Marked(names)
	if set == 0 {
		return 0, nil, fmt.Errorf("read modules %q: add delay or loss", text)
	}
	return set, others, nil
}

// modules checks which modules a session measures.
func (p *problems) modules(s Spec) {
	before := len(*p)
	for i, name := range s.Modules {
		at := fmt.Sprintf("modules[%d]", i)
		if module.Find(name) == nil {
			p.add(at, "unknown module %q; valid: %s", name, strings.Join(module.Names(), ", "))
		}
		if slices.Contains(s.Modules[:i], name) {
			p.add(at, "duplicate %q", name)
		}
	}
	if len(*p) > before {
		return
	}
	set, others := Marked(s.Modules)
	if set == 0 {
		p.add("modules", "add delay or loss: %s is measured in their marks", strings.Join(others, ", "))
	}
	_, options, err := module.Options(others)
	if err != nil {
		p.add("modules", "%v", err)
	}
	list, err := wire.ParseEncodings(s.Encoding)
	if with, _ := carriers(list); options > 0 && err == nil && len(with) == 0 {
		able, _ := carriers(wire.Encodings())
		p.add("encoding", "no mark in %s carries the data of %s; add one of %s", s.Encoding, strings.Join(others, ", "), able)
	}
	for i, name := range s.Modules {
		for _, required := range module.Find(name).Requires {
			switch {
			case required == "both" && !s.Both:
				p.add("both", "the module %s measures packets of both directions: set both", name)
			case required == "waypoints":
				if len(s.Waypoints) == 0 {
					p.add("waypoints", "the module %s measures up to an agent on the path, and from there on: name it as a waypoint", name)
				}
			case required != "both" && !slices.Contains(s.Modules, required):
				p.add(fmt.Sprintf("modules[%d]", i), "%s requires the module %s", name, required)
			}
		}
	}
}

// carriers splits a list of encodings by whether their marks carry options of modules.
func carriers(list wire.EncodingList) (with, without wire.EncodingList) {
	for _, e := range list {
		if e.Carries()&wire.CarriesModules != 0 {
			with = append(with, e)
		} else {
			without = append(without, e)
		}
	}
	return with, without
}

// moduleWarning says which marks of a valid specification lack the data of its modules.
func moduleWarning(s Spec) string {
	_, others := Marked(s.Modules)
	others = slices.DeleteFunc(others, func(name string) bool { return module.Find(name).Built() })
	list, err := wire.ParseEncodings(s.Encoding)
	with, without := carriers(list)
	if len(others) == 0 || err != nil || len(without) == 0 {
		return ""
	}
	return fmt.Sprintf("packets marked in %s have no %s: set encoding to %s to measure it in all marks", without, strings.Join(others, ", "), with)
}

// moduleSetting offers the registered modules.
func moduleSetting() point.Option {
	o := point.Option{Name: "modules", Type: point.List, Default: strings.Join(defaultModules, ","), Doc: "metrics to measure"}
	for _, d := range module.All() {
		o.Choices, o.ChoiceDocs = append(o.Choices, d.Name), append(o.ChoiceDocs, d.Doc)
	}
	return o
}
