// Package module describes the modules of marks: what each measures, the option in which
// its data travels, the words of state that the programs keep of a flow, and the rows that
// follow from them. Session validation, assignments, the command line, the API, the page
// and the archive follow from a descriptor; a header in probe/module has the code that
// writes and reads the data.
//
// It runs nothing and knows neither eBPF nor the network.
package module

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"pillion.dev/measure"
	"pillion.dev/measure/point"
)

// Descriptor is everything about a module but the code in the packet path.
type Descriptor struct {
	// Name in specifications: lowercase letters, digits and hyphens.
	Name string
	// Doc says what it measures.
	Doc string
	// ID of its option in marks, from FirstID to LastID; 0: it has none, since marks carry
	// all that it needs anyway.
	ID uint8
	// State is the number of the state that the programs keep of a flow for a module without an
	// option, as in probe/module/module.h; 0: none.
	State uint8
	// Bytes of the option's data, up to MaxBytes.
	Bytes int
	// Carrier is what an encoding must carry, by the name of a wire.Content; empty for
	// modules with an option.
	Carrier string
	// Columns are the figures of its rows. Columns of a module without an option name columns of
	// its schema.
	Columns []Column
	// Labels are text columns of its rows behind the figures: the agent knows them from the session.
	Labels []measure.Field
	// Schema of its rows. Register makes the schema of a module with an option: its name is the
	// module's, with underscores.
	Schema *measure.Schema
	// Views are how the page and the command line show it by default.
	Views []point.View
	// Requires are the modules that a session must measure, too, and fields of its
	// specification that must be true, such as both.
	Requires []string
	// Clocks are those that its figures depend on, in words; empty: none.
	Clocks string
}

// IDs and sizes of options, as in wire/standard.h.
const (
	FirstID    = 0x40
	LastID     = 0x7f
	MaxBytes   = 8
	MaxOptions = 32 // all options of a mark
)

// Built reports whether marks carry the module's data anyway: it has no option of its own.
func (d *Descriptor) Built() bool { return d.ID == 0 }

// Stream is the name of the module's rows.
func (d *Descriptor) Stream() string { return d.Schema.Name }

// Cost says what the module costs, in words.
func (d *Descriptor) Cost() string {
	if d.Built() {
		return ""
	}
	return fmt.Sprintf("%d bytes in each mark, before padding, and one row in %s each {interval} for each flow", OptionHead+d.Bytes, d.Stream())
}

// OptionHead is the type, length and id of a module's option, in bytes.
const OptionHead = 3

var namePattern = regexp.MustCompile(`^[a-z][a-z0-9]{0,15}(-[a-z0-9]{1,16}){0,2}$`)

// keys are the columns that say which flow and interval a row of a module is about.
func keys() []measure.Field {
	var fields []measure.Field
	for _, f := range measure.Flows.Fields {
		fields = append(fields, f)
		if f.Name == "interval_ns" {
			break
		}
	}
	return fields
}

// schema makes the schema of a module with an option.
func (d *Descriptor) schema() *measure.Schema {
	s := &measure.Schema{Name: strings.ReplaceAll(d.Name, "-", "_"), Doc: d.Doc + ", by session, flow and interval", Fields: keys()}
	for _, c := range d.Columns {
		s.Fields = append(s.Fields, c.Field)
	}
	s.Fields = append(s.Fields, d.Labels...)
	return s
}

func (d *Descriptor) check() error {
	if !namePattern.MatchString(d.Name) {
		return fmt.Errorf("name %q: use lowercase letters, digits and hyphens", d.Name)
	}
	if d.Built() {
		return d.checkBuilt()
	}
	switch {
	case d.ID < FirstID || d.ID > LastID:
		return fmt.Errorf("id %#x: use %#x to %#x", d.ID, FirstID, LastID)
	case d.Bytes < 1 || d.Bytes > MaxBytes:
		return fmt.Errorf("%d bytes: use 1 to %d", d.Bytes, MaxBytes)
	case d.Carrier != "" || d.Schema != nil:
		return fmt.Errorf("carrier and schema follow from the option")
	}
	return checkColumns(d.Columns)
}

