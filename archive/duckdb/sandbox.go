package duckdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"pillion.dev/archive/answer"
	"pillion.dev/archive/query"
)

// What DuckDB itself cannot prevent: read-only transactions, a locked configuration and
// no access to files leave functions that enable logs, that read and write beside the
// archive's file, or that produce gigabytes of text from one row, which the memory limit
// does not include.
var (
	// tableFunctions are those that a query may read from.
	tableFunctions = []string{
		"range", "generate_series", "unnest", "json_each", "json_tree",
		"duckdb_columns", "duckdb_tables", "duckdb_views", "duckdb_functions", "duckdb_types", "duckdb_keywords",
	}
	// boundless functions return strings of any requested length, or write.
	boundless = []string{
		"repeat", "lpad", "rpad", "bar", "format", "printf", "bitstring", "write_log", "nextval", "currval",
	}
	// joining functions return strings as long as all their arguments; each nesting
	// can double the length.
	joining = []string{"||", "concat", "concat_ws", "replace", "regexp_replace", "array_to_string", "translate"}
)

const (
	joiningMost   = 16
	statementMost = 64 << 10 // bytes
)

var explaining = regexp.MustCompile(`(?i)^EXPLAIN(\s+ANALYZE)?\s`)

// inspectQuestion rejects forbidden queries. It inspects the statement as parsed by DuckDB,
// so that no spelling can hide anything.
func (c *connection) inspectQuestion(ctx context.Context, sql string) error {
	inner := withoutExplain(sql)
	var text string
	err := c.query(ctx, "SELECT json_serialize_sql(?::VARCHAR)::VARCHAR", []any{inner}, answer.Each(func(r answer.Row) { text = r.Text(0) }))
	if err != nil {
		return err
	}
	var tree struct {
		Error   bool   `json:"error"`
		Kind    string `json:"error_type"`
		Message string `json:"error_message"`
		Nodes   []any  `json:"statements"`
	}
	if err := json.Unmarshal([]byte(text), &tree); err != nil {
		return &sqlError{message: "the statement cannot be inspected: " + err.Error()}
	}
	if tree.Error {
		return &sqlError{message: fmt.Sprintf("only read-only statements are allowed: %s: %s", tree.Kind, tree.Message)}
	}
	if len(tree.Nodes) != 1 {
		return &sqlError{message: fmt.Sprintf("%d statements, want one", len(tree.Nodes))}
	}
	joins := 0
	return inspectTree(tree.Nodes, &joins)
}

// withoutExplain returns the query that a statement explains, or the statement itself.
func withoutExplain(sql string) string {
	bare := query.Bare(sql)
	if inner := explaining.ReplaceAllString(bare, ""); inner != bare {
		return inner
	}
	return sql
}

func inspectTree(node any, joins *int) error {
	switch n := node.(type) {
	case []any:
		for _, child := range n {
			if err := inspectTree(child, joins); err != nil {
				return err
			}
		}
	case map[string]any:
		if err := inspectFunction(n, joins); err != nil {
			return &sqlError{message: err.Error()}
		}
		for _, child := range n {
			if err := inspectTree(child, joins); err != nil {
				return err
			}
		}
	}
	return nil
}

func inspectFunction(n map[string]any, joins *int) error {
	if called, is := n["function"].(map[string]any); is && n["type"] == "TABLE_FUNCTION" {
		name, _ := called["function_name"].(string)
		if !slices.Contains(tableFunctions, strings.ToLower(name)) {
			return fmt.Errorf("a query cannot read from %s(), only from streams and from %s()", name, strings.Join(tableFunctions, "(), "))
		}
	}
	name, is := n["function_name"].(string)
	if !is {
		return nil
	}
	name = strings.ToLower(name)
	if slices.Contains(boundless, name) {
		return fmt.Errorf("a query cannot call %s(): the size of its result is unbounded", name)
	}
	if slices.Contains(joining, name) {
		children, _ := n["children"].([]any)
		if *joins += max(len(children)-1, 1); *joins > joiningMost {
			return errors.New("a query cannot concatenate so many strings")
		}
	}
	return nil
}
