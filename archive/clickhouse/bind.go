package clickhouse

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// bind puts arguments as literals in the place of the question marks of a statement, but for
// those in texts, names and comments.
func bind(sql string, arguments []any) (string, error) {
	if len(arguments) == 0 {
		return sql, nil
	}
	var b strings.Builder
	for i := 0; i < len(sql); {
		end := i + 1
		switch rest := sql[i:]; {
		case rest[0] == '\'' || rest[0] == '"' || rest[0] == '`':
			end = i + quotedLength(rest)
		case strings.HasPrefix(rest, "--") || rest[0] == '#':
			end = i + lengthThrough(rest, "\n")
		case strings.HasPrefix(rest, "/*"):
			end = i + 2 + lengthThrough(rest[2:], "*/")
		case rest[0] == '?':
			if len(arguments) == 0 {
				return "", fmt.Errorf("the statement has more question marks than arguments")
			}
			text, err := argument(arguments[0])
			if err != nil {
				return "", err
			}
			arguments = arguments[1:]
			b.WriteString(text)
			i = end
			continue
		}
		b.WriteString(sql[i:end])
		i = end
	}
	if len(arguments) > 0 {
		return "", fmt.Errorf("the statement has %d question marks less than arguments", len(arguments))
	}
	return b.String(), nil
}

// quotedLength is the length of a quoted text, at whose start the quote is.
func quotedLength(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case text[0]: // a doubled one begins another text
			return i + 1
		}
	}
	return len(text)
}

// lengthThrough is the length up to the end of a mark, or of all.
func lengthThrough(text, mark string) int {
	if i := strings.Index(text, mark); i >= 0 {
		return i + len(mark)
	}
	return len(text)
}

// argument is the literal of an argument.
func argument(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "NULL", nil
	case string:
		return literal(v), nil
	case bool:
		if v {
			return "1", nil
		}
		return "0", nil
	case int:
		return integer(int64(v)), nil
	case int32:
		return integer(int64(v)), nil
	case int64:
		return integer(v), nil
	case uint32:
		return strconv.FormatUint(uint64(v), 10), nil
	case uint64:
		return dialect.Uint(v), nil
	case float64:
		if math.IsNaN(v) {
			return "nan", nil
		}
		return dialect.Float(v), nil
	case time.Time:
		return integer(v.UnixNano()), nil
	case []string:
		return "[" + dialect.Literals(v) + "]", nil
	}
	return "", fmt.Errorf("an argument of type %T cannot be bound", value)
}