func (d *Descriptor) checkBuilt() error {
	switch {
	case d.Schema == nil:
		return fmt.Errorf("no schema")
	case d.Bytes != 0:
		return fmt.Errorf("%d bytes, but no id", d.Bytes)
	case d.State >= FirstID:
		return fmt.Errorf("state %#x: from %#x on they are of modules with an option", d.State, FirstID)
	}
	for i, c := range d.Columns {
		at := d.Schema.Index(c.Name)
		if at < 0 {
			return fmt.Errorf("stream %s has no column %q", d.Schema.Name, c.Name)
		}
		d.Columns[i].Field = d.Schema.Fields[at]
	}
	if d.State != 0 {
		return checkColumns(d.Columns)
	}
	return nil
}

var registry struct {
	sync.RWMutex
	modules []*Descriptor
}

// Register makes a module known to this process. It panics on an invalid descriptor, and
// on a name or id that is taken: all are mistakes of a programmer.
func Register(d Descriptor) *Descriptor {
	d.Columns = slices.Clone(d.Columns)
	err := d.check()
	if err == nil && !d.Built() {
		d.Schema = d.schema()
		err = d.Schema.Validate()
	}
	for _, view := range d.Views {
		if err == nil {
			err = view.Check(d.Schema)
		}
	}
	if err != nil {
		panic(fmt.Sprintf("register module %q: %v", d.Name, err))
	}
	registry.Lock()
	defer registry.Unlock()
	for _, other := range registry.modules {
		if other.Name == d.Name || !d.Built() && other.ID == d.ID {
			panic(fmt.Sprintf("register module %q: %q has the name or the id %#x", d.Name, other.Name, d.ID))
		}
	}
	registry.modules = append(registry.modules, &d)
	slices.SortFunc(registry.modules, func(a, b *Descriptor) int { return strings.Compare(a.Name, b.Name) })
	if measure.FindStandard(d.Schema.Name) == nil {
		measure.AddStandard(d.Schema)
	}
	return &d
}

// Unregister ends what Register did, but for the schema: for tests that describe modules of
// their own.
func (d *Descriptor) Unregister() {
	registry.Lock()
	defer registry.Unlock()
	registry.modules = slices.DeleteFunc(registry.modules, func(other *Descriptor) bool { return other == d })
}

// All are the registered modules, by name.
func All() []*Descriptor {
	registry.RLock()
	defer registry.RUnlock()
	return slices.Clone(registry.modules)
}

// Find returns the module of that name, or nil.
func Find(name string) *Descriptor {
	for _, d := range All() {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// WithState returns the module whose states have this number, which is the id of its option if
// it has one, or nil.
func WithState(id uint8) *Descriptor {
	for _, d := range All() {
		if id != 0 && (d.ID == id || d.State == id) {
			return d
		}
	}
	return nil
}

// Options returns the options of these modules in a mark: a bit for each, the lowest for FirstID,
// and their size in bytes. Modules without one do not count.
func Options(names []string) (set uint64, size int, err error) {
	for _, name := range names {
		d := Find(name)
		if d == nil {
			return 0, 0, fmt.Errorf("unknown module %q; valid: %s", name, strings.Join(Names(), ", "))
		}
		if !d.Built() && set>>(d.ID-FirstID)&1 == 0 {
			set |= 1 << (d.ID - FirstID)
			size += OptionHead + d.Bytes
		}
	}
	if size > MaxOptions {
		return 0, 0, fmt.Errorf("the options of %s have %d bytes: a mark has room for %d", strings.Join(names, ", "), size, MaxOptions)
	}
	return set, size, nil
}

// Names of all modules.
func Names() []string {
	var names []string
	for _, d := range All() {
		names = append(names, d.Name)
	}
	return names
}
