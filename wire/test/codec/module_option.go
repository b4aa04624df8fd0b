package codec

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Ids of module options that Pillion itself writes; those from ModuleFirst to ModuleLast
// belong to modules.
const (
	ModuleTag     = 1 // the tag of a mark in a standard option
	ModuleIngress = 2 // the number of the agent that wrote the mark

	ModuleFirst = 0x40
	ModuleLast  = 0x7f
)

// OptionModule is the type of module options, and of the delay option: which of the two an
// option is follows from its length.
const OptionModule = 0x3e

// A ModuleOption is additional data beside a mark. No module has 15 bytes.
type ModuleOption struct {
	ID   uint8
	Data []byte
}

// TagOption returns the option for the tag of a mark.
func TagOption(tag uint32) ModuleOption {
	return ModuleOption{ModuleTag, binary.BigEndian.AppendUint32(nil, tag)}
}

// IngressOption returns the option that names the agent that wrote a mark.
func IngressOption(number uint32) ModuleOption {
	return ModuleOption{ModuleIngress, binary.BigEndian.AppendUint32(nil, number)}
}

// append appends the option.
func (o ModuleOption) append(b []byte) []byte {
	return append(append(b, OptionModule, uint8(1+len(o.Data)), o.ID), o.Data...)
}

// parseModuleOption reads the data of an option of type OptionModule.
func parseModuleOption(data []byte) (ModuleOption, error) {
	if len(data) == 0 {
		return ModuleOption{}, fmt.Errorf("module option without id: %w", ErrMalformed)
	}
	o := ModuleOption{ID: data[0], Data: data[1:]}
	if (o.ID == ModuleTag || o.ID == ModuleIngress) && len(o.Data) != 4 {
		return ModuleOption{}, fmt.Errorf("module option %d of %d bytes: %w", o.ID, len(o.Data), ErrMalformed)
	}
	return o, nil
}

// optionsMax is how many bytes all options of modules in a mark may have.
const optionsMax = 32

// AppendModules returns the options of modules as they travel in a Mark.
func AppendModules(options ...ModuleOption) string {
	var b []byte
	for _, o := range options {
		b = o.append(b)
	}
	return string(b)
}

// moduleOptions returns the options of modules at the start of b, without what follows them.
func moduleOptions(b []byte) string {
	at := 0
	for at+3 <= len(b) && b[at] == OptionModule {
		end, id := at+2+int(b[at+1]), b[at+2]
		if end <= at+2 || end > len(b) || end > optionsMax || b[at+1] == delayLength {
			break
		}
		if _, err := parseModuleOption(b[at+2 : end]); err != nil || id != ModuleIngress && (id < ModuleFirst || id > ModuleLast) {
			break
		}
		at = end
	}
	return string(b[:at])
}

// padding is what follows size bytes of a header of options: up to 8 bytes in all.
func padding(size int) string {
	switch n := -size & 7; n {
	case 0:
		return ""
	case 1:
		return "\x00"
	default:
		return "\x01" + string(rune(n-2)) + strings.Repeat("\x00", n-2)
	}
}
