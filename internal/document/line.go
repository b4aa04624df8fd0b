package document

import (
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"
)

// Lines returns the line of each of these keys, such as a.b, that a document has.
func Lines(text []byte, keys []string) (lines map[string]int) {
	lines = map[string]int{}
	defer func() { _ = recover() }() // the parser panics on some malformed documents
	file, err := parser.ParseBytes(withoutMark(text), 0)
	if err != nil {
		return lines
	}
	for _, key := range keys {
		path, err := yaml.PathString("$." + key)
		if err != nil {
			continue
		}
		node, err := path.FilterFile(file)
		if err != nil || node == nil || node.GetToken() == nil {
			continue
		}
		lines[key] = node.GetToken().Position.Line
	}
	return lines
}
