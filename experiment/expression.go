package experiment

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"math"
	"slices"
	"strconv"
	"strings"

	"pillion.dev/internal/document"
)

// Expression is a condition over the fields of a run, such as
// "delivered < 0.999*packets && !aborted". It has the syntax of Go, whose parser reads it:
// numbers, texts in double quotes, names with dots; + - * / %, comparisons, && || ! and
// the functions abs, min, max, sqrt and log. It has no loops, so it always ends.
type Expression struct {
	text  string
	root  ast.Expr
	names []string
	// kindOf knows the kinds of names; nil while none is known.
	kindOf func(name string) kind
}

// kind is the type of a value. That of a name is only known when it has one.
type kind int

const (
	anyKind kind = iota
	numberKind
	textKind
	truthKind
)

var kindNames = map[kind]string{anyKind: "value", numberKind: "number", textKind: "text", truthKind: "condition"}

// positionError is a mistake at a column of an expression, from 1.
type positionError struct {
	column int
	cause  error
}

func (e *positionError) Error() string { return fmt.Sprintf("column %d: %v", e.column, e.cause) }
func (e *positionError) Unwrap() error { return e.cause }

func at(node ast.Node, format string, values ...any) error {
	return &positionError{int(node.Pos()), fmt.Errorf(format, values...)}
}

// mostExpression bounds the length of an expression.
const mostExpression = 2000

