package duckdb

import (
	"context"
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"pillion.dev/archive/answer"
	"pillion.dev/measure"
)

// comparison restricts the rows of a scan. Value is the text of an integer, of
// nanoseconds for a time, or a string.
type comparison struct {
	Column   string `json:"column"`
	Operator string `json:"operator"`
	Value    string `json:"value"`
}

// comparisons maps operators in DuckDB's plans to operators of scans, which are never stricter.
var comparisons = map[string]string{
	"COMPARE_EQUAL":       "=",
	"COMPARE_GREATERTHAN": ">=", "COMPARE_GREATERTHANOREQUALTO": ">=",
	"COMPARE_LESSTHAN": "<=", "COMPARE_LESSTHANOREQUALTO": "<=",
}

// operators of scans.
var operators = []string{"=", "<=", ">="}

// comparable are the types whose values are exact as text.
var comparable = []measure.Type{
	measure.String, measure.Time, measure.Int32, measure.Int64, measure.Uint32, measure.Uint64,
}

// unknownScans is the number of scans of a query whose plan cannot be inspected.
const unknownScans = 8

// planNode is an operator of a logical plan, as json_serialize_plan returns it.
type planNode struct {
	Type        string           `json:"type"`
	Children    []planNode       `json:"children"`
	Expressions []planExpression `json:"expressions"`
	// Of a scan:
	Name       string      `json:"name"`
	Parameters []planValue `json:"parameters"`
	Columns    []struct {
		Index uint64 `json:"index"`
	} `json:"column_indexes"`
}

type planExpression struct {
	Class string    `json:"expression_class"`
	Type  string    `json:"type"`
	Index *int      `json:"index"` // of a column of the scan below
	Value planValue `json:"value"`
	// Of a comparison, and of BETWEEN:
	Left  *planExpression `json:"left"`
	Right *planExpression `json:"right"`
	Input *planExpression `json:"input"`
	Lower *planExpression `json:"lower"`
	Upper *planExpression `json:"upper"`
}

type planValue struct {
	Type struct {
		ID string `json:"id"`
	} `json:"type"`
	Null  bool            `json:"is_null"`
	Value json.RawMessage `json:"value"`
}

// scanPlan is one scan of a plan.
type scanPlan struct {
	stream int
	where  []comparison
}

// planOf returns the scans of a query, with what the plan compares their columns with;
// nil if the plan cannot be inspected. DuckDB does not tell a table function of C which
// rows are needed.
func (c *connection) planOf(ctx context.Context, sql string, streams []remoteStream) []scanPlan {
	var text string
	err := c.query(ctx, "SELECT json_serialize_plan(?::VARCHAR, optimize := true)::VARCHAR", []any{withoutExplain(sql)}, answer.Each(func(r answer.Row) { text = r.Text(0) }))
	var all struct {
		Error bool       `json:"error"`
		Plans []planNode `json:"plans"`
	}
	if err != nil || json.Unmarshal([]byte(text), &all) != nil || all.Error {
		return nil // the query itself returns the error
	}
	found := []scanPlan{}
	for i := range all.Plans {
		found = appendScans(found, &all.Plans[i], nil, streams)
	}
	return found
}

// appendScans walks a plan; conditions are the conditions of the filter directly above.
func appendScans(found []scanPlan, n *planNode, conditions []planExpression, streams []remoteStream) []scanPlan {
	if n.Type == "LOGICAL_GET" && n.Name == remoteFunction && len(n.Parameters) == 1 {
		place, err := strconv.Atoi(string(n.Parameters[0].Value))
		if err == nil && place >= 0 && place < len(streams) {
			one := scanPlan{stream: place}
			for i := range conditions {
				one.where = append(one.where, conditions[i].comparisons(n, &streams[place])...)
			}
			found = append(found, one)
		}
	}
	if n.Type != "LOGICAL_FILTER" || len(n.Children) != 1 {
		conditions = nil
	} else {
		conditions = n.Expressions
	}
	for i := range n.Children {
		found = appendScans(found, &n.Children[i], conditions, streams)
	}
	return found
}

// comparisons returns the comparisons of columns with constants in a condition that all rows meet.
func (e *planExpression) comparisons(scan *planNode, stream *remoteStream) []comparison {
	compare := func(column, constant *planExpression, operator string) []comparison {
		if operator == "" || column == nil || constant == nil || column.Class != "BOUND_REF" || column.Index == nil ||
			constant.Class != "BOUND_CONSTANT" || constant.Value.Null {
			return nil
		}
		if *column.Index < 0 || *column.Index >= len(scan.Columns) {
			return nil
		}
		place := scan.Columns[*column.Index].Index
		if place >= uint64(len(stream.Columns)) || !slices.Contains(comparable, stream.Columns[place].Type) ||
			constant.Value.Type.ID != sqlTypes[stream.Columns[place].Type] {
			return nil
		}
		value := string(constant.Value.Value)
		if stream.Columns[place].Type == measure.String {
			if json.Unmarshal(constant.Value.Value, &value) != nil {
				return nil
			}
		} else if _, ok := new(big.Int).SetString(value, 10); !ok {
			return nil
		}
		return []comparison{{stream.Columns[place].Name, operator, value}}
	}
	switch e.Class {
	case "BOUND_COMPARISON":
		return compare(e.Left, e.Right, comparisons[e.Type])
	case "BOUND_BETWEEN":
		return append(compare(e.Input, e.Lower, ">="), compare(e.Input, e.Upper, "<=")...)
	}
	return nil
}

// narrow restricts the scans of each stream to rows that some scan of the plan needs: rows that meet the
// comparisons common to all scans, within the union of their ranges. The query still filters them.
func (s *scans) narrow(plan []scanPlan) {
	seen := map[string]bool{}
	for _, one := range plan {
		stream := &s.streams[one.stream]
		if !seen[stream.Name] {
			seen[stream.Name], s.where[stream.Name] = true, one.where
			continue
		}
		var both []comparison
		for _, have := range s.where[stream.Name] {
			for _, other := range one.where {
				if have.Column == other.Column && have.Operator == other.Operator && have.include(other, stream) {
					both = append(both, have)
					break
				}
			}
		}
		s.where[stream.Name] = both
	}
}

// include widens a comparison to what another one permits too; false if it cannot.
func (c *comparison) include(other comparison, stream *remoteStream) bool {
	if c.Value == other.Value {
		return true
	}
	i := slices.IndexFunc(stream.Columns, func(column remoteColumn) bool { return column.Name == c.Column })
	if c.Operator == "=" {
		return false
	}
	order := strings.Compare(c.Value, other.Value)
	if stream.Columns[i].Type != measure.String {
		a, _ := new(big.Int).SetString(c.Value, 10)
		b, _ := new(big.Int).SetString(other.Value, 10)
		order = a.Cmp(b)
	}
	if (order < 0) == (c.Operator == "<=") {
		c.Value = other.Value
	}
	return true
}

// argument is the value of a comparison in the type that binds to its column.
func (c *comparison) argument(t measure.Type) (any, error) {
	switch t {
	case measure.String:
		return c.Value, nil
	case measure.Uint64, measure.Uint32:
		return strconv.ParseUint(c.Value, 10, 64)
	}
	n, err := strconv.ParseInt(c.Value, 10, 64)
	if t == measure.Time {
		return time.Unix(0, n), err
	}
	return n, err
}
