package document

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/parser"
)

// DecodeAll decodes one document as Decode does, and joins all mistakes in the order of lines: after one it goes on without its line
// and what is indented below. read reports whether all else was decoded, so that its values can be validated; no document is no error.
func DecodeAll(text []byte, into any) (read bool, err error) {
	var mistakes []error
	lines := strings.Split(string(withoutMark(text)), "\n")
	for {
		text := []byte(strings.Join(lines, "\n"))
		_, err := Decode(text, into)
		if read = err == nil || errors.Is(err, io.EOF); read {
			break
		}
		malformed := malformed(text)
		if malformed && len(mistakes) > 0 {
			break // a consequence of the lines that are left out
		}
		mistakes = append(mistakes, err)
		fault, located := errors.AsType[*Error](err)
		if malformed || !located || fault.Line < 1 || fault.Line > len(lines) || !omit(lines, fault.Line-1) {
			break
		}
	}
	line := func(err error) int { fault, _ := errors.AsType[*Error](err); return fault.Line }
	slices.SortStableFunc(mistakes, func(a, b error) int { return cmp.Compare(line(a), line(b)) })
	return read, errors.Join(mistakes...)
}

// malformed reports whether a text is no YAML.
func malformed(text []byte) (bad bool) {
	defer func() { bad = recover() != nil || bad }()
	_, err := parser.ParseBytes(text, 0)
	return err != nil
}

// omit empties the line of a key, and the lines of its value; it leaves items of lists, of which more may be in the next lines.
func omit(lines []string, at int) bool {
	depth := func(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
	own := depth(lines[at])
	if text := lines[at][own:]; text == "" || strings.HasPrefix(text, "-") {
		return false
	}
	lines[at] = ""
	for next := at + 1; next < len(lines) && (strings.TrimSpace(lines[next]) == "" || depth(lines[next]) > own); next++ {
		lines[next] = ""
	}
	return true
}
