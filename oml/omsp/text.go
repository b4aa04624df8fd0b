package omsp

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

const (
	tab       = '\t'
	wordBytes = 64 // quoted in an error
)

// nextLine reads "ts<tab>stream<tab>seq<tab>value...".
func (r *Reader) nextLine(t *Tuple) error {
	for {
		text, err := r.readLine()
		if errors.Is(err, io.EOF) && len(text) > 0 {
			return fmt.Errorf("%w: truncated at %q", ErrTuple, short(text))
		}
		if err != nil {
			return err
		}
		text = bytes.TrimSuffix(text, []byte{'\r'})
		if len(text) > 0 { // skip empty lines
			return r.parseLine(t, text)
		}
	}
}

func (r *Reader) parseLine(t *Tuple, text []byte) error {
	word, rest, _ := cut(text)
	var err error
	if t.Time, err = parseDouble(word); err != nil {
		return fault("time", word)
	}
	word, rest, _ = cut(rest)
	index, ok := parseInt(word, math.MaxInt32)
	if !ok || index < 0 {
		return fault("stream", word)
	}
	if t.Schema = r.schema(int(index)); t.Schema == nil {
		return fmt.Errorf("%w: stream %d has no schema", ErrTuple, index)
	}
	word, rest, more := cut(rest)
	if t.Seq, ok = parseInt(word, math.MaxInt64); !ok {
		return fault("seq", word)
	}
	fields := t.Schema.Fields
	t.resize(len(fields))
	for i := range fields {
		if !more {
			return fmt.Errorf("%w: %s has %d values, want %d", ErrTuple, t.Schema.Name, i, len(fields))
		}
		word, rest, more = cut(rest)
		if err := t.Values[i].parse(fields[i].Type, word); err != nil {
			return fmt.Errorf("%w: %s.%s: %w", ErrTuple, t.Schema.Name, fields[i].Name, err)
		}
	}
	if more && len(bytes.TrimSpace(rest)) > 0 {
		return fmt.Errorf("%w: %s has more than %d values", ErrTuple, t.Schema.Name, len(fields))
	}
	return nil
}

func fault(what string, word []byte) error {
	return fmt.Errorf("%w: %s %q is not a number", ErrTuple, what, short(word))
}

func short(text []byte) []byte { return text[:min(len(text), wordBytes)] }

// cut splits at the first tab; more reports whether there was one.
func cut(text []byte) (word, rest []byte, more bool) {
	if i := bytes.IndexByte(text, tab); i >= 0 {
		return text[:i], text[i+1:], true
	}
	return text, nil, false
}

// parse parses a word as a type.
func (v *Value) parse(t Type, word []byte) error {
	v.Type = t
	if t.IsVector() {
		return v.parseVector(t.Element(), word)
	}
	switch t {
	case String:
		v.bytes = unescape(word)
		return nil
	case Blob:
		return v.parseBlob(word)
	}
	var ok bool
	if v.bits, ok = parseScalar(t, bytes.TrimSpace(word)); !ok {
		return fmt.Errorf("read %q as %v", short(word), t)
	}
	return nil
}

// parseScalar parses a number or bool into the form of Value.bits.
func parseScalar(t Type, word []byte) (uint64, bool) {
	switch t {
	case Int32:
		n, ok := parseInt(word, math.MaxInt32)
		return uint64(n), ok
	case Int64:
		n, ok := parseInt(word, math.MaxInt64)
		return uint64(n), ok
	case Uint32:
		return parseUint(word, math.MaxUint32)
	case Uint64, GUID:
		return parseUint(word, math.MaxUint64)
	case Bool:
		return truth(!isFalse(word)), true
	case Double:
		x, err := parseDouble(word)
		return math.Float64bits(x), err == nil
	}
	return 0, false
}

// isFalse reports whether a word is a prefix of "false" in any case.
func isFalse(word []byte) bool {
	return len(word) <= len("false") && bytes.EqualFold(word, []byte("false")[:len(word)])
}

