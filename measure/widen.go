package measure

import (
	"fmt"
	"slices"
)

// wider is the type that holds every value of two different ones exactly. Whole
// numbers of 32 bits fit a float64; 64 bits do not, nor does a uint64 fit an
// int64, so these do not go together.
var wider = map[[2]Type]Type{
	{Int32, Int64}: Int64, {Uint32, Uint64}: Uint64, {Int32, Uint32}: Int64, {Uint32, Int64}: Int64,
	{Int32, Float64}: Float64, {Uint32, Float64}: Float64,
}

func widest(a, b Type) (Type, bool) {
	if a == b {
		return a, true
	}
	if t, ok := wider[[2]Type{a, b}]; ok {
		return t, true
	}
	t, ok := wider[[2]Type{b, a}]
	return t, ok
}

// Widen is the schema that holds the rows of both: the columns of have in their
// order, then what only want has. Where the types of a column differ, it gets the
// one that holds all values of either exactly, or there is an error that names
// it, as there is for two different units. An empty unit or description is filled
// in from want. Changed reports whether the result is not have.
func Widen(have, want *Schema) (result *Schema, changed bool, err error) {
	if have.Name != want.Name {
		return nil, false, fmt.Errorf("widen stream %q: %w: the other is %q", have.Name, ErrSchema, want.Name)
	}
	result = &Schema{Name: have.Name, Doc: have.Doc, Fields: slices.Clone(have.Fields)}
	if result.Doc == "" {
		result.Doc = want.Doc
	}
	for _, w := range want.Fields {
		i := result.Index(w.Name)
		if i < 0 {
			result.Fields = append(result.Fields, w)
			continue
		}
		f := &result.Fields[i]
		t, ok := widest(f.Type, w.Type)
		if !ok {
			return nil, false, fmt.Errorf("widen stream %q: %w: column %q is %v and cannot hold %v", have.Name, ErrSchema, w.Name, f.Type, w.Type)
		}
		if f.Unit != "" && w.Unit != "" && f.Unit != w.Unit {
			return nil, false, fmt.Errorf("widen stream %q: %w: column %q is in %q, not in %q", have.Name, ErrSchema, w.Name, f.Unit, w.Unit)
		}
		f.Type = t
		if f.Unit == "" {
			f.Unit = w.Unit
		}
		if f.Doc == "" {
			f.Doc = w.Doc
		}
	}
	if err := result.Validate(); err != nil {
		return nil, false, fmt.Errorf("widen: %w", err)
	}
	return result, result.Doc != have.Doc || !slices.Equal(result.Fields, have.Fields), nil
}
