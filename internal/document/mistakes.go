package document

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Mistakes returns all unknown keys of a document, and all its values that a type does not
// accept, where Decode returns the first one only. What Decode finds besides, such as bad
// syntax, is not among them.
func Mistakes(text []byte, into any) (list []*Error) {
	defer func() { _ = recover() }() // the parser panics on some malformed documents
	file, err := parser.ParseBytes(withoutMark(text), 0)
	if err != nil || len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil
	}
	w := &walk{}
	w.value(file.Docs[0].Body, reflect.TypeOf(into), "")
	return w.found
}

type walk struct{ found []*Error }

func (w *walk) report(node ast.Node, path, format string, values ...any) {
	cause := fmt.Errorf(format, values...)
	if path != "" {
		cause = fmt.Errorf("%s: %w", path, cause)
	}
	w.found = append(w.found, &Error{node.GetToken().Position.Line, cause})
}

var (
	textType = reflect.TypeFor[encoding.TextUnmarshaler]()
	ownType  = reflect.TypeFor[interface{ UnmarshalYAML(func(any) error) error }]()
)

func (w *walk) value(node ast.Node, t reflect.Type, path string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	scalar, isScalar := textOf(node)
	switch pointer := reflect.PointerTo(t); {
	case pointer.Implements(textType):
		if isScalar {
			if err := reflect.New(t).Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(scalar)); err != nil {
				w.report(node, path, "%w", err)
			}
		}
		return
	case pointer.Implements(ownType):
		return
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		w.pairs(node, t, path)
	case reflect.Slice:
		if list, ok := node.(*ast.SequenceNode); ok {
			for i, element := range list.Values {
				w.value(element, t.Elem(), fmt.Sprintf("%s[%d]", path, i))
			}
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if number, err := strconv.ParseFloat(scalar, 64); isScalar && (err != nil && notInteger(node) || err == nil && number != math.Trunc(number)) {
			w.report(node, path, "%.70q is not %s", scalar, kindOf(t))
		}
	case reflect.Float32, reflect.Float64:
		if _, err := strconv.ParseFloat(scalar, 64); isScalar && err != nil && notInteger(node) {
			w.report(node, path, "%.70q is not %s", scalar, kindOf(t))
		}
	case reflect.Bool:
		if _, ok := node.(*ast.BoolNode); isScalar && !ok {
			w.report(node, path, "%.70q is not %s", scalar, kindOf(t))
		}
	}
}

// notInteger leaves YAML's other notations of integers to the decoder.
func notInteger(node ast.Node) bool {
	_, ok := node.(*ast.IntegerNode)
	return !ok
}

// pairs checks the keys of a structure, and the values of a structure or a map.
func (w *walk) pairs(node ast.Node, t reflect.Type, path string) {
	var pairs []*ast.MappingValueNode
	switch node := node.(type) {
	case *ast.MappingNode:
		pairs = node.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{node}
	}
	for _, pair := range pairs {
		key := pair.Key.GetToken().Value
		into := t
		if t.Kind() == reflect.Map {
			into = t.Elem()
		} else if field, ok := fieldOf(t, key); ok {
			into = field.Type
		} else if key != "<<" {
			w.report(pair.Key, path, "unknown field %q", key)
			continue
		}
		w.value(pair.Value, into, strings.TrimPrefix(path+"."+key, "."))
	}
}

func fieldOf(t reflect.Type, key string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if name == "" {
			name = strings.ToLower(field.Name)
		}
		if field.IsExported() && name == key && name != "-" {
			return field, true
		}
	}
	return reflect.StructField{}, false
}

// textOf is the text of a single value.
func textOf(node ast.Node) (string, bool) {
	switch node := node.(type) {
	case *ast.StringNode:
		return node.Value, true
	case *ast.LiteralNode:
		return node.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return node.GetToken().Value, true
	}
	return "", false
}
