package quantity

import "testing"

func TestMarshalMeasured(t *testing.T) {
	figures := struct {
		Count int `json:"count"`
		Min   int `json:"min"`
	}{}
	for measured, want := range map[bool]string{true: `{"count":0,"min":0}`, false: `{"count":0,"min":null}`} {
		if text, err := MarshalMeasured(measured, figures, "min"); err != nil || string(text) != want {
			t.Errorf("%v: %s, %v; want %s", measured, text, err, want)
		}
	}
	if _, err := MarshalMeasured(false, func() {}); err == nil {
		t.Error("a function was encoded")
	}
	if got := FormatMeasuredNanos(false, 0) + FormatMeasuredNanos(true, 5); got != "-"+FormatNanos(5) {
		t.Error(got)
	}
}