// ParseExpression reads a condition.
func ParseExpression(text string) (*Expression, error) {
	if len(text) > mostExpression {
		return nil, fmt.Errorf("the expression has %d characters; the limit is %d", len(text), mostExpression)
	}
	root, err := parser.ParseExprFrom(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	var list scanner.ErrorList
	if errors.As(err, &list) && len(list) > 0 {
		message := list[0].Msg
		if strings.HasSuffix(message, "found and") || strings.HasSuffix(message, "found or") {
			message += "; write && for and, || for or"
		}
		return nil, &positionError{list[0].Pos.Column, errors.New(message)}
	}
	if err != nil {
		return nil, err
	}
	e := &Expression{text: text, root: root}
	if err := e.checkNames(nil); err != nil {
		return nil, err
	}
	return e, nil
}

// checkNames checks the types, with what is known of the names.
func (e *Expression) checkNames(kindOf func(name string) kind) error {
	e.kindOf = kindOf
	found, err := e.check(e.root)
	if err != nil {
		return err
	}
	if found != truthKind && found != anyKind {
		return at(e.root, "the expression is a %s, not a condition", kindNames[found])
	}
	return nil
}

// UnmarshalText reads a condition.
func (e *Expression) UnmarshalText(text []byte) error {
	parsed, err := ParseExpression(string(text))
	if err == nil {
		*e = *parsed
	}
	return err
}

// UnmarshalYAML reads a condition; its errors state line and column.
func (e *Expression) UnmarshalYAML(decode func(any) error) error { return document.Text(decode, e) }

// MarshalText is the text of the expression.
func (e Expression) MarshalText() ([]byte, error) { return []byte(e.text), nil }

func (e Expression) String() string { return e.text }

var functions = map[string]struct {
	least, most int
	call        func(values []float64) float64
}{
	"abs":  {1, 1, func(v []float64) float64 { return math.Abs(v[0]) }},
	"sqrt": {1, 1, func(v []float64) float64 { return math.Sqrt(v[0]) }},
	"log":  {1, 1, func(v []float64) float64 { return math.Log(v[0]) }},
	"min":  {1, math.MaxInt, func(v []float64) float64 { return slices.Min(v) }},
	"max":  {1, math.MaxInt, func(v []float64) float64 { return slices.Max(v) }},
}

// operator says what an operator takes, if that is fixed, and what it yields.
type operator struct{ takes, yields kind }

var operators = map[token.Token]operator{
	token.ADD: {numberKind, numberKind}, token.SUB: {numberKind, numberKind}, token.MUL: {numberKind, numberKind},
	token.QUO: {numberKind, numberKind}, token.REM: {numberKind, numberKind},
	token.LSS: {numberKind, truthKind}, token.LEQ: {numberKind, truthKind},
	token.GTR: {numberKind, truthKind}, token.GEQ: {numberKind, truthKind},
	token.EQL: {anyKind, truthKind}, token.NEQ: {anyKind, truthKind},
	token.LAND: {truthKind, truthKind}, token.LOR: {truthKind, truthKind},
}

// check finds what an expression cannot contain, and the types that are known already.
func (e *Expression) check(node ast.Expr) (kind, error) {
	switch n := node.(type) {
	case *ast.ParenExpr:
		return e.check(n.X)
	case *ast.BasicLit:
		switch n.Kind {
		case token.INT, token.FLOAT:
			if _, err := strconv.ParseFloat(n.Value, 64); err != nil {
				return 0, at(n, "%q is not a decimal number", n.Value)
			}
			return numberKind, nil
		case token.STRING:
			return textKind, nil
		}
		return 0, at(n, "%s is neither a number nor a text in double quotes", n.Value)
	case *ast.Ident, *ast.SelectorExpr:
		name, ok := dotted(n)
		if !ok {
			return 0, at(n, "a name has the form field or object.field")
		}
		if name == "true" || name == "false" {
			return truthKind, nil
		}
		if !slices.Contains(e.names, name) {
			e.names = append(e.names, name)
		}
		if e.kindOf != nil {
			return e.kindOf(name), nil
		}
		return anyKind, nil
	case *ast.UnaryExpr:
		switch n.Op {
		case token.SUB, token.ADD:
			return numberKind, e.require(n.X, numberKind)
		case token.NOT:
			return truthKind, e.require(n.X, truthKind)
		}
		return 0, at(n, "there is no operator %s here", n.Op)
	case *ast.BinaryExpr:
		return e.checkBinary(n)
	case *ast.CallExpr:
		return numberKind, e.checkCall(n)
	}
	return 0, at(node, "only names, numbers, texts, operators and functions are allowed")
}

func (e *Expression) checkBinary(n *ast.BinaryExpr) (kind, error) {
	op, ok := operators[n.Op]
	if !ok {
		return 0, &positionError{int(n.OpPos), fmt.Errorf("there is no operator %s", n.Op)}
	}
	if op.takes != anyKind {
		if err := e.require(n.X, op.takes); err != nil {
			return 0, err
		}
		return op.yields, e.require(n.Y, op.takes)
	}
	left, err := e.check(n.X)
	if err != nil {
		return 0, err
	}
	right, err := e.check(n.Y)
	if err == nil && left != right && left != anyKind && right != anyKind {
		err = &positionError{int(n.OpPos), fmt.Errorf("a %s cannot equal a %s", kindNames[left], kindNames[right])}
	}
	return op.yields, err
}

func (e *Expression) checkCall(n *ast.CallExpr) error {
	name, _ := dotted(n.Fun)
	function, ok := functions[name]
	if !ok {
		return at(n, "no such function; there are abs, min, max, sqrt and log")
	}
	if len(n.Args) < function.least || len(n.Args) > function.most || n.Ellipsis != token.NoPos {
		return at(n, "%s has another number of arguments", name)
	}
	for _, argument := range n.Args {
		if err := e.require(argument, numberKind); err != nil {
			return err
		}
	}
	return nil
}

// require checks an operand that has to be of a type.
func (e *Expression) require(node ast.Expr, want kind) error {
	found, err := e.check(node)
	if err == nil && found != want && found != anyKind {
		err = at(node, "a %s is needed, this is a %s", kindNames[want], kindNames[found])
	}
	return err
}

// dotted is a name such as end.sum.packets.
func dotted(node ast.Expr) (string, bool) {
	switch n := node.(type) {
	case *ast.Ident:
		return n.Name, true
	case *ast.SelectorExpr:
		left, ok := dotted(n.X)
		return left + "." + n.Sel.Name, ok
	}
	return "", false
}

// Holds evaluates the condition; value returns that of a name: a float64, string or bool.
func (e *Expression) Holds(value func(name string) (any, error)) (bool, error) {
	result, err := evaluate(e.root, value)
	if err != nil {
		return false, fmt.Errorf("evaluate %q: %w", e.text, err)
	}
	holds, ok := result.(bool)
	if !ok {
		return false, fmt.Errorf("evaluate %q: it is %v, which is not a condition", e.text, result)
	}
	return holds, nil
}

// Seen lists the values of the names of the condition, as far as they have one: " (rate is 3)".
func (e *Expression) Seen(value func(name string) (any, error)) string {
	var list []string
	for _, name := range e.names {
		if v, err := value(name); err == nil {
			list = append(list, fmt.Sprintf("%s is %v", name, v))
		}
	}
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, ", ") + ")"
}