// parseVector parses "n e1 ... en".
func (v *Value) parseVector(element Type, word []byte) error {
	count, rest := nextWord(word)
	n, ok := parseUint(count, math.MaxInt32)
	if !ok || n > uint64(len(rest)) { // each element has at least one byte
		return fmt.Errorf("read %q as the number of elements", short(count))
	}
	v.list = v.list[:0]
	for range n {
		var text []byte
		text, rest = nextWord(rest)
		bits, ok := parseScalar(element, text)
		if !ok || len(text) == 0 {
			return fmt.Errorf("read element %d, %q, as %v", len(v.list)+1, short(text), element)
		}
		v.list = append(v.list, bits)
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return fmt.Errorf("read vector: more than %d elements", n)
	}
	return nil
}

func nextWord(text []byte) (word, rest []byte) {
	text = bytes.TrimLeft(text, " ")
	if i := bytes.IndexByte(text, ' '); i >= 0 {
		return text[:i], text[i:]
	}
	return text, nil
}

// parseBlob decodes base64, with or without padding.
func (v *Value) parseBlob(word []byte) error {
	word = bytes.TrimRight(bytes.TrimSpace(word), "=")
	if size := base64.RawStdEncoding.DecodedLen(len(word)); cap(v.own) < size {
		v.own = make([]byte, size)
	}
	v.own = v.own[:cap(v.own)]
	n, err := base64.RawStdEncoding.Decode(v.own, word)
	if err != nil {
		return fmt.Errorf("read %q as base64: %w", short(word), err)
	}
	v.bytes = v.own[:n]
	return nil
}

// unescape replaces escaped tabs, line ends and backslashes in place.
func unescape(word []byte) []byte {
	from := bytes.IndexByte(word, '\\')
	if from < 0 {
		return word
	}
	to := from
	for from < len(word) {
		c := word[from]
		from++
		if c == '\\' && from < len(word) {
			if plain := escaped(word[from]); plain != 0 {
				c = plain
				from++
			}
		}
		word[to] = c
		to++
	}
	return word[:to]
}

// escaped returns the character that an escape sequence stands for; 0 if it is none.
func escaped(c byte) byte {
	switch c {
	case 't':
		return '\t'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case '\\':
		return '\\'
	}
	return 0
}

// parseInt parses an integer up to the limit, also in the form 12.0, which Python clients
// write.
func parseInt(word []byte, limit int64) (int64, bool) {
	word = bytes.TrimSpace(word)
	negative := len(word) > 0 && word[0] == '-'
	digits := word
	if negative || len(word) > 0 && word[0] == '+' {
		digits = word[1:]
	}
	most := uint64(limit)
	if negative {
		most++
	}
	n, ok := parseUint(digits, most)
	if negative {
		return -int64(n), ok
	}
	return int64(n), ok
}

func parseUint(word []byte, limit uint64) (uint64, bool) {
	if len(word) == 0 {
		return 0, false
	}
	var n uint64
	for i, c := range word {
		digit := uint64(c - '0')
		if digit > 9 {
			return wholeDouble(word, limit, i)
		}
		if n > math.MaxUint64/10 || n*10 > math.MaxUint64-digit {
			return 0, false
		}
		n = n*10 + digit
	}
	return n, n <= limit
}

// wholeDouble parses an integer written with a decimal point or an exponent.
func wholeDouble(word []byte, limit uint64, at int) (uint64, bool) {
	if c := word[at]; c != '.' && c != 'e' && c != 'E' {
		return 0, false
	}
	x, err := strconv.ParseFloat(string(word), 64)
	if err != nil || x != math.Trunc(x) || x < 0 || x > 1<<53 || uint64(x) > limit {
		return 0, false
	}
	return uint64(x), true
}

func parseDouble(word []byte) (float64, error) {
	return strconv.ParseFloat(string(bytes.TrimSpace(word)), 64) // does not retain the string
}
