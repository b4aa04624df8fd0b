package duckdb

import (
	"fmt"

	"pillion.dev/archive"
	"pillion.dev/measure"
)

// scoped is the term of the rows of a stream that are in a scope; empty without one.
func scoped(s *measure.Schema, scope *archive.Scope) (sql string, arguments []any) {
	sql = scope.Term(archive.OwnershipOf(s), func(column string, list []string) string {
		arguments = append(arguments, list)
		return fmt.Sprintf("coalesce(%s, '') IN (SELECT unnest(?::VARCHAR[]))", quoted(column))
	})
	return sql, arguments
}
