package pillion

import (
	"io"

	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api"
	"pillion.dev/internal/outfile"
)

// What commands of wings work with.
type (
	App      = app
	Table    = table
	Cell     = cell
	Facts    = facts
	Repeated = repeated
)

// Out is where results are printed, Err everything else.
func (a *app) Out() io.Writer { return a.out }
func (a *app) Err() io.Writer { return a.err }

// Note prints a message to standard error. Done and Written confirm an action and a file, unless the
// output is for programs.
func (a *app) Note(format string, values ...any)       { a.note(format, values...) }
func (a *app) Done(format string, values ...any) error { return a.done(format, values...) }
func (a *app) Written(file outfile.Path, format string, values ...any) error {
	return a.written(file, format, values...)
}

// Show prints a value in the selected format; the table is for people.
func (a *app) Show(value any, t *Table) error { return a.show(value, t, nil) }

// ShowFacts prints facts above the table for people.
func (a *app) ShowFacts(value any, f Facts, t *Table) error {
	return a.show(value, t, func(w io.Writer) error { return f.write(w, a.color, t) })
}

// DialTo returns the client of a server, such as the server of a lab, or else of the selected one.
func (a *app) DialTo(server string) (*api.Client, error) {
	if server != "" {
		a.flags.Server = server
	}
	return a.dial()
}

// NewTable takes columns as "key" or "key=TITLE"; a leading ">" right-aligns the
// values.
func NewTable(columns ...string) *Table { return newTable(columns...) }

// Add adds a row.
func (t *table) Add(row ...Cell) { t.add(row...) }

// Text, Count and Moment are cells; NewCell has a value in the form for people and in the form for programs.
func Text(s string) Cell                   { return text(s) }
func Count[N int | int64](n N) Cell        { return number(n) }
func Moment(t *timestamppb.Timestamp) Cell { return when(t) }
func NewCell(shown, plain string) Cell     { return cell{shown: shown, plain: plain} }

// Add adds a fact.
func (f *facts) Add(name, value string) { f.add(name, value) }

// Failed adds the action that failed to an error; nil stays nil.
func Failed(doing string, err error) error { return failed(doing, err) }
