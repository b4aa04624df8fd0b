package command

import (
	"maps"

	"github.com/alecthomas/kong"
)

// Wing is what a part of Pillion beside its core adds to a program.
type Wing struct {
	// Commands returns a pointer to a new structure of commands, which the help lists together.
	Commands func() any
	// Vars are variables of their help.
	Vars kong.Vars
	// Hints are about their errors.
	Hints []Hint
}

// Wings are the wings of a program, in the order of its help.
type Wings []Wing

// Commands returns the commands for a parser.
func (w Wings) Commands() (all kong.Plugins) {
	for _, one := range w {
		all = append(all, one.Commands())
	}
	return all
}

// Vars returns the variables of all wings.
func (w Wings) Vars() kong.Vars {
	all := kong.Vars{}
	for _, one := range w {
		maps.Copy(all, one.Vars)
	}
	return all
}

// Hints returns the hints of all wings.
func (w Wings) Hints() (all []Hint) {
	for _, one := range w {
		all = append(all, one.Hints...)
	}
	return all
}
