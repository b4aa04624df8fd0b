package clickhouse

import (
	"strings"

	"pillion.dev/archive"
	"pillion.dev/measure"
)

// scoped is the term of the rows of a stream that are in a scope; empty without one.
func scoped(s *measure.Schema, scope *archive.Scope) string {
	return scope.Term(archive.OwnershipOf(s), func(column string, list []string) string {
		literals := make([]string, len(list))
		for i, text := range list {
			literals[i] = literal(text)
		}
		return "ifNull(" + quoted(column) + ", '') IN (" + strings.Join(literals, ", ") + ")"
	})
}