func evaluate(node ast.Expr, value func(string) (any, error)) (any, error) {
	switch n := node.(type) {
	case *ast.ParenExpr:
		return evaluate(n.X, value)
	case *ast.BasicLit:
		if n.Kind == token.STRING {
			return strconv.Unquote(n.Value)
		}
		return strconv.ParseFloat(n.Value, 64)
	case *ast.Ident, *ast.SelectorExpr:
		name, _ := dotted(n)
		if name == "true" || name == "false" {
			return name == "true", nil
		}
		found, err := value(name)
		if err != nil {
			return nil, &positionError{int(n.Pos()), err}
		}
		return found, nil
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			truth, err := operand[bool](n.X, value)
			return !truth, err
		}
		number, err := operand[float64](n.X, value)
		if n.Op == token.SUB {
			number = -number
		}
		return number, err
	case *ast.BinaryExpr:
		return evaluateBinary(n, value)
	case *ast.CallExpr:
		name, _ := dotted(n.Fun)
		arguments := make([]float64, len(n.Args))
		for i, argument := range n.Args {
			var err error
			if arguments[i], err = operand[float64](argument, value); err != nil {
				return nil, err
			}
		}
		return functions[name].call(arguments), nil
	}
	return nil, at(node, "unexpected")
}

// operand evaluates what has to be of a type.
func operand[T float64 | bool](node ast.Expr, value func(string) (any, error)) (T, error) {
	var zero T
	found, err := evaluate(node, value)
	if err != nil {
		return zero, err
	}
	typed, ok := found.(T)
	if !ok {
		want := numberKind
		if _, isTruth := any(zero).(bool); isTruth {
			want = truthKind
		}
		return zero, at(node, "a %s is needed, this is %v", kindNames[want], found)
	}
	return typed, nil
}

func evaluateBinary(n *ast.BinaryExpr, value func(string) (any, error)) (any, error) {
	switch n.Op {
	case token.LAND, token.LOR:
		left, err := operand[bool](n.X, value)
		if err != nil || left == (n.Op == token.LOR) {
			return left, err
		}
		return operand[bool](n.Y, value)
	case token.EQL, token.NEQ:
		left, err := evaluate(n.X, value)
		if err != nil {
			return nil, err
		}
		right, err := evaluate(n.Y, value)
		if err != nil {
			return nil, err
		}
		if fmt.Sprintf("%T", left) != fmt.Sprintf("%T", right) {
			return nil, &positionError{int(n.OpPos), fmt.Errorf("%v and %v cannot be compared", left, right)}
		}
		return (left == right) == (n.Op == token.EQL), nil
	}
	left, err := operand[float64](n.X, value)
	if err != nil {
		return nil, err
	}
	right, err := operand[float64](n.Y, value)
	if err != nil {
		return nil, err
	}
	switch n.Op {
	case token.ADD:
		return left + right, nil
	case token.SUB:
		return left - right, nil
	case token.MUL:
		return left * right, nil
	case token.QUO:
		return left / right, nil
	case token.REM:
		return math.Mod(left, right), nil
	case token.LSS:
		return left < right, nil
	case token.LEQ:
		return left <= right, nil
	case token.GTR:
		return left > right, nil
	}
	return left >= right, nil // GEQ, the last of operators
}

// Expectation is what a treatment has to bring about: nothing attached, or a condition.
type Expectation struct {
	// Bare: nothing is attached to the interfaces of the hosts.
	Bare      bool
	Condition *Expression
}

const bare = "bare"

// UnmarshalText reads "bare" or a condition.
func (e *Expectation) UnmarshalText(text []byte) error {
	if strings.TrimSpace(string(text)) == bare {
		e.Bare = true
		return nil
	}
	var err error
	e.Condition, err = ParseExpression(string(text))
	return err
}

// UnmarshalYAML reads an expectation; its errors state line and column.
func (e *Expectation) UnmarshalYAML(decode func(any) error) error { return document.Text(decode, e) }

// MarshalText is the expectation as it is written.
func (e Expectation) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

func (e Expectation) String() string {
	if e.Bare {
		return bare
	}
	return e.Condition.String()
}
