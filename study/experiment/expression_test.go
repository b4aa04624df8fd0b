package experiment

import (
	"fmt"
	"strings"
	"testing"
)

var sample = map[string]any{
	"delivered": 998.0, "packets": 1000.0, "name": "udp", "aborted": false,
	"end": map[string]any{"sum": map[string]any{"lost": 2.0}},
}

func lookupSample(name string) (any, error) {
	return Names(sample, nil, Output{Fields: map[string]any{"rate": 3.0}})(name)
}

func TestExpressions(t *testing.T) {
	for text, want := range map[string]bool{
		"delivered < 0.999*packets":              true,
		"delivered >= 0.999*packets":             false,
		"end.sum.lost == 2":                      true,
		`name == "udp" && !aborted`:              true,
		`name != "udp" || aborted == true`:       false,
		"(rate - 1) / 2 == 1":                    true,
		"abs(-3) + max(1, 2, 3) - min(4, 5) > 1": true,
		"7 % 4 == 3 && sqrt(16) == 4":            true,
		"-rate < +1 && log(1) == 0":              true,
		"aborted":                                false,
		"aborted || absent > 1 || true":          false,
		"true || absent":                         true,
	} {
		e, err := ParseExpression(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		got, err := e.Holds(lookupSample)
		if strings.Contains(text, "absent") && !strings.HasPrefix(text, "true") {
			if err == nil || !strings.Contains(err.Error(), "column 12: no field absent") {
				t.Errorf("%q: error is %v", text, err)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
}

func TestExpressionMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "column 1",
		"a <":                     "column 4",
		"1 + 1":                   "column 1: the expression is a number, not a condition",
		`"x"`:                     "column 1: the expression is a text",
		`a < "x"`:                 "column 5: a number is needed, this is a text",
		`1 == "x"`:                "column 3: a number cannot equal a text",
		"a && 3":                  "column 6: a condition is needed",
		"!3":                      "column 2: a condition is needed",
		"a << 2":                  "column 3: there is no operator <<",
		"&a":                      "column 1: there is no operator &",
		"a[1] > 2":                "column 1: only names",
		"func() bool {return 1}":  "column 1: only names",
		"f(1) > 2":                "column 1: no such function",
		"abs(1, 2) > 2":           "column 1: abs has another number of arguments",
		"'a' == name":             "column 1: 'a' is neither",
		"0x10 > a":                "column 1: \"0x10\" is not a decimal number",
		"f(1).b > 2":              "a name has the form",
		strings.Repeat("a", 3000): "the limit is 2000",
	} {
		if _, err := ParseExpression(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error is %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"name > 3":     "column 1: a number is needed, this is a text",
		"end":          "neither a number nor a text",
		"name == rate": "a text cannot equal a number",
		"rate":         "not a condition",
		"!rate":        "a condition is needed",
	} {
		e, err := ParseExpression(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if _, err := e.Holds(lookupSample); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error is %v, want %q", text, err, want)
		}
	}
}

// TestSeen: a message shows the values that a condition was about.
func TestSeen(t *testing.T) {
	e, err := ParseExpression("rate > 5 && absent < 3 && end.sum.lost == 2")
	if err != nil {
		t.Fatal(err)
	}
	if got := e.Seen(lookupSample); got != " (rate is 3, end.sum.lost is 2)" {
		t.Errorf("seen is %q", got)
	}
	if _, err := lookupSample("destination.lost"); err == nil || !strings.Contains(err.Error(), "treatments counted aborted, delivered, end.sum, name, packets") {
		t.Errorf("error is %v", err)
	}
}

func FuzzExpression(f *testing.F) {
	for _, text := range []string{"delivered < 0.999*packets", `name == "udp" && !aborted`, "min(end.sum.lost, 1) > -2 % 3", "((a", "a.b.c"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParseExpression(text)
		if err != nil {
			return
		}
		// The text of a valid expression is one with the same result.
		again, err := ParseExpression(e.String())
		if err != nil {
			t.Fatal(err)
		}
		first, firstErr := e.Holds(lookupSample)
		second, secondErr := again.Holds(lookupSample)
		if first != second || fmt.Sprint(firstErr) != fmt.Sprint(secondErr) {
			t.Errorf("%v, %v and then %v, %v", first, firstErr, second, secondErr)
		}
	})
}
