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
}

// kind is the type of a value.
type kind int

const (
	anyKind kind = iota
	numberKind
	textKind
	truthKind
)

var kindNames = map[kind]string{anyKind: "value", numberKind: "number", textKind: "text", truthKind: "condition"}

// unknown is a value of which only the kind is known: before a run, an expression is checked with these.
type unknown kind

func kindOf(value any) kind {
	switch v := value.(type) {
	case unknown:
		return kind(v)
	case float64:
		return numberKind
	case string:
		return textKind
	case bool:
		return truthKind
	}
	return anyKind
}

func isUnknown(values ...any) bool {
	return slices.ContainsFunc(values, func(v any) bool { _, is := v.(unknown); return is })
}

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
	return e, e.checkNames(func(string) kind { return anyKind })
}

// checkNames checks the types, with what is known of the names.
func (e *Expression) checkNames(known func(name string) kind) error {
	found, err := evaluate(e.root, func(name string) (any, error) {
		if !slices.Contains(e.names, name) {
			e.names = append(e.names, name)
		}
		return unknown(known(name)), nil
	})
	if err != nil {
		return err
	}
	if k := kindOf(found); k != truthKind && k != anyKind {
		return at(e.root, "the expression is a %s, not a condition", kindNames[k])
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

// operators are those on two numbers.
var operators = map[token.Token]func(a, b float64) any{
	token.ADD: func(a, b float64) any { return a + b },
	token.SUB: func(a, b float64) any { return a - b },
	token.MUL: func(a, b float64) any { return a * b },
	token.QUO: func(a, b float64) any { return a / b },
	token.REM: func(a, b float64) any { return math.Mod(a, b) },
	token.LSS: func(a, b float64) any { return a < b },
	token.LEQ: func(a, b float64) any { return a <= b },
	token.GTR: func(a, b float64) any { return a > b },
	token.GEQ: func(a, b float64) any { return a >= b },
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

// Holds evaluates the condition; value returns the value of a name: a float64, string or bool.
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

// evaluate returns a float64, string or bool, or unknown if the value depends on one that is.
func evaluate(node ast.Expr, value func(string) (any, error)) (any, error) {
	switch n := node.(type) {
	case *ast.ParenExpr:
		return evaluate(n.X, value)
	case *ast.BasicLit:
		return literal(n)
	case *ast.Ident, *ast.SelectorExpr:
		name, ok := dotted(n)
		if !ok {
			return nil, at(n, "a name has the form field or object.field")
		}
		if name == "true" || name == "false" {
			return name == "true", nil
		}
		found, err := value(name)
		if err != nil {
			return nil, &positionError{int(n.Pos()), err}
		}
		return found, nil
	case *ast.UnaryExpr:
		return evaluateUnary(n, value)
	case *ast.BinaryExpr:
		return evaluateBinary(n, value)
	case *ast.CallExpr:
		return evaluateCall(n, value)
	}
	return nil, at(node, "only names, numbers, texts, operators and functions are allowed")
}

func literal(n *ast.BasicLit) (any, error) {
	switch n.Kind {
	case token.INT, token.FLOAT:
		number, err := strconv.ParseFloat(n.Value, 64)
		if err != nil {
			return nil, at(n, "%q is not a decimal number", n.Value)
		}
		return number, nil
	case token.STRING:
		return strconv.Unquote(n.Value)
	}
	return nil, at(n, "%s is neither a number nor a text in double quotes", n.Value)
}

// operand evaluates what has to be of a kind.
func operand(node ast.Expr, want kind, value func(string) (any, error)) (any, error) {
	found, err := evaluate(node, value)
	if err != nil {
		return nil, err
	}
	switch kindOf(found) {
	case want:
		return found, nil
	case anyKind:
		return unknown(want), nil
	}
	return nil, at(node, "a %s is needed, this is a %s", kindNames[want], kindNames[kindOf(found)])
}

func evaluateUnary(n *ast.UnaryExpr, value func(string) (any, error)) (any, error) {
	want, ok := map[token.Token]kind{token.ADD: numberKind, token.SUB: numberKind, token.NOT: truthKind}[n.Op]
	if !ok {
		return nil, at(n, "there is no operator %s here", n.Op)
	}
	found, err := operand(n.X, want, value)
	switch found := found.(type) {
	case bool:
		return !found, err
	case float64:
		if n.Op == token.SUB {
			return -found, err
		}
	}
	return found, err
}

func evaluateBinary(n *ast.BinaryExpr, value func(string) (any, error)) (any, error) {
	switch n.Op {
	case token.LAND, token.LOR:
		left, err := operand(n.X, truthKind, value)
		if err != nil || left == (n.Op == token.LOR) {
			return left, err
		}
		right, err := operand(n.Y, truthKind, value)
		if err == nil && isUnknown(left) {
			return left, nil
		}
		return right, err
	case token.EQL, token.NEQ:
		left, err := evaluate(n.X, value)
		if err != nil {
			return nil, err
		}
		right, err := evaluate(n.Y, value)
		if err != nil {
			return nil, err
		}
		if a, b := kindOf(left), kindOf(right); a != b && a != anyKind && b != anyKind {
			return nil, &positionError{int(n.OpPos), fmt.Errorf("a %s cannot equal a %s", kindNames[a], kindNames[b])}
		}
		if isUnknown(left, right) {
			return unknown(truthKind), nil
		}
		return (left == right) == (n.Op == token.EQL), nil
	}
	operate, ok := operators[n.Op]
	if !ok {
		return nil, &positionError{int(n.OpPos), fmt.Errorf("there is no operator %s", n.Op)}
	}
	numbers, err := operands([]ast.Expr{n.X, n.Y}, value)
	if err != nil {
		return nil, err
	}
	if numbers == nil {
		return unknown(kindOf(operate(0, 0))), nil
	}
	return operate(numbers[0], numbers[1]), nil
}

func evaluateCall(n *ast.CallExpr, value func(string) (any, error)) (any, error) {
	name, _ := dotted(n.Fun)
	function, ok := functions[name]
	if !ok {
		return nil, at(n, "no such function; there are abs, min, max, sqrt and log")
	}
	if len(n.Args) < function.least || len(n.Args) > function.most || n.Ellipsis != token.NoPos {
		return nil, at(n, "%s has another number of arguments", name)
	}
	numbers, err := operands(n.Args, value)
	if err != nil {
		return nil, err
	}
	if numbers == nil {
		return unknown(numberKind), nil
	}
	return function.call(numbers), nil
}

// operands evaluates numbers; none if one is unknown.
func operands(nodes []ast.Expr, value func(string) (any, error)) (numbers []float64, err error) {
	known := true
	for _, node := range nodes {
		found, err := operand(node, numberKind, value)
		if err != nil {
			return nil, err
		}
		number, ok := found.(float64)
		known, numbers = known && ok, append(numbers, number)
	}
	if !known {
		return nil, nil
	}
	return numbers, nil
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
