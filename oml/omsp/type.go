package omsp

import "fmt"

// Type of a field.
type Type uint8

// Types of OML. Those with Vector have a list of values.
const (
	Int32 Type = iota + 1
	Uint32
	Int64
	Uint64
	Double
	String
	Blob
	GUID
	Bool

	// Vector is added to Int32, Uint32, Int64, Uint64, Double or Bool.
	Vector Type = 0x80
)

var typeNames = map[Type]string{
	Int32: "int32", Uint32: "uint32", Int64: "int64", Uint64: "uint64", Double: "double",
	String: "string", Blob: "blob", GUID: "guid", Bool: "bool",
}

// types by name, including the names of old protocols.
var types = func() map[string]Type {
	all := map[string]Type{"integer": Int32, "long": Int32, "real": Double, "float": Double}
	for t, name := range typeNames {
		all[name] = t
		if t.vectors() {
			all["["+name+"]"] = t | Vector
		}
	}
	return all
}()

// vectors reports whether the type can be a vector's element.
func (t Type) vectors() bool { return t >= Int32 && t <= Double || t == Bool }

// Element returns the type of a vector's elements; for other types, the type itself.
func (t Type) Element() Type { return t &^ Vector }

// IsVector reports whether values are lists.
func (t Type) IsVector() bool { return t&Vector != 0 }

// String is the name in schemas.
func (t Type) String() string {
	name, known := typeNames[t.Element()]
	switch {
	case !known:
		return fmt.Sprintf("type(%d)", uint8(t))
	case t.IsVector():
		return "[" + name + "]"
	}
	return name
}

// ParseType parses the name of a type, including old names.
func ParseType(name string) (Type, error) {
	t, known := types[name]
	if !known {
		return 0, fmt.Errorf("read type %q: use int32, uint32, int64, uint64, double, string, blob, guid, bool or a vector such as [double]", name)
	}
	return t, nil
}
