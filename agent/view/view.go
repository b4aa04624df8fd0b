// Package view prints the results of a probe that is run by hand, without a server: as
// text, or as JSON, one object per line. It does not depend on the probe: the caller
// formats the text.
package view

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// Home moves a terminal's cursor to the top and clears the screen.
const Home = "\x1b[H\x1b[2J"

// View prints to Out.
type View struct {
	Out  io.Writer
	JSON bool
}

// Print prints the object as JSON, or else the text.
func (v View) Print(object any, format string, args ...any) error {
	var err error
	if v.JSON {
		err = json.NewEncoder(v.Out).Encode(object)
	} else {
		_, err = fmt.Fprintf(v.Out, format, args...)
	}
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// Ready prints the first line: what is measured from now on.
func (v View) Ready(info any, format string, args ...any) error {
	return v.Print(struct {
		Ready any `json:"ready"`
	}{info}, format, args...)
}

// Summary prints the last line: what was measured in all.
func (v View) Summary(summary any, format string, args ...any) error {
	return v.Print(struct {
		Summary any `json:"summary"`
	}{summary}, format, args...)
}

// IsTerminal reports whether the output is a terminal, on which text may be redrawn.
func (v View) IsTerminal() bool {
	file, ok := v.Out.(*os.File)
	return ok && !v.JSON && term.IsTerminal(int(file.Fd()))
}
