package document

import (
	"strings"
	"testing"
)

// TestIntegers: no integer is read as another number. What YAML 1.1 takes for octal is an error.
func TestIntegers(t *testing.T) {
	for text, want := range map[string]int64{
		"n: 0": 0, "n: 10": 10, "n: -7": -7, "n: 0x10": 16, "n: 0o17": 15, "n: 08": 8, `n: "010"`: 10, "n: 9223372036854775807": 9223372036854775807, `{"n": 10}`: 10,
	} {
		var v struct{ N int64 }
		if _, err := Decode([]byte(text), &v); err != nil || v.N != want {
			t.Errorf("%q: %d, %v, want %d", text, v.N, err, want)
		}
	}
	for text, want := range map[string]string{
		"s: x\nn: 010": "line 2: 010 has a leading zero: omit it, or put text in quotes",
		"n: -0010":     "line 1: -0010 has a leading zero: omit it, or put text in quotes",
		"n: 00":        "line 1: 00 has a leading zero: omit it, or put text in quotes",
		"n: 0_7":       "line 1: 0_7 has a leading zero: omit it, or put text in quotes",
		"s: 007":       "line 1: 007 has a leading zero",
		`{"n": 010}`:   "line 1: 010 has a leading zero",
		"010: 1":       "line 1: 010 has a leading zero",
	} {
		var v struct {
			N int64
			S string
		}
		if _, err := Decode([]byte(text), &v); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{`s: "007"`: "007", "s: '007'": "007", "s: |\n  007\n": "007\n", "s: >-\n  007\n": "007", "s: 007a": "007a", "s: 0.50x": "0.50x", "s: a # 010": "a", "# 010\ns: 10.0.0.1": "10.0.0.1"} {
		var v struct{ S string }
		if _, err := Decode([]byte(text), &v); err != nil || v.S != want {
			t.Errorf("%q: %q, %v, want %q", text, v.S, err, want)
		}
	}
}

// TestByteOrderMark: a byte order mark, which some editors of Windows write, is no part of a key.
func TestByteOrderMark(t *testing.T) {
	type fields struct{ N int }
	const text = "\ufeffn: 5\r\n"
	var v fields
	if more, err := Decode([]byte(text), &v); err != nil || more || v.N != 5 {
		t.Errorf("%d, %v", v.N, err)
	}
	if lines := Lines([]byte(text), []string{"n"}); lines["n"] != 1 {
		t.Errorf("lines %v", lines)
	}
	if mistakes := Mistakes([]byte(text), fields{}); len(mistakes) != 0 {
		t.Errorf("%v", mistakes)
	}
	if _, err := Decode([]byte("\ufeffx: 5\n"), &v); err == nil || !strings.HasPrefix(err.Error(), "line 1: unknown field \"x\"") {
		t.Error(err)
	}
}
